import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Redis } from 'ioredis';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import { CommitWatermark } from '../../shared/redis/commit-watermark.js';
import { Acknowledgement } from './acknowledgement.js';
import { ReplicationWatch } from './replication-watch.js';

const WAIT_MS = 1_500;
const ENTRY = '7-1';

describe('a durable response', () => {
  beforeEach(() => void jest.useFakeTimers());
  afterEach(() => void jest.useRealTimers());

  const unconnected = new Redis({ lazyConnect: true });
  /** @param replyMs how long Redis takes to say which entry is the last one */
  const acknowledgement = (replyMs: number) => {
    const commits = new CommitWatermark(unconnected, 10);
    const replication = new ReplicationWatch(
      unconnected,
      0,
      { waitMs: WAIT_MS, roundMs: WAIT_MS, maxWaiting: 1 },
      () => null,
    );
    const lastIdInService = () => new Promise<string>((resolve) => setTimeout(resolve, replyMs, ENTRY));
    return {
      commits,
      acknowledgement: new Acknowledgement(commits, replication, { lastIdInService }, { durableWaitMs: WAIT_MS }),
    };
  };

  it('waits no longer when Redis takes its time to say what to wait for', async () => {
    const { acknowledgement: slow } = acknowledgement(1_000);
    const refused = expect(slow.held({ durable: true, journalId: '' })).rejects.toThrow(EngineUnavailable);
    await jest.advanceTimersByTimeAsync(WAIT_MS);
    expect(jest.getTimerCount()).toBe(0);
    await refused;
  });

  it('is sent if its entry was committed meanwhile, however late Redis says so', async () => {
    const { commits, acknowledgement: late } = acknowledgement(2 * WAIT_MS);
    const held = late.held({ durable: true, journalId: '' });
    commits.heard(ENTRY);
    await jest.advanceTimersByTimeAsync(2 * WAIT_MS);
    await expect(held).resolves.toBeUndefined();
  });
});
