import type { JournalEntry, RawEntry } from '../../shared/contracts/journal.js';
import { bucketOfNumber, campaignOfNumber } from '../../shared/domain/buckets.js';
import type { CampaignNo, ProductId, ReservationId } from '../../shared/domain/ids.js';
import { PostgresBehind } from '../../shared/errors/faults.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import { constraintOf, isRefusal, type Queryable } from '../../shared/postgres/pool.js';
import type { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import { voidedEvent } from '../../shared/projection/events-of-entries.js';
import type { JournalCursor } from '../../shared/projection/journal-cursor.js';
import { insertEvents } from '../../shared/projection/new-events.js';
import { Journal } from '../../shared/redis/journal.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';

/** Another row uses the user's allowance or order. The unit exists, and goes to the next user. */
const TAKEN_CONSTRAINTS = new Set([
  'redemptions_one_per_allowance',
  'redemptions_within_limit',
  'redemptions_one_per_order',
  'redemptions_combinable',
]);

/**
 * The cap of the campaign or of its bucket was reached: the unit never existed, or Postgres lacks a restock.
 */
const CAP_CONSTRAINTS = new Set(['campaigns_cap', 'campaign_buckets_cap']);
const SCAN_BATCH = 1_000;

/** Another row uses the code. The unit exists, but the code cannot be issued again. */
const CODE_CONSTRAINT = 'redemptions_one_per_code';

/**
 * Settles an entry that Postgres rejects even when it is written alone. A reservation, or a late payment that took a
 * unit again, is voided: in Redis by lua/void.lua, and in Postgres as a row with its reason. Any other entry is stored
 * in journal_rejects, counted and logged as an error.
 */
export class RefusedEntries {
  constructor(
    readonly sale: SaleStore,
    readonly redemptions: RedemptionsTable,
    readonly cursor: JournalCursor,
    readonly metrics: Metrics,
    readonly log: Log,
  ) {}

  /** @throws PostgresBehind when the entry must not be settled, because Postgres lacks earlier entries */
  async settle(client: Queryable, raw: RawEntry, entry: JournalEntry | null, error: Error): Promise<void> {
    const constraint = isRefusal(error) ? (constraintOf(error) ?? error.code ?? '') : error.name;
    if (entry && isRefusal(error) && (entry.kind === 'reserved' || entry.kind === 'redeemed')) {
      const product = await this.sale.reader.productOf(numberOf(raw));
      if (product && CAP_CONSTRAINTS.has(constraint)) await this.#assertNotBehind(client, product, raw);
      if (product && (await this.#void(client, product, entry, constraint))) return;
    }
    await this.cursor.reject(client, raw, `${constraint}: ${error.message}`);
    this.metrics.rejected.inc();
    this.log.error(
      { err: error, journal_id: raw.journalId, kind: raw.fields.kind },
      'a journal entry was rejected; see journal_rejects',
    );
  }

  /**
   * Checks that Postgres does not lack the campaign of an entry. If Redis has it, an operator has created it, and its
   * promises are kept until Postgres is repaired.
   * @throws PostgresBehind
   */
  async assertCampaign(client: Queryable, raw: RawEntry, { no }: JournalEntry): Promise<void> {
    const product = await this.sale.reader.productOf(numberOf(raw));
    if (product === null) return;
    const { rows } = await client.query('select 1 from campaigns where no = $1', [no]);
    if (rows.length === 0) throw new PostgresBehind(product, null);
  }

  /**
   * Compares the total that Redis had when it wrote this entry with the total in Postgres. The total in Redis is larger
   * only if Postgres lacks a restock. Then the unit exists and the promise is kept.
   */
  async #assertNotBehind(client: Queryable, product: ProductId, raw: RawEntry): Promise<void> {
    const no = numberOf(raw);
    const redis = await this.#totalAt(product, raw.journalId, no);
    const { rows } = await client.query<{ total: number | null }>(
      `select coalesce(b.total, c.total_limit)::float8 as total
       from campaigns c left join campaign_buckets b on b.campaign_id = c.campaign_id and b.bucket = $2 where c.no = $1`,
      [campaignOfNumber(no), bucketOfNumber(no)],
    );
    const postgres = rows[0]?.total ?? null;
    if (redis !== null && postgres !== null && redis > postgres) {
      throw new PostgresBehind(product, { redis, postgres });
    }
  }

  /** The total that Redis had at an entry: the current one without the restocks that follow in the journal. */
  async #totalAt(product: ProductId, journalId: string, no: number): Promise<number | null> {
    const journal = new Journal(this.sale.scripts.redis);
    for (;;) {
      const stock = await this.sale.reader.stock(product);
      if (stock?.total == null) return null;
      let total = stock.total;
      let after = journalId;
      for (;;) {
        const entries = await journal.read(after, SCAN_BATCH);
        for (const { fields } of entries) {
          if (fields.no !== String(no)) continue;
          if (fields.kind === 'restocked') total -= Number(fields.delta);
          if (fields.kind === 'moved_in') total -= Number(fields.units);
          if (fields.kind === 'moved_out') total += Number(fields.units);
        }
        if (entries.length < SCAN_BATCH) break;
        after = entries.at(-1)?.journalId ?? after;
      }
      // The total is the same before and after, so no restock happened while the journal was read.
      if ((await this.sale.reader.stock(product))?.total === stock.total) return total;
    }
  }

  /** @returns false when Postgres rejects even the voided row, for example because a value does not fit its column */
  async #void(
    client: Queryable,
    product: ProductId,
    entry: Extract<JournalEntry, { kind: 'reserved' | 'redeemed' }>,
    constraint: string,
  ): Promise<boolean> {
    const unit =
      constraint === CODE_CONSTRAINT ? 'code_used' : TAKEN_CONSTRAINTS.has(constraint) ? 'returns' : 'never_existed';
    const outcome = await this.sale.reservations.void(product, entry.reservation as ReservationId, unit, constraint);
    await this.cursor.lockWrites(client);
    await client.query('savepoint voided');
    try {
      if (entry.kind === 'reserved') await this.redemptions.void(client, entry, constraint);
      else await this.redemptions.voidExisting(client, entry.reservation, constraint);
      await insertEvents(client, [voidedEvent(entry.no, entry.reservation, constraint)]);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      await client.query('rollback to savepoint voided');
      return false;
    }
    this.metrics.voided.inc({ constraint });
    this.log.error(
      { campaign: product, reservation: entry.reservation, constraint, redis: outcome.kind },
      'Postgres refused a reservation; it was voided',
    );
    return true;
  }
}

/** The number of the campaign as Redis has it, with its bucket. */
const numberOf = (raw: RawEntry) => Number(raw.fields.no) as CampaignNo;
