import type { RawEntry } from '../../shared/contracts/journal.js';
import { PackedPromise } from '../../shared/redis/packed-promises.js';

/** Durable campaigns that are remembered; a sale has one. */
const CAMPAIGNS_KEPT = 10_000;

/**
 * Knows the campaigns whose responses wait for the commit in Postgres (`confirmation: durable`), by their packed entries:
 * payments and releases do not say it. What is not known costs such a response some milliseconds.
 */
export class AwaitedCampaigns {
  readonly #numbers = new Set<number>();

  /** Whether a response may wait for one of the entries. */
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
