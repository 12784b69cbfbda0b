import { describe, expect, it } from '@jest/globals';
import { LineEstimate } from './line-estimate.js';

const line = (served: number, waiting = 500, must_be_seen = false) => ({ served, waiting, must_be_seen });

describe('The estimate of a place', () => {
  function following(position: number) {
    const clock = { ms: 0 };
    const estimate = new LineEstimate(() => clock.ms);
    estimate.exact({ position, estimated_wait_seconds: 400 });
    return { estimate, clock };
  }

  it('falls with the number of served users, and its wait with it', () => {
    const { estimate } = following(400);
    expect(estimate.suffices).toBe(true);
    expect(estimate.at(line(1_000))).toEqual({ position: 400, queue_size: 500, estimated_wait_seconds: 400 });
    expect(estimate.at(line(1_100))).toEqual({ position: 300, queue_size: 500, estimated_wait_seconds: 300 });
    expect(estimate.at(line(1_100, 10))).toMatchObject({ position: 300, queue_size: 300 });
  });

  it('is not enough near the head, after a minute, and before the first exact position', () => {
    expect(new LineEstimate().suffices).toBe(false);
    expect(following(10).estimate.suffices).toBe(false);
    const { estimate, clock } = following(11);
    expect(estimate.suffices).toBe(true);
    expect(estimate.at(line(5))).toMatchObject({ position: 11 });
    expect(estimate.at(line(6))).toBe(null);
    clock.ms = 60_000;
    expect(estimate.suffices).toBe(false);
    estimate.unchanged();
    expect(estimate.suffices).toBe(true);
    expect(estimate.at(line(6))).toMatchObject({ position: 11 });
  });

  it('ends with a new line, and where users have to be seen', () => {
    const { estimate } = following(400);
    estimate.at(line(7));
    expect(estimate.at(line(3))).toBe(null);
    expect(estimate.suffices).toBe(true);
    expect(estimate.at(line(7, 0))).toBe(null);
    expect(estimate.suffices).toBe(true);
    estimate.expire();
    expect(estimate.suffices).toBe(false);
    estimate.unchanged();
    expect(estimate.at(line(7, 500, true))).toBe(null);
    expect(estimate.suffices).toBe(false);
  });
});
