import type { IdempotencyKey, ProductId, UserId } from '../domain/ids.js';
import { deriveUsers } from '../image/derive.js';
import type { ArchivedPeople, ArchivedPerson, PersonOf } from '../postgres/archived-people.js';
import type { CampaignArchive } from '../sale/campaign-archive.js';
import { assertCovered, type Committed, type Recall } from '../sale/recall.js';
import { GroupedReads } from './grouped-reads.js';

export type RecallLimits = {
  recallGroup: number;
  recallsWaiting: number;
  recalledAnswerMs: number;
  idempotencyTtlMs: number;
};

/** Recalls users of archived campaigns: reads their records from Postgres and writes them to Redis. */
export class ArchiveRecall implements Recall {
  readonly #people: GroupedReads<PersonOf, ArchivedPerson>;
  readonly #users: GroupedReads<string, string | null>;
  readonly #committed: GroupedReads<ProductId, Committed>;

  constructor(
    people: Pick<ArchivedPeople, 'read' | 'usersOf' | 'committed'>,
    /** The shard that has the campaigns. */
    readonly shard: number,
    readonly archive: CampaignArchive,
    /** The current time by the clock of Redis. */
    readonly nowMs: () => number,
    readonly limits: RecallLimits,
  ) {
    const grouped = { group: limits.recallGroup, waiting: limits.recallsWaiting };
    this.#people = new GroupedReads((asked) => people.read(asked), grouped);
    this.#users = new GroupedReads((asked) => people.usersOf(asked), grouped);
    this.#committed = new GroupedReads(
      async (products) => Array(products.length).fill(await people.committed(shard, products)),
      grouped,
    );
  }

  async answer(product: ProductId, user: UserId, key: IdempotencyKey, pass: string): Promise<boolean> {
    const [before] = await Promise.allSettled([this.#assertKnown(product, pass)]);
    const { reservations, tickets, answers } = await this.#people.ask({ product, user });
    const all = [
      ...reservations.map((row) => ({ ...row, madeMs: row.reservedMs })),
      ...tickets.map((row) => ({ ...row, madeMs: row.joinedMs })),
      ...answers,
    ];
    const { idempotencyTtlMs, recalledAnswerMs } = this.limits;
    for (const { key: one, answer, madeMs } of all) {
      if (one !== key || !answer) continue;
      const leftMs = Math.round(madeMs + idempotencyTtlMs - this.nowMs());
      if (leftMs <= 0) return false;
      await this.archive.rememberAnswer(user, key, answer, Math.min(leftMs, recalledAnswerMs));
      return true;
    }
    // A record never changes. Only that there is none has to be certain.
    if (before.status === 'rejected') throw before.reason;
    await this.#assertKnown(product, pass);
    return false;
  }

  async person(product: ProductId, user: UserId, pass: string): Promise<boolean> {
    await this.#assertKnown(product, pass);
    const { reservations, tickets } = await this.#people.ask({ product, user });
    await this.#assertKnown(product, pass);
    // Only closed campaigns are archived.
    const derived = deriveUsers([{ user, reservations, tickets }], { closed: true });
    const [found] = derived.people;
    if (!found) return false;
    // The call may come too late, for example when the campaign was archived again meanwhile. The next request reads
    // what is in Redis then.
    await this.archive.restoreUser(product, pass, user, found[1], derived.reservations, new Map(derived.payments));
    return true;
  }

  async reservation(product: ProductId, reservation: string, pass: string): Promise<boolean> {
    await this.#assertKnown(product, pass);
    const user = await this.#users.ask(reservation);
    if (user !== null) return this.person(product, user as UserId, pass);
    await this.#assertKnown(product, pass);
    return false;
  }

  /**
   * Called before and after rows are read, because Postgres may be set back or repaired in between.
   * @throws EngineUnavailable when Postgres lacks records from before the pass
   */
  #assertKnown(product: ProductId, pass: string): Promise<void> {
    return assertCovered(product, pass, () => this.#committed.ask(product));
  }
}
