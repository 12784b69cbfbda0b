import type { Difference, Verdict } from '../contracts/verdict.js';
import type { ProductId } from '../domain/ids.js';
import type { StoredCampaign } from '../postgres/campaigns.js';
import type { JournalCursor } from '../postgres/journal-cursor.js';
import type { LedgerRow, RedemptionsTable } from '../postgres/redemptions.js';
import { compareJournalIds, type Journal } from '../redis/journal.js';
import { type ReservationRecord, takesUnits } from '../redis/reservation-record.js';
import type { SaleStore } from '../redis/sale-store.js';

const SCAN_BATCH = 1_000;
/** So many are listed; all are counted. */
const LISTED_DIFFERENCES = 100;

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
  await settle(parts, settleMs);
  const product = campaign.productId;
  const scan = await scanBothSides(parts, campaign);
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
  const lost = real.filter(({ side }) => side === 'redis').length;
  let drift = real.length - lost;
  if (stock) {
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

async function scanBothSides(parts: LedgerParts, campaign: StoredCampaign): Promise<Scan> {
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
