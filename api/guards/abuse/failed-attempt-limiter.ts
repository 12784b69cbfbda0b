import type { UserId } from '../../../shared/domain/ids.js';
import type { Log } from '../../../shared/observability/log.js';
import { keys } from '../../../shared/redis/keys.js';
import type { CallerShards } from '../../../shared/shards/shards.js';
import type { Bans } from './bans.js';

export type FailedAttemptLimits = {
  failuresBeforeWait: number;
  firstWaitMs: number;
  longestWaitMs: number;
  failuresBeforeBan: number;
  failureBanMs: number;
  failureMemoryMs: number;
};

/** The user of an attempt with a code. */
export type Guesser = { user: UserId; network: string; proven: boolean };

/**
 * Returns the key that failed attempts count for: a proven user id by itself, an unproven one together with the
 * network, because any client can send any user id.
 */
export function callerOf({ user, network, proven }: Guesser): string {
  return proven ? user : `${user}|${network}`;
}

/**
 * Limits failed attempts with codes. From `failuresBeforeWait` on, each failure starts a cooldown for codes, which
 * doubles every time. From `failuresBeforeBan` on, a proven user gets `failureBanMs`. For an unproven user id the
 * cooldown is at most `longestWaitMs`, because another person may have used the id. A cooldown does not affect
 * checkouts. A successful redemption resets the count. A successful check does not, because a guesser could reset the
 * count with one known code. Failures are counted in Redis for all processes, after the response; every process
 * receives the cooldown and enforces it.
 */
export class FailedAttemptLimiter {
  constructor(
    readonly shards: Pick<CallerShards, 'spread'>,
    readonly bans: Bans,
    readonly log: Log,
    readonly limits: FailedAttemptLimits,
  ) {}

  /** Counts failures in the background. @param requests number of failed requests that were not counted before */
  failed(guesser: Guesser, requests = 1): void {
    this.#count(guesser, requests).catch((error: unknown) =>
      this.log.debug({ reason: String(error) }, 'failed attempt not counted'),
    );
  }

  succeeded(guesser: Guesser): void {
    const caller = callerOf(guesser);
    this.shards
      .spread(caller)
      .commands.unlink(keys.failures(caller))
      .catch(() => {
        // The count expires by itself.
      });
  }

  /** Returns the cooldown after a number of failures, milliseconds; 0 = none. */
  waitMs(failures: number, proven: boolean): number {
    const { failuresBeforeWait, firstWaitMs, longestWaitMs, failuresBeforeBan, failureBanMs } = this.limits;
    if (proven && failures >= failuresBeforeBan) return failureBanMs;
    const beyond = failures - failuresBeforeWait;
    return beyond < 0 ? 0 : Math.min(longestWaitMs, firstWaitMs * 2 ** beyond);
  }

  async #count(guesser: Guesser, requests: number): Promise<void> {
    if (this.bans.isAllowed(guesser)) return;
    const caller = callerOf(guesser);
    const key = keys.failures(caller);
    const { commands } = this.shards.spread(caller);
    const [failures] = await Promise.all([
      commands.incrby(key, requests),
      commands.pexpire(key, this.limits.failureMemoryMs),
    ]);
    const waitMs = this.waitMs(failures, guesser.proven);
    if (waitMs > 0) await this.bans.pause(caller, waitMs);
  }
}
