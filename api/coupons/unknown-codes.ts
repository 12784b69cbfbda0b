import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { Bans } from '../guards/abuse/bans.js';
import { LocalQuota } from '../guards/limits/local-quota.js';
import type { Quota } from '../guards/limits/quotas.js';

/** Counts unknown codes of a network. */
export type UnknownCodes = {
  readonly limit: number;
  readonly windowMs: number;
  /** Counts one. @returns how long the network must wait, ms; 0 = within the limit */
  take(network: string): number | Promise<number>;
  /** How long a network must wait that has reached the limit, ms; 0 = it has not. Counts nothing. */
  waitOf(network: string): number;
};

/**
 * Counts unknown codes in Redis for all processes: where codes are validated and redeemed by processes of different
 * roles, a guesser must not get the limit of each. A network that has reached it is announced to every process. While
 * Redis does not answer, this process counts.
 */
export class SharedUnknownCodes implements UnknownCodes {
  readonly limit: number;
  readonly windowMs: number;
  readonly #inProcess: LocalQuota;

  constructor(
    readonly quota: Quota,
    readonly bans: Pick<Bans, 'pause' | 'pausedMs'>,
    callersKept: number,
  ) {
    this.limit = quota.limit;
    this.windowMs = quota.windowSeconds * 1_000;
    this.#inProcess = new LocalQuota(this.limit, this.windowMs, callersKept);
  }

  async take(network: string): Promise<number> {
    const waitMs = this.waitOf(network);
    if (waitMs > 0) return waitMs;
    try {
      const { count, leftMs } = await this.quota.counted(network);
      // In the background: this process knows it already.
      if (count >= this.limit) this.bans.pause(pauseOf(network), leftMs).catch(() => {});
      return count > this.limit ? leftMs : 0;
    } catch (error) {
      if (!(error instanceof EngineUnavailable)) throw error;
      return this.#inProcess.take(network);
    }
  }

  waitOf(network: string): number {
    return this.bans.pausedMs(pauseOf(network));
  }
}

/** No caller has this name, because no user id has a space. */
const pauseOf = (network: string) => `unknown codes|${network}`;
