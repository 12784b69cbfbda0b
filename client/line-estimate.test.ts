import { describe, expect, it } from '@jest/globals';
import { LineEstimate } from './line-estimate.js';

const line = (served: number, waiting = 500, must_be_seen = false) => ({ served, waiting, must_be_seen });

describe('The estimate of a place', () => {
  function following(position: number, before: ReturnType<typeof line> | null = line(1_000)) {
    const clock = { ms: 0 };
    const estimate = new LineEstimate(
      () => 60_000,
      () => clock.ms,
    );
    estimate.exact({ position, estimated_wait_seconds: 400 }, before);
    return { estimate, clock };
  }

  it('falls with the number of served users, and its wait with it', () => {
    const { estimate } = following(400);
    expect(estimate.at(line(1_000))).toEqual({ position: 400, queue_size: 500, estimated_wait_seconds: 400 });
    expect(estimate.at(line(1_100))).toEqual({ position: 300, queue_size: 500, estimated_wait_seconds: 300 });
    expect(estimate.at(line(1_100, 10))).toMatchObject({ position: 300, queue_size: 300 });
  });

  it('counts users who were served before its first data', () => {
    const { estimate } = following(400);
    expect(estimate.at(line(1_300))).toMatchObject({ position: 100 });
    expect(following(400).estimate.at(line(1_395))).toBe(null);
  });

  it('needs data from before the exact position', () => {
    const { estimate } = following(400, null);
    expect([estimate.isUseful(30_000), estimate.at(line(5))]).toEqual([true, null]);
    estimate.unchanged(line(1_000));
    expect(estimate.at(line(1_010))).toMatchObject({ position: 390 });
  });

  it('is of no use near the head, and none after its time', () => {
    expect(new LineEstimate(() => 60_000).isUseful(2_000)).toBe(true);
    expect(following(10).estimate.isUseful(2_000)).toBe(false);
    const { estimate, clock } = following(11);
    expect(estimate.isUseful(2_000)).toBe(true);
    expect(estimate.at(line(1_000))).toMatchObject({ position: 11 });
    expect(estimate.at(line(1_001))).toBe(null);
    clock.ms = 60_000;
    expect(estimate.at(line(1_000))).toBe(null);
    estimate.unchanged(line(1_000));
    expect(estimate.at(line(1_000))).toMatchObject({ position: 11 });
    estimate.expire();
    expect(estimate.at(line(1_000))).toBe(null);
  });

  it('is not begun if it is over before the next look', () => {
    const { estimate, clock } = following(400);
    clock.ms = 59_000;
    expect(estimate.isUseful(72_000)).toBe(true);
    clock.ms = 60_000;
    expect([59_999, 60_000].map((nextMs) => estimate.isUseful(nextMs))).toEqual([true, false]);
    expect(following(400, null).estimate.isUseful(72_000)).toBe(false);
  });

  it('counts the time until the data were requested, not until they came', () => {
    const { estimate, clock } = following(400);
    clock.ms = 70_000;
    expect(estimate.at(line(1_000), 59_999)).toMatchObject({ position: 400 });
    expect(estimate.at(line(1_000), 60_000)).toBe(null);
  });

  it('ends with a new line, and where users have to be seen', () => {
    const { estimate } = following(400);
    expect(estimate.at(line(997))).toBe(null);
    expect(estimate.at(line(1_000, 0))).toBe(null);
    expect(estimate.at(line(1_000, 500, true))).toBe(null);
    expect(estimate.isUseful(2_000)).toBe(true);
    estimate.unchanged(line(1_000, 500, true));
    expect(estimate.isUseful(2_000)).toBe(false);
  });
});
