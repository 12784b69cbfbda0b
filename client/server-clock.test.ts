import { afterAll, expect, jest, test } from '@jest/globals';
import { ServerClock } from './server-clock.js';

/** The time of this device, which stands still. The server is an hour ahead. */
const NOW = Date.parse('2026-11-23T12:00:00.700Z');
const SERVER = NOW + 3_600_000;
const SECOND = 1_000;
const held = jest.spyOn(Date, 'now').mockReturnValue(NOW);
afterAll(() => held.mockRestore());

const headers = (dateMs: number, age?: string) =>
  new Headers({ Date: new Date(dateMs).toUTCString(), ...(age === undefined ? {} : { Age: age }) });
const text = (ms: number) => new Date(ms).toISOString();
/** The same in whole seconds, as `Date` has it. */
const whole = (ms: number) => Math.floor(ms / SECOND) * SECOND;

test('a body that a browser has kept does not set the clock back', () => {
  const clock = new ServerClock();
  clock.learnFrom(headers(SERVER), text(SERVER - 300 * SECOND), NOW);
  expect(clock.now()).toBe(whole(SERVER));
});

test('a response that a CDN has held counts with its age', () => {
  const clock = new ServerClock();
  clock.learnFrom(headers(SERVER - 60 * SECOND, '60'), text(SERVER - 60 * SECOND), NOW);
  expect(clock.now()).toBe(whole(SERVER));
});

test('a time in the body is more exact, and a response without times changes nothing', () => {
  const clock = new ServerClock();
  clock.learnFrom(headers(SERVER), text(SERVER), NOW);
  expect(clock.now()).toBe(SERVER);
  clock.learnFrom(headers(SERVER, 'soon'), null, NOW);
  clock.learnFrom(new Headers({ Date: 'today' }), null, NOW);
  expect(clock.now()).toBe(SERVER);
});
