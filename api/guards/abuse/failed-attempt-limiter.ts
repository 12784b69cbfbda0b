import type { Redis } from 'ioredis';
import type { UserId } from '../../../shared/domain/ids.js';
import type { Log } from '../../../shared/observability/log.js';
import { keys } from '../../../shared/redis/keys.js';
import type { Bans } from './bans.js';

export type FailedAttemptLimits = {
  failuresBeforeWait: number;
  firstWaitMs: number;
  longestWaitMs: number;
  failuresBeforeBan: number;
  failureBanMs: number;
  failureMemoryMs: number;
};

/** Who tries codes. */
export type Guesser = { user: UserId; network: string; proven: boolean };

/**
 * What is counted against somebody who tries codes: a proven user everywhere, any other name only together with the network that
 * used it, since anybody can send any name.
 */
export function callerOf({ user, network, proven }: Guesser): string {
  return proven ? user : `${user}|${network}`;
}

/**
 * Failed requests with codes: after the fifth the caller has to wait before the next code, each further one doubles the wait. A
 * proven user waits an hour from the tenth on; for any other name the wait has a ceiling, as somebody else may have used it. It
 * keeps nobody from a checkout. A redemption that succeeds begins anew; a check does not, since one known code would reset a
 * guesser. Counted in Redis for all processes, after the response; every process is told of the wait and refuses by itself.
 */
export class FailedAttemptLimiter {
  constructor(
    readonly redis: Redis,
    readonly bans: Bans,
    readonly log: Log,
    readonly limits: FailedAttemptLimits,
  ) {}

  /** @param requests how many failed that were not counted before */
  failed(guesser: Guesser, requests = 1): void {
    this.#count(guesser, requests).catch((error: unknown) =>
      this.log.debug({ reason: String(error) }, 'a failed attempt was not counted'),
    );
  }

  succeeded(guesser: Guesser): void {
    this.redis.unlink(keys.failures(callerOf(guesser))).catch(() => {
      // It is forgotten by itself.
    });
  }

  /** How long a caller waits after so many failures, milliseconds; 0 = not at all. */
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
    const [failures] = await Promise.all([
      this.redis.incrby(key, requests),
      this.redis.pexpire(key, this.limits.failureMemoryMs),
    ]);
    const waitMs = this.waitMs(failures, guesser.proven);
    if (waitMs > 0) await this.bans.pause(caller, waitMs);
  }
}
