import type { Difference, Verdict } from '../contracts/verdict.js';
import { bucketOfReservation } from '../domain/buckets.js';
import type { StoredCampaign } from '../postgres/campaigns.js';
import type { RedemptionsTable } from '../postgres/redemptions.js';
import type { Archived } from '../sale/sale-reader.js';
import { CampaignPart, type PartDeps } from './campaign-part.js';
import { asCounters, compareHeads, comparePlaces, compareReservations } from './compare.js';

const BATCH = 1_000;
/** How many differences are listed. All are counted. */
const LISTED_DIFFERENCES = 100;
/**
 * How often the comparison is repeated if the campaign is archived meanwhile. One repetition is usually enough: runs of
 * the archive are a minute apart, and a comparison takes seconds.
 */
const TRIES = 3;

/** `parts`: one for each bucket of the campaign, in their order. */
export type ImageDeps = { parts: readonly PartDeps[]; redemptions: RedemptionsTable };

type Side = Difference['side'];
type Counts = { confirmed: number; voided: number; lost: number; drift: number; surplus: number };

/**
 * Compares Redis, the journal and Postgres: every reservation, every place in line, the counters and the status. The
 * records of Redis are rewound by the journal to the cursor of the rows, page by page, while the sale goes on. So no
 * entry that is still to be persisted is a difference, and the comparison waits for nothing.
 * @returns the counters alone, without differences, when the reservations of the campaign were dropped
 * @throws Uncovered when the journal no longer has the entries between the rows and Redis
 */
export async function compareCampaign(deps: ImageDeps, campaign: StoredCampaign): Promise<Verdict> {
  if (campaign.redemptionsDroppedAt) return verdictOfDropped(campaign);
  for (let tries = 1; ; tries += 1) {
    const archived = await archivedOf(deps, campaign);
    const verdict = await new Comparison(deps, campaign, archived).run();
    // If the campaign was archived during the comparison, the records moved meanwhile, so the comparison is repeated.
    const now = await archivedOf(deps, campaign);
    if (tries === TRIES || now.every((one, bucket) => one?.pass === archived[bucket]?.pass)) return verdict;
  }
}

/** Compares status, total, units by state and number of waiting users alone. @throws Uncovered */
export async function headsDiffer(deps: ImageDeps, campaign: StoredCampaign): Promise<boolean> {
  for (const [bucket, part] of deps.parts.entries()) {
    const { head } = await new CampaignPart(part, campaign, bucket).head();
    if (head && !compareHeads(head.redis, head.postgres).next().done) return true;
  }
  return false;
}

/** The pass that archived each bucket; null = Redis has its records. */
export const archivedOf = ({ parts }: ImageDeps, { productId }: StoredCampaign): Promise<(Archived | null)[]> =>
  Promise.all(parts.map(({ sale }) => sale.archived(productId)));

/** Voided reservations count as confirmed, because only the rows distinguished them. */
function verdictOfDropped({ productId, reservations }: StoredCampaign): Verdict {
  const nothing = { voided: 0, in_flight: 0, lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] };
  return { product_id: productId, confirmed: reservations, persisted: reservations, ...nothing };
}

/** One comparison of a campaign. Keeps counts and the first differences, so it does not grow with the campaign. */
class Comparison {
  readonly #parts: readonly CampaignPart[];
  readonly #differences: Difference[] = [];
  readonly #counts: Counts = { confirmed: 0, voided: 0, lost: 0, drift: 0, surplus: 0 };

  /** @param archived of each bucket: set = Redis has only the records of recalled users, the others have sums */
  constructor(
    readonly deps: ImageDeps,
    readonly campaign: StoredCampaign,
    readonly archived: readonly (Archived | null)[],
  ) {
    this.#parts = deps.parts.map((part, bucket) => new CampaignPart(part, campaign, bucket));
  }

