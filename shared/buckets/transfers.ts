import { setTimeout as sleep } from 'node:timers/promises';
import type { CampaignId, ProductId } from '../domain/ids.js';
import type { Move } from '../domain/rounds.js';
import { EngineUnavailable } from '../errors/faults.js';
import type { CampaignBuckets, Transit } from '../postgres/campaign-buckets.js';
import type { Sales } from '../sale/sales.js';
import type { MoveOutOutcome } from '../sale/scripts/buckets.js';

/** How often the commit of transfers is looked for. */
const LOOK_AGAIN_MS = 5;

/** What a divided campaign has in Postgres: the transfers on their way, and its units. */
export type InTransit = { transfers: Transit[]; total: number | null };

/**
 * Moves units and codes between the buckets of a campaign. Units arrive only after Postgres has that they left, so that
 * no order of the journals can break the cap, and codes too, so that no two buckets may give one. Transfers on their
 * way are in Postgres, so any process completes those that another one has begun. Twice is harmless: a bucket knows the
 * last transfer that arrived from each other one, and every process moves them in their order.
 */
export class Transfers {
  constructor(
    readonly sales: Sales,
    readonly table: CampaignBuckets,
    readonly limits: { transferCommitMs: number },
  ) {}

  /**
   * Moves units, and waits until they have arrived, or for the commit at most `transferCommitMs`. What has left by then
   * is completed by a later call of `arrive`. A bucket that has fewer units or codes than planned moves none.
   * @throws EngineUnavailable
   */
  async move(product: ProductId, id: CampaignId, moves: readonly Move[]): Promise<void> {
    const begun = await Promise.all(
      moves.map(async (move) => {
        const { from } = move;
        const outcome = await this.#begin(product, id, move);
        return outcome.kind === 'moved' ? [{ from, out: outcome.outNo }] : [];
      }),
    );
    const moved = begun.flat();
    const until = performance.now() + this.limits.transferCommitMs;
    while (moved.length > 0) {
      const left = await this.table.countLeft(id, moved);
      if (left === moved.length || performance.now() > until) break;
      await sleep(LOOK_AGAIN_MS);
    }
    await this.arrive(product, id);
  }

  /**
   * Completes every transfer of a campaign that is on its way. Transfers to a bucket that cannot be reached stay on
   * their way and do not delay the others; a later call completes them.
   * @returns what was on its way. @throws EngineUnavailable when Postgres cannot be used
   */
  async arrive(product: ProductId, id: CampaignId): Promise<InTransit> {
    const found = await this.table.inTransit(id);
    const byPair = new Map<string, Transit[]>();
    for (const one of found.transfers) {
      const pair = `${one.from}>${one.to}`;
      byPair.set(pair, [...(byPair.get(pair) ?? []), one]);
    }
    const results = await Promise.allSettled([...byPair.values()].map((some) => this.#inOrder(product, some)));
    for (const result of results)
      if (result.status === 'rejected' && !(result.reason instanceof EngineUnavailable)) throw result.reason;
    return found;
  }

  /** A bucket remembers a limited number of transfers, and drops those that have arrived when it needs room. */
  async #begin(product: ProductId, id: CampaignId, { from, to, units, codes }: Move): Promise<MoveOutOutcome> {
    const { buckets } = this.sales.of(product, from);
    const outcome = await buckets.moveOut(product, to, units, codes);
    if (outcome.kind !== 'full') return outcome;
    return buckets.moveOut(product, to, units, codes, await this.table.arrivedUpTo(id, from));
  }

  async #inOrder(product: ProductId, transfers: readonly Transit[]): Promise<void> {
    for (const { from, to, out, units, codes } of transfers) {
      const store = this.sales.of(product, to);
      const moveIn = () => store.buckets.moveIn(product, from, out, units, codes);
      const outcome = await moveIn();
      if (outcome.kind !== 'unknown_codes') continue;
      // The giver has learned of new codes before the receiver.
      await store.campaigns.addCodes(product, outcome.highest, this.sales.map.bucketsOf(product));
      await moveIn();
    }
  }
}
