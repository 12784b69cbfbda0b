import type { JournalEntry, RawEntry } from '../../shared/contracts/journal.js';
import { bucketOfNumber, campaignOfNumber } from '../../shared/domain/buckets.js';
import type { CampaignNo, ProductId } from '../../shared/domain/ids.js';
import { ContractError, PostgresBehind } from '../../shared/errors/faults.js';
import { carryTerms } from '../../shared/image/carry-terms.js';
import type { Log } from '../../shared/observability/log.js';
import { constraintOf, type Database, isRefusal } from '../../shared/postgres/pool.js';
import { Journal } from '../../shared/redis/journal.js';
import { decodeEntry } from '../../shared/redis/journal-entries.js';
import type { SaleCopy } from '../../shared/sale/sale-copy.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';

/**
 * The cap of the campaign or of its bucket was reached: the unit never existed, or Postgres lacks a restock.
 */
const CAP_CONSTRAINTS = new Set(['campaigns_cap', 'campaign_buckets_cap']);
const SCAN_BATCH = 1_000;

export type JudgedDeps = {
  sale: SaleStore;
  copy: Pick<SaleCopy, 'campaign'>;
  database: Database;
  log: Log;
};

/**
 * A refusal that may be settled, if Postgres refuses the entry again for the same reason. Postgres and Redis were
 * compared after the entry was journaled: Postgres has the campaign, the terms under which the entry was made and, if
 * it refuses by the cap, every restock before the entry. Only `compare` makes one.
 */
export class Judged {
  private constructor(
    readonly raw: RawEntry,
    /** null = it cannot be decoded */
    readonly entry: JournalEntry | null,
    readonly constraint: string,
    /** null = Redis lacks the campaign */
    readonly product: ProductId | null,
  ) {}

  /**
   * Compares what a refusal depends on in Redis and Postgres. Terms that only Redis has are copied to Postgres, so that
   * Postgres can take the entry.
   * @param draining Redis is out of service until the entry is settled, so one of a campaign that Postgres lacks is too
   * @throws PostgresBehind when Postgres lacks the campaign, a restock, or terms that it does not take
   */
  static async compare(deps: JudgedDeps, raw: RawEntry, error: Error, draining: boolean): Promise<Judged> {
    const constraint = constraintIn(error);
    const entry = decoded(raw);
    const product = entry && (await deps.sale.reader.productOf(numberOf(raw)));
    if (entry && product) {
      const terms = await carryTerms(deps.database, deps.copy, campaignOfNumber(numberOf(raw)), product).catch(
        (cause: unknown) => {
          // Under other terms than its own the entry could be voided wrongly, so it waits.
          throw isRefusal(cause) || cause instanceof ContractError ? new PostgresBehind(product, null, cause) : cause;
        },
      );
      if (terms.kind === 'no_campaign' && !draining) throw new PostgresBehind(product, null);
      if (terms.kind === 'carried')
        deps.log.warn({ campaign: product, version: terms.version }, 'the terms in Redis were copied to Postgres');
      if (CAP_CONSTRAINTS.has(constraint) && takesUnits(entry)) await assertHasRestocks(deps, product, raw);
    }
    return new Judged(raw, entry, constraint, product);
  }

  /** Whether this is the comparison of that refusal. */
  covers(raw: RawEntry, error: Error): boolean {
    return raw.journalId === this.raw.journalId && constraintIn(error) === this.constraint;
  }
}

/** A reservation, or a late payment that took a unit again. */
export function takesUnits(entry: JournalEntry): entry is Extract<JournalEntry, { kind: 'reserved' | 'redeemed' }> {
  return entry.kind === 'reserved' || entry.kind === 'redeemed';
}

const constraintIn = (error: Error) => (isRefusal(error) ? (constraintOf(error) ?? error.code ?? '') : error.name);

function decoded(raw: RawEntry): JournalEntry | null {
  try {
    return decodeEntry(raw);
  } catch {
    return null;
  }
}

/**
 * Compares the total that Redis had when it wrote this entry with the total in Postgres. The total in Redis is larger
 * only if Postgres lacks a restock. Then the unit exists and the promise is kept.
 * @throws PostgresBehind
 */
async function assertHasRestocks(deps: JudgedDeps, product: ProductId, raw: RawEntry): Promise<void> {
  const no = numberOf(raw);
  const redis = await totalAt(deps.sale, product, raw.journalId, no);
  const { rows } = await deps.database.query<{ total: number | null }>(
    `select coalesce(b.total, c.total_limit)::float8 as total
     from campaigns c left join campaign_buckets b on b.campaign_id = c.campaign_id and b.bucket = $2 where c.no = $1`,
    [campaignOfNumber(no), bucketOfNumber(no)],
  );
  const postgres = rows[0]?.total ?? null;
  if (redis !== null && postgres !== null && redis > postgres) throw new PostgresBehind(product, { redis, postgres });
}

/** The total that Redis had at an entry: the current one without the restocks that follow in the journal. */
async function totalAt(sale: SaleStore, product: ProductId, journalId: string, no: number): Promise<number | null> {
  const journal = new Journal(sale.scripts.redis);
  for (;;) {
    const stock = await sale.reader.stock(product);
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
    if ((await sale.reader.stock(product))?.total === stock.total) return total;
  }
}

/** The number of the campaign as Redis has it, with its bucket. */
const numberOf = (raw: RawEntry) => Number(raw.fields.no) as CampaignNo;
