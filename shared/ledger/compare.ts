import type { Difference, Verdict } from '../contracts/verdict.js';
import type { Stock } from '../domain/campaign.js';
import type { ProductId } from '../domain/ids.js';
import type { StoredCampaign } from '../postgres/campaigns.js';
import type { JournalCursor } from '../postgres/journal-cursor.js';
import type { LedgerRow, RedemptionsTable } from '../postgres/redemptions.js';
import { compareJournalIds, type Journal } from '../redis/journal.js';
import { type ReservationRecord, takesUnits } from '../redis/reservation-record.js';
import type { Archived, SaleStore } from '../redis/sale-store.js';

const SCAN_BATCH = 1_000;
/** So many are listed; all are counted. */
const LISTED_DIFFERENCES = 100;
/** Passes of the archive are a minute apart; a comparison takes seconds. */
const TRIES = 3;

export type LedgerParts = {
  sale: SaleStore;
  journal: Journal;
  cursor: JournalCursor;
  redemptions: RedemptionsTable;
};

/**
 * Compares Redis, the journal and Postgres, reservation by reservation. What differs is looked at again once the journal
 * up to that moment is written, and what the journal still has is left out, so what is merely under way does not count.
 * @param settleMs how long to wait, each time, for Postgres to catch up
 */
export async function compareLedger(parts: LedgerParts, campaign: StoredCampaign, settleMs: number): Promise<Verdict> {
  for (let tries = 1; ; tries += 1) {
    const archived = await parts.sale.archived(campaign.productId);
    const verdict = await compareOnce(parts, campaign, archived, settleMs);
    // What is archived in the middle of it was in one place at first and in the other at last.
    const same = (await parts.sale.archived(campaign.productId))?.pass === archived?.pass;
    if (same || tries === TRIES) return verdict;
  }
}

/** @param archived then Redis has only those who were recalled; the others are compared by what they add up to */
async function compareOnce(
  parts: LedgerParts,
  campaign: StoredCampaign,
  archived: Archived | null,
  settleMs: number,
): Promise<Verdict> {
  await settle(parts, settleMs);
  const product = campaign.productId;
  const scan = await scanBothSides(parts, campaign, archived !== null);
  await settle(parts, settleMs);
  const found = await confirmSuspects(parts, product, scan.suspects);
  // With Postgres behind for longer than anybody waits, what the journal has is on its way, not lost. Those whose entry was
  // written meanwhile are looked at again.
  const underWay = found.length > 0 ? await reservationsUnderWay(parts) : new Set<string>();
  const real = await confirmSuspects(
    parts,
    product,
    new Set(found.flatMap(({ reservation }) => (reservation && !underWay.has(reservation) ? reservation : []))),
  );

  const [stock, summary, duplicated] = await Promise.all([
    parts.sale.stock(product),
    parts.redemptions.summary(campaign.id, 1),
    parts.redemptions.duplicates(campaign.id, campaign.perUserLimit),
  ]);
  const differences = [...real, ...duplicated.map(asDuplicate)];
  let lost = real.filter(({ side }) => side === 'redis').length;
  let drift = real.length - lost;
  if (stock && archived) {
    const sums = await compareSums(parts, campaign, archived, stock);
    lost += sums.lost;
    drift += sums.drift;
    differences.push(...sums.differences);
    scan.confirmed = archived.promised - sums.voided;
    scan.voided = sums.voided;
  } else if (stock) {
    const taken = stock.held + stock.redeemed + stock.burned;
    const quiet = (await parts.journal.backlog()).entries === 0 && sameStock(stock, await parts.sale.stock(product));
    if (quiet && taken !== summary.taken) {
      drift += Math.abs(taken - summary.taken);
      differences.push({
        reservation: null,
        side: 'counters',
        why: 'the counters say another number of units taken than Postgres has rows for',
        redis: String(taken),
        postgres: String(summary.taken),
      });
    }
  }
  const total = campaign.totalLimit;
  return {
    product_id: product,
    confirmed: scan.confirmed,
    persisted: scan.confirmed - lost,
    voided: scan.voided,
    in_flight: (await parts.journal.backlog()).entries,
    lost,
    duplicated: duplicated.length,
    over_cap: total === null ? 0 : Math.max(0, summary.taken - total, scan.unitsTaken - total),
    drift,
    differences: differences.slice(0, LISTED_DIFFERENCES),
  };
}

