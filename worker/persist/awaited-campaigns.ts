import type { RawEntry } from '../../shared/contracts/journal.js';
import { PackedPromise } from '../../shared/redis/packed-promises.js';

/** How many campaigns with `confirmation: durable` are remembered. A sale has one. */
const CAMPAIGNS_KEPT = 10_000;

/**
 * Remembers the campaigns whose responses wait for the commit in Postgres (`confirmation: durable`). It learns them
 * from packed entries, because entries of payments and releases do not contain the confirmation mode. If a campaign is
 * not known yet, its response waits some milliseconds longer for its batch.
 */
export class AwaitedCampaigns {
  readonly #numbers = new Set<number>();

  /** Whether a response may be waiting for the commit of one of the entries. */
  areIn(entries: readonly RawEntry[]): boolean {
    let found = false;
    for (const entry of entries) {
      const no = entry instanceof PackedPromise ? this.#learn(entry) : Number(entry.fields.no);
      found ||= this.#numbers.has(no);
    }
    return found;
  }

  #learn({ common: { no }, isDurable }: PackedPromise): number {
    if (!isDurable) this.#numbers.delete(no);
    else if (this.#numbers.size < CAMPAIGNS_KEPT) this.#numbers.add(no);
    return no;
  }
}
