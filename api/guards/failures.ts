import type { Redis } from 'ioredis';
import type { UserId } from '../../shared/domain/ids.js';
import type { Log } from '../../shared/observability/log.js';
import { keys } from '../../shared/redis/keys.js';
import type { Bans } from './bans.js';

export type FailureLimits = {
  failuresBeforeWait: number;
  failuresBeforeBan: number;
  firstWaitMs: number;
  failureBanMs: number;
  failureMemoryMs: number;
};

/**
 * Guesses of codes by one user: after the fifth that fails he waits, each further one doubles the wait, the tenth is a ban for
 * an hour. A redemption that succeeds begins anew; a check does not, since one known code would reset a guesser. Counted in
 * Redis for all processes, behind the answer's back; the wait is told to every process, so whoever waits costs no round trip.
 */
export class Failures {
  constructor(
    readonly redis: Redis,
    readonly bans: Bans,
    readonly log: Log,
    readonly limits: FailureLimits,
  ) {}

  /** @param times how many attempts that were not told of before */
  failed(user: UserId, times = 1): void {
    this.#count(user, times).catch((error: unknown) =>
      this.log.debug({ reason: String(error) }, 'a failed attempt was not counted'),
    );
  }

  succeeded(user: UserId): void {
    this.redis.unlink(keys.failures(user)).catch(() => {
      // It is forgotten by itself.
    });
  }

  /** How long a user waits after so many failures. */
  waitMs(failures: number): number {
    const beyond = failures - this.limits.failuresBeforeWait;
    return beyond < 0 ? 0 : this.limits.firstWaitMs * 2 ** beyond;
  }

  async #count(user: UserId, times: number): Promise<void> {
    const { failuresBeforeBan, failureBanMs, failureMemoryMs } = this.limits;
    if (this.bans.isAllowed({ user })) return;
    const key = keys.failures(user);
    const [failures] = await Promise.all([this.redis.incrby(key, times), this.redis.pexpire(key, failureMemoryMs)]);
    if (failures >= failuresBeforeBan) {
      await this.redis.unlink(key);
      await this.bans.byRule('user', user, failureBanMs, `${failures} attempts in a row failed`, 'failures');
      return;
    }
    const waitMs = this.waitMs(failures);
    if (waitMs > 0) await this.bans.pause(user, waitMs);
  }
}