/** An archived campaign has counters in Redis and all of its reservations in Postgres alone. */
async function compareSums(
  parts: LedgerParts,
  campaign: StoredCampaign,
  archived: Archived,
  stock: Stock,
): Promise<{ lost: number; drift: number; voided: number; differences: Difference[] }> {
  const rows = await parts.redemptions.sums(campaign.id);
  const differences: Difference[] = [];
  const compare = (why: string, redis: number, postgres: number) => {
    if (redis !== postgres)
      differences.push({ reservation: null, side: 'counters', why, redis: String(redis), postgres: String(postgres) });
    return Math.abs(redis - postgres);
  };
  const missing = archived.promised - rows.reservations;
  compare('Postgres has another number of reservations than were ever made', archived.promised, rows.reservations);
  let drift = Math.max(0, -missing);
  const quiet =
    (await parts.journal.backlog()).entries === 0 && sameStock(stock, await parts.sale.stock(campaign.productId));
  if (quiet) {
    for (const state of ['held', 'redeemed', 'burned'] as const) {
      drift += compare(
        `the counters say another number of units ${state} than Postgres has rows for`,
        stock[state],
        rows[state],
      );
    }
  }
  return { lost: Math.max(0, missing), drift, voided: rows.voided, differences };
}

/** Waits until Postgres has what the journal has now; gives up when it has not moved on for `limitMs`. */
export async function settle(parts: Pick<LedgerParts, 'journal' | 'cursor'>, limitMs: number): Promise<void> {
  const target = await parts.journal.lastId();
  let deadline = performance.now() + limitMs;
  let before = '';
  while (performance.now() < deadline) {
    const cursor = await parts.cursor.read();
    if (compareJournalIds(cursor, target) >= 0) return;
    if (cursor !== before) deadline = performance.now() + limitMs;
    before = cursor;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Whose entries the journal still has. */
async function reservationsUnderWay(parts: Pick<LedgerParts, 'journal' | 'cursor'>): Promise<Set<string>> {
  const ids = new Set<string>();
  let after = await parts.cursor.read();
  for (;;) {
    const entries = await parts.journal.read(after, SCAN_BATCH);
    for (const { fields } of entries) if (fields.reservation) ids.add(fields.reservation);
    const last = entries.at(-1);
    if (!last) return ids;
    after = last.journalId;
  }
}

type Scan = { confirmed: number; voided: number; unitsTaken: number; suspects: Set<string> };

async function scanBothSides(parts: LedgerParts, campaign: StoredCampaign, archived: boolean): Promise<Scan> {
  const scan: Scan = { confirmed: 0, voided: 0, unitsTaken: 0, suspects: new Set() };
  const seen = new Set<string>();
  for await (const batch of parts.sale.reservations(campaign.productId, SCAN_BATCH)) {
    const fresh = [...batch].filter(([id]) => !seen.has(id));
    const rows = await parts.redemptions.byIds(fresh.map(([id]) => id));
    for (const [id, record] of fresh) {
      seen.add(id);
      if (record.state === 'voided') scan.voided += 1;
      else scan.confirmed += 1;
      if (takesUnits(record.state)) scan.unitsTaken += record.qty;
      if (differenceOf(id, record, rows.get(id) ?? null)) scan.suspects.add(id);
    }
  }
  if (archived) return scan;
  for await (const ids of parts.redemptions.idsOf(campaign.id, SCAN_BATCH)) {
    for (const id of ids) if (!seen.has(id)) scan.suspects.add(id);
  }
  return scan;
}

async function confirmSuspects(
  parts: LedgerParts,
  product: ProductId,
  suspects: ReadonlySet<string>,
): Promise<Difference[]> {
  const found: Difference[] = [];
  const ids = [...suspects];
  for (let start = 0; start < ids.length; start += SCAN_BATCH) {
    const chunk = ids.slice(start, start + SCAN_BATCH);
    const [records, rows] = await Promise.all([
      parts.sale.reservationsById(product, chunk),
      parts.redemptions.byIds(chunk),
    ]);
    for (const id of chunk) {
      const difference = differenceOf(id, records.get(id) ?? null, rows.get(id) ?? null);
      if (difference) found.push(difference);
    }
  }
  return found;
}

/** null when the two agree. A reservation that both refused, or that neither has, is no difference. */
function differenceOf(id: string, record: ReservationRecord | null, row: LedgerRow | null): Difference | null {
  const redis = record && rowStateOf(record);
  const postgres = row && `${row.status}${row.burned ? ', burned' : ''}`;
  if (redis === postgres) return null;
  const base = { reservation: id, redis, postgres };
  if (record && !row) {
    return record.state === 'voided' ? null : { ...base, side: 'redis', why: 'promised in Redis, no row in Postgres' };
  }
  if (!record) {
    return row?.status === 'voided'
      ? null
      : { ...base, side: 'postgres', why: 'a row in Postgres that Redis does not know' };
  }
  return { ...base, side: 'postgres', why: 'the two sides have different states' };
}

/** The state that a row must have for a record in Redis. */
function rowStateOf(record: ReservationRecord): string {
  if (record.state === 'reacquired') return 'redeemed';
  return record.state === 'burned' ? 'refunded, burned' : record.state;
}

function asDuplicate(row: { redemption_id: string; why: string }): Difference {
  return { reservation: row.redemption_id, side: 'postgres', why: row.why, redis: null, postgres: null };
}

function sameStock(a: object, b: object | null): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
