import { afterAll, expect, jest, test } from '@jest/globals';
import { ServerClock } from './server-clock.js';

/** The time of the server, which stands still. */
const SERVER = Date.parse('2026-11-23T12:00:00.700Z');
const SECOND = 1_000;
/** By `performance.now()`. */
const ASKED = 5_000;
const held = jest.spyOn(performance, 'now').mockReturnValue(ASKED);
afterAll(() => held.mockRestore());

const headers = (dateMs: number, age?: string) =>
  new Headers({ Date: new Date(dateMs).toUTCString(), ...(age === undefined ? {} : { Age: age }) });
const text = (ms: number) => new Date(ms).toISOString();
/** The same in whole seconds, as `Date` has it. */
const whole = (ms: number) => Math.floor(ms / SECOND) * SECOND;

test('a body that a browser has kept does not set the clock back', () => {
  const clock = new ServerClock();
  clock.learnFrom(headers(SERVER), text(SERVER - 300 * SECOND), ASKED);
  expect(clock.now()).toBe(whole(SERVER));
});

test('a response that a CDN has held counts with its age', () => {
  const clock = new ServerClock();
  clock.learnFrom(headers(SERVER - 60 * SECOND, '60'), text(SERVER - 60 * SECOND), ASKED);
  expect(clock.now()).toBe(whole(SERVER));
});

test('a time in the body is more exact, and a response without times changes nothing', () => {
  const clock = new ServerClock();
  clock.learnFrom(headers(SERVER), text(SERVER), ASKED);
  expect(clock.now()).toBe(SERVER);
  clock.learnFrom(headers(SERVER, 'soon'), null, ASKED);
  clock.learnFrom(new Headers({ Date: 'today' }), null, ASKED);
  expect(clock.now()).toBe(SERVER);
});

test('a change of the clock of the device changes nothing', () => {
  const clock = new ServerClock();
  clock.learn(SERVER, ASKED);
  const changed = jest.spyOn(Date, 'now').mockReturnValue(0);
  expect(clock.now()).toBe(SERVER);
  changed.mockRestore();
});