  async run(): Promise<Verdict> {
    const { deps, campaign } = this;
    for (const part of this.#parts) await this.#compareRecords(part);
    await this.#compareRows();
    for (const part of this.#parts) if (!this.archived[part.bucket]) await this.#compareLine(part);
    await this.#compareTickets();
    const [rows, duplicated] = await Promise.all([
      deps.redemptions.stock(campaign.id),
      deps.redemptions.duplicates(campaign.id),
    ]);
    this.#list(duplicated.map(asDuplicate));
    for (const part of this.#parts) await this.#compareHead(part);
    const { confirmed, voided, lost, drift, surplus } = this.#counts;
    const over = rows && rows.total !== null ? rows.held + rows.redeemed + rows.burned - rows.total : null;
    return {
      product_id: campaign.productId,
      confirmed,
      persisted: confirmed - lost,
      voided,
      in_flight: await this.#inFlight(),
      lost,
      duplicated: duplicated.length,
      over_cap: over === null ? 0 : Math.max(0, over, over + surplus),
      drift,
      differences: this.#differences,
    };
  }

  /**
   * From Redis to Postgres: finds what Postgres lacks. The other pass compares the rest, but in an archived campaign,
   * where Redis has few records.
   */
  async #compareRecords(part: CampaignPart): Promise<void> {
    const isArchived = this.archived[part.bucket] !== null;
    for await (const all of part.redis.reservationIds(BATCH)) {
      const ids = isArchived ? all : await part.postgres.missing(all);
      if (ids.length > 0) await this.#compareReservations(part, ids, (side) => isArchived || side === 'redis');
    }
  }

  /** From Postgres to Redis: each row once. */
  async #compareRows(): Promise<void> {
    const [first] = this.#parts;
    if (!first || this.archived.every((one) => one !== null)) return;
    for await (const ids of first.postgres.reservationIds(BATCH)) {
      for (const [part, own] of this.#byBucket(ids, bucketOfReservation)) {
        if (this.archived[part.bucket]) continue;
        const { redis, postgres } = await this.#compareReservations(part, own, (side) => side !== 'redis');
        const isVoided = (id: string) => redis.facts.has(id) && postgres.get(id)?.state === 'voided';
        this.#countVoided(own.filter(isVoided).length);
      }
    }
  }

  /** Counts and lists the differences of some sides. @returns both sides */
  async #compareReservations(part: CampaignPart, ids: readonly string[], counts: (side: Side) => boolean) {
    const { redis, postgres } = await part.reservations(ids);
    for (const { surplus, ...difference } of compareReservations(redis, postgres, ids)) {
      if (!counts(difference.side)) continue;
      this.#counts[difference.side === 'redis' ? 'lost' : 'drift'] += 1;
      this.#counts.surplus += surplus;
      this.#list([difference]);
    }
    return { redis, postgres };
  }

  #countVoided(reservations: number): void {
    this.#counts.voided += reservations;
    this.#counts.confirmed -= reservations;
  }

  /** From Redis to Postgres, as for reservations. */
  async #compareLine(part: CampaignPart): Promise<void> {
    for await (const users of part.redis.waitingUsers(BATCH)) await this.#comparePlaces(part, users, 'redis');
  }

  async #compareTickets(): Promise<void> {
    const [first] = this.#parts;
    if (!first) return;
    for await (const tickets of first.postgres.waitingUsers(BATCH)) {
      for (const [part, own] of this.#byBucket(tickets, ({ reservation }) => bucketOfReservation(reservation))) {
        if (this.archived[part.bucket]) continue;
        const users = own.map(({ user }) => user);
        await this.#comparePlaces(part, users, 'postgres');
      }
    }
  }

  /** @param side that has places which the other one lacks; `postgres` also has those that differ */
  async #comparePlaces(part: CampaignPart, users: readonly string[], side: Side): Promise<void> {
    const { redis, postgres } = await part.places(users);
    for (const difference of comparePlaces(redis, postgres, users)) {
      if (difference.side !== side) continue;
      this.#counts.drift += 1;
      this.#list([difference]);
    }
  }

  async #compareHead(part: CampaignPart): Promise<void> {
    const { head, reservations } = await part.head();
    const archived = this.archived[part.bucket];
    if (archived) await this.#compareSums(part, archived);
    else this.#counts.confirmed += reservations;
    if (!head) return;
    for (const { drift, ...difference } of compareHeads(head.redis, head.postgres)) {
      this.#counts.drift += drift;
      this.#list([difference]);
    }
  }

  /** Compares an archived campaign, which has only counters in Redis, with its reservations in Postgres. */
  async #compareSums({ bucket }: CampaignPart, { promised }: Archived): Promise<void> {
    const { id, buckets } = this.campaign;
    const { reservations, voided } = await this.deps.redemptions.sums(id, buckets > 1 ? bucket : null);
    this.#counts.confirmed += promised;
    this.#countVoided(voided);
    this.#counts.lost += Math.max(0, promised - reservations);
    this.#counts.drift += Math.max(0, reservations - promised);
    const why = 'the number of reservations in Postgres differs from the number that were made';
    if (promised !== reservations) this.#list([asCounters(why, promised, reservations)]);
  }

  *#byBucket<Item>(items: readonly Item[], bucketOf: (item: Item) => number): Generator<[CampaignPart, Item[]]> {
    for (const part of this.#parts) {
      const own = this.#parts.length === 1 ? [...items] : items.filter((item) => bucketOf(item) === part.bucket);
      if (own.length > 0) yield [part, own];
    }
  }

  async #inFlight(): Promise<number> {
    const positions = await Promise.all(this.deps.parts.map(({ journal }) => journal.position()));
    return positions.reduce((sum, { entries }) => sum + entries, 0);
  }

  #list(differences: readonly Difference[]): void {
    this.#differences.push(...differences.slice(0, LISTED_DIFFERENCES - this.#differences.length));
  }
}

function asDuplicate({ redemption_id, why }: { redemption_id: string; why: string }): Difference {
  return { reservation: redemption_id, side: 'postgres', why, redis: null, postgres: null };
}
