import { FORMAT } from '../../shared/domain/format.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { type Epoch, encodeEpoch } from '../../shared/redis/epoch.js';
import { campaignKeys, keys } from '../../shared/redis/keys.js';
import type { ScriptRunner } from '../../shared/redis/script-runner.js';
import {
  type BeginHistoryOutcome,
  beginFillScript,
  beginHistoryScript,
  endFillScript,
  fillScript,
} from '../../shared/sale/scripts/fill.js';

const FILL_KEYS = { filler: keys.filler, epoch: keys.epoch, format: keys.format, journal: keys.journal };

export type FillAction =
  | 'remove'
  | 'reservations'
  | 'people'
  | 'holders'
  | 'codes'
  | 'homes'
  | 'gained_codes'
  | 'answers'
  | 'orders'
  | 'payments'
  | 'numbers';

/**
 * Fills a Redis that is out of service. The worker that began last holds the token. A write of any other worker, for
 * example one that was frozen, throws FencedOut and changes nothing.
 */
export class RedisFill {
  /** @param scripts a runner without a gate, because the gate rejects calls while Redis is filled */
  constructor(readonly scripts: ScriptRunner) {}

  /** Takes Redis out of service: from here on every script replies `rebuilding`. @param token unique to this attempt */
  async begin(token: string): Promise<void> {
    await this.scripts.run(beginFillScript, { keys: FILL_KEYS, args: { token, format: FORMAT } });
  }

  /** @throws FencedOut */
  async write(
    token: string,
    action: FillAction,
    keyNames: readonly string[],
    data: readonly (string | number)[] = [],
  ): Promise<void> {
    await this.scripts.run(fillScript, {
      keys: { ...FILL_KEYS, filled_keys: keyNames },
      args: { token, action },
      each: data.map((value) => ({ value })),
    });
  }

  /**
   * Removes a campaign that is in another shard, with its records. Those of requests expire by themselves.
   * @param no its number in the directory
   * @throws FencedOut
   */
  async removeCampaign(token: string, no: number, product: ProductId): Promise<void> {
    await this.write(token, 'remove', [...campaignKeys(product), keys.payments(product)]);
    await this.write(token, 'numbers', [keys.directory], [no]);
  }

  /** Removes the journal, so that the first entry of the next history has the number 0. @throws FencedOut */
  resetJournal(token: string): Promise<void> {
    return this.write(token, 'remove', [keys.journal]);
  }

  /** Puts Redis into service. @throws FencedOut */
  async end(token: string, epoch: Epoch): Promise<void> {
    await this.scripts.run(endFillScript, { keys: FILL_KEYS, args: { token, epoch: encodeEpoch(epoch) } });
  }

  /**
   * Begins another history in a Redis that keeps its data.
   * @param expected the epoch that was read; null = none
   * @param lastId last entry of the journal when Postgres registered the history. The script refuses if there is a
   *   later entry, because neither history would contain it
   */
  beginHistory(expected: Epoch | null, next: Epoch, lastId: string): Promise<BeginHistoryOutcome> {
    return this.scripts.run(beginHistoryScript, {
      keys: FILL_KEYS,
      args: { expected: expected ? encodeEpoch(expected) : '', next_epoch: encodeEpoch(next), last_id: lastId },
    });
  }
}

/** The token with which a process fills the Redis of a generation. */
export function tokenOf(processId: string, generation: number): string {
  return `${processId}-${generation}`;
}
