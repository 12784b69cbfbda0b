import { describe, expect, it } from '@jest/globals';
import { type Sale, simulate } from './seconds.mjs';

/** One core of Redis decides 10,000 a second. */
const SALE: Sale = {
  people: 25_000,
  units: 1_000,
  withinSeconds: 1,
  line: true,
  cpuUs: {
    checkout: { api: 100, redis: 100, persist: 100 },
    other: { api: 100, redis: 100, persist: 100 },
    rejection: { api: 10, redis: 0, persist: 0 },
  },
  polls: { perPerson: 0, api: 0, redis: 0 },
  apiCores: 10,
  redisCores: 1,
  sharedCores: null,
  inFlight: 100_000,
  persistPerSecond: 5_000,
  journalLimit: 1_000_000,
};

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

describe('simulate', () => {
  it('lets requests wait for the busy core, gives units first, and ends when the journal is empty', () => {
    const { seconds, lastResponseSeconds, persistedAfterSeconds, largestBacklog } = simulate(SALE);
    expect(seconds.map(({ decided }) => decided)).toEqual([10_000, 10_000, 5_000, 0, 0]);
    expect(seconds.map(({ reserved }) => reserved)).toEqual([1_000, 0, 0, 0, 0]);
    expect(seconds.map(({ waiting }) => waiting)).toEqual([15_000, 5_000, 0, 0, 0]);
    expect(seconds.map(({ backlog }) => backlog)).toEqual([5_000, 10_000, 10_000, 5_000, 0]);
    expect([lastResponseSeconds, persistedAfterSeconds, largestBacklog]).toEqual([2.5, 5, 10_000]);
  });

  it('rejects what the API cannot take, decides it when it comes back, and loses no request', () => {
    const { seconds, rejections, lastResponseSeconds } = simulate({ ...SALE, inFlight: 10_000 });
    expect(seconds[0]).toMatchObject({ decided: 10_000, waiting: 10_000, rejected: 5_000 });
    expect([rejections, sum(seconds.map(({ decided }) => decided)), lastResponseSeconds]).toEqual([5_000, 25_000, 2.5]);
  });

  it('decides no more than the journal has room for', () => {
    const { seconds } = simulate({ ...SALE, journalLimit: 6_000 });
    expect(Math.max(...seconds.map(({ backlog }) => backlog))).toBeLessThanOrEqual(6_000);
    expect(sum(seconds.map(({ persisted }) => persisted))).toBe(25_000);
  });

  it('decides less while the people in line poll', () => {
    const { seconds } = simulate({ ...SALE, polls: { perPerson: 0.3, api: 0, redis: 100 } });
    // 9,000 people in line poll 2,700 times: 0.27 of the core.
    expect(seconds[1]).toMatchObject({ decided: 7_300, redisBusy: 1 });
    expect(sum(seconds.map(({ decided }) => decided))).toBe(25_000);
  });

  it('shares the cores of one machine between all parts', () => {
    const { seconds } = simulate({ ...SALE, sharedCores: 1.5 });
    expect(seconds[0]).toMatchObject({ decided: 5_000, persisted: 5_000, backlog: 0 });
  });

  it('journals only those who get a unit where there is no line', () => {
    const { seconds } = simulate({ ...SALE, line: false });
    expect(sum(seconds.map(({ persisted }) => persisted))).toBe(1_000);
  });

  it('spreads arrivals over the time, and loses none to rounding', () => {
    const { seconds, lastResponseSeconds } = simulate({ ...SALE, people: 1_001, withinSeconds: 2.5 });
    expect(seconds.map(({ arrived }) => arrived)).toEqual([400, 401, 200]);
    expect(lastResponseSeconds).toBe(2.5);
  });

  it('says that it never ends when nothing is decided', () => {
    const { lastResponseSeconds, persistedAfterSeconds } = simulate({ ...SALE, journalLimit: 0 });
    expect([lastResponseSeconds, persistedAfterSeconds]).toEqual([null, null]);
  });
});
