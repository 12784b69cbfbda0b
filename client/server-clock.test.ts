import { afterAll, afterEach, expect, jest, test } from '@jest/globals';
import { ServerClock } from './server-clock.js';

/** The time of the server, which stands still. */
const SERVER = Date.parse('2026-11-23T12:00:00.700Z');
const SECOND = 1_000;
/** By `performance.now()`. */
const ASKED = 5_000;
const monotonic = jest.spyOn(performance, 'now').mockReturnValue(ASKED);
/** The clock of the device, which is 100 s behind. */
const device = jest.spyOn(Date, 'now').mockReturnValue(SERVER - 100 * SECOND);
afterEach(() => pass(0));
afterAll(() => {
  jest.restoreAllMocks();
});

/** So much time has passed since the beginning. @param asleepMs during which only the clock of the device ran */
function pass(awakeMs: number, asleepMs = 0): void {
  monotonic.mockReturnValue(ASKED + awakeMs);
  device.mockReturnValue(SERVER - 100 * SECOND + awakeMs + asleepMs);
}

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

test('a clock of the device that is set back changes nothing', () => {
  const clock = new ServerClock();
  clock.learn(SERVER, ASKED);
  device.mockReturnValue(0);
  expect(clock.now()).toBe(SERVER);
});

test('a device that slept shows the time, and the next response is believed', () => {
  const clock = new ServerClock();
  clock.learn(SERVER, ASKED);
  pass(10 * SECOND, 600 * SECOND);
  expect(clock.now()).toBe(SERVER + 610 * SECOND);
  // The clock of the device was also set forward, by 10 s.
  clock.learn(SERVER + 600 * SECOND, ASKED + 10 * SECOND);
  expect(clock.now()).toBe(SERVER + 600 * SECOND);
  pass(11 * SECOND, 600 * SECOND);
  expect(clock.now()).toBe(SERVER + 601 * SECOND);
});

test('a frame that waited while the device slept does not set the clock back', () => {
  const clock = new ServerClock();
  clock.hear(SERVER);
  pass(1 * SECOND, 3_600 * SECOND);
  clock.hear(SERVER + 1 * SECOND);
  expect(clock.now()).toBe(SERVER + 3_601 * SECOND);
  clock.hear(SERVER + 3_602 * SECOND);
  expect(clock.now()).toBe(SERVER + 3_602 * SECOND);
});

test('a device whose clock runs too fast is not ahead of the server', () => {
  const clock = new ServerClock();
  clock.learn(SERVER, ASKED);
  const day = 86_400 * SECOND;
  for (let at = 0; at <= day; at += 60 * SECOND) {
    pass(at * 1.000_05);
    clock.learn(SERVER + at, performance.now());
  }
  expect(clock.now() - (SERVER + day)).toBeLessThan(10);
});

test('a response over a slow network does not set the clock back', () => {
  const clock = new ServerClock();
  clock.learn(SERVER, ASKED);
  pass(30 * SECOND);
  clock.learn(SERVER + 29 * SECOND, performance.now());
  expect(clock.now()).toBe(SERVER + 30 * SECOND);
});
