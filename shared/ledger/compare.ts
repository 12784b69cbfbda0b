import type { Difference, Verdict } from '../contracts/verdict.js';
import { campaignOfNumber } from '../domain/buckets.js';
import type { Stock } from '../domain/campaign.js';
import type { ProductId } from '../domain/ids.js';
import type { StoredCampaign } from '../postgres/campaigns.js';
import type { LedgerRow, RedemptionsTable } from '../postgres/redemptions.js';
import type { JournalCursor } from '../projection/journal-cursor.js';
import type { Journal } from '../redis/journal.js';
import { compareJournalIds } from '../redis/journal-ids.js';
import type { LineReader } from '../sale/line-reader.js';
import { type ReservationRecord, takesUnits } from '../sale/reservation-record.js';
import type { Archived, SaleReader } from '../sale/sale-reader.js';
import { LineComparison } from './compare-lines.js';

const SCAN_BATCH = 1_000;
/** How many differences are listed. All are counted. */
const LISTED_DIFFERENCES = 100;
/**
 * How often the comparison is repeated if the campaign is archived meanwhile. One repetition is usually enough: runs of
 * the archive are a minute apart, and a comparison takes seconds.
 */
const TRIES = 3;

/** A journal, and how far Postgres has it. */
export type LedgerPart = { journal: Journal; cursor: JournalCursor };

/** What is compared in Redis. `line`: null = that of the only shard. */
export type LedgerSale = Pick<SaleReader, 'archived' | 'stock' | 'reservations' | 'reservationsById'> & {
  line: Pick<LineReader, 'places' | 'placesOf'>;
};

export type LedgerDeps = LedgerPart & {
  sale: SaleReader | LedgerSale;
  /** The journals of the other buckets of a divided campaign. */
  others?: readonly LedgerPart[];
  redemptions: RedemptionsTable;
};

/** The states in which units are taken; each has a counter. */
const COUNTED = ['held', 'redeemed', 'burned'] as const;
/** Postgres lacks that units of a reservation were given back. The entry can be journaled again. */
export const LACKS_REDUCTION = 'Postgres has more units of the reservation than Redis';
const TOTALS_DIFFER = 'the totals of Redis and Postgres differ';

/**
 * Whether Postgres lacks units that were added in Redis. If so, reservations must not be journaled again, because
 * Postgres would reject them.
 */
export function lacksRestock(differences: readonly Difference[]): boolean {
  return differences.some(({ why, redis, postgres }) => why === TOTALS_DIFFER && Number(redis) > Number(postgres));
}

/**
 * Compares Redis, the journal and Postgres: every reservation, every place in line, the counters and the status. Each
 * difference is checked again after the journal up to that moment has been persisted. Differences that the journal
 * still explains are left out, because their entries will be persisted.
 * @param settleMs how long each wait for Postgres to catch up may take
 * @returns the counters alone, without differences, when the reservations of the campaign were dropped
 */
export async function compareLedger(deps: LedgerDeps, campaign: StoredCampaign, settleMs: number): Promise<Verdict> {
  if (campaign.redemptionsDroppedAt) return verdictOfDropped(campaign);
  for (let tries = 1; ; tries += 1) {
    const archived = await deps.sale.archived(campaign.productId);
    const verdict = await compareOnce(deps, campaign, archived, settleMs);
    // If the campaign was archived during the comparison, the records moved meanwhile, so the comparison is repeated.
    const same = (await deps.sale.archived(campaign.productId))?.pass === archived?.pass;
    if (same || tries === TRIES) return verdict;
  }
}

/**
 * @param archived set if the campaign is archived. Redis then has only the records of recalled users, and all others
 *   are compared by their sums
 */
async function compareOnce(
  deps: LedgerDeps,
  campaign: StoredCampaign,
  archived: Archived | null,
  settleMs: number,
): Promise<Verdict> {
  await settle(deps, settleMs);
  const product = campaign.productId;
  const lines = new LineComparison(deps, campaign, SCAN_BATCH);
  const scan = await scanBothSides(deps, campaign, archived !== null);
  const placeSuspects = archived ? new Set<string>() : await lines.suspects();
  await settle(deps, settleMs);
  const found = await confirmSuspects(deps, product, scan.suspects);
  const placesFound = await lines.confirm(placeSuspects);
  // If Postgres is behind for longer than `settleMs`, entries in the journal are on their way, not lost. Differences
  // without such an entry are checked again, because their entry may have been persisted meanwhile.
  const underWay = found.length + placesFound.size > 0 ? await entriesUnderWay(deps, campaign.no) : NOTHING_UNDER_WAY;
  const real = await confirmSuspects(
    deps,
    product,
    new Set(
      found.flatMap(({ reservation }) => (reservation && !underWay.reservations.has(reservation) ? reservation : [])),
    ),
  );
  const settledUsers = [...placesFound.keys()].filter((user) => !underWay.users.has(user));
  const places = underWay.endOfLine ? [] : [...(await lines.confirm(new Set(settledUsers))).values()];

  // The counters are compared only if the rows contain everything that Redis counts: the journal was empty, and nothing
  // was appended since.
  const stock = await deps.sale.stock(product);
  const before = await positionsOf(deps);
  const [rows, duplicated] = await Promise.all([
    deps.redemptions.stock(campaign.id),
    deps.redemptions.duplicates(campaign.id, campaign.perUserLimit),
  ]);
  const differences = [...real, ...places, ...duplicated.map(asDuplicate)];
  let lost = real.filter(({ side }) => side === 'redis').length;
  let drift = real.length - lost + places.length;
  if (stock && archived) {
    const sums = await compareSums(deps, campaign, archived);
    lost += sums.lost;
    drift += sums.drift;
    differences.push(...sums.differences);
    scan.confirmed = archived.promised - sums.voided;
    scan.voided = sums.voided;
  }
  const isSettled = before.entries === 0 && (await positionsOf(deps)).lastIds === before.lastIds;
  const quiet = isSettled && sameStock(stock, await deps.sale.stock(product));
  if (stock && rows && quiet) {
    const counted = await compareCounters(deps, campaign, stock, rows);
    drift += counted.drift;
    differences.push(...counted.differences);
  }
  const total = campaign.totalLimit;
  const taken = rows ? rows.held + rows.redeemed + rows.burned : 0;
  return {
    product_id: product,
    confirmed: scan.confirmed,
    persisted: scan.confirmed - lost,
    voided: scan.voided,
    in_flight: (await positionsOf(deps)).entries,
    lost,
    duplicated: duplicated.length,
    over_cap: total === null ? 0 : Math.max(0, taken - total, scan.unitsTaken - total),
    drift,
    differences: differences.slice(0, LISTED_DIFFERENCES),
  };
}

/** Voided reservations count as confirmed, because only the rows distinguished them. */
function verdictOfDropped({ productId, reservations }: StoredCampaign): Verdict {
  const nothing = { voided: 0, in_flight: 0, lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] };
  return { product_id: productId, confirmed: reservations, persisted: reservations, ...nothing };
}

/** Compares an archived campaign, which has only counters in Redis, with its reservations in Postgres. */
async function compareSums(
  deps: LedgerDeps,
  campaign: StoredCampaign,
  archived: Archived,
): Promise<{ lost: number; drift: number; voided: number; differences: Difference[] }> {
  const rows = await deps.redemptions.sums(campaign.id);
  const missing = archived.promised - rows.reservations;
  const why = 'the number of reservations in Postgres differs from the number that were made';
  const differences = missing === 0 ? [] : [asCounters(why, archived.promised, rows.reservations)];
  return { lost: Math.max(0, missing), drift: Math.max(0, -missing), voided: rows.voided, differences };
}

/** Compares the counters of both sides, which were read while nothing changed. */
async function compareCounters(
  deps: LedgerDeps,
  campaign: StoredCampaign,
  redis: Stock,
  postgres: Stock,
): Promise<{ drift: number; differences: Difference[] }> {
  const differences: Difference[] = [];
  let drift = 0;
  const compare = (why: string, there: number | null, here: number | null) => {
    if (there === here) return;
    drift += Math.abs(Number(there) - Number(here));
    differences.push(asCounters(why, there, here));
  };
  for (const state of COUNTED) {
    const why = `the counter of ${state} units in Redis differs from the rows in Postgres`;
    compare(why, redis[state], postgres[state]);
  }
  compare('the counter of waiting users in Redis differs from the places in Postgres', redis.waiting, postgres.waiting);
  if (redis.total !== postgres.total) {
    // A unit that Postgres rejected by its cap is removed from the total of Redis, but not from that of Postgres.
    const refused = await deps.redemptions.refusedByCap(campaign.id);
    const fewer = Number(postgres.total) - Number(redis.total);
    if (fewer < 0 || fewer > refused) compare(TOTALS_DIFFER, redis.total, postgres.total);
  }
  if (redis.status !== postgres.status) {
    drift += 1;
    differences.push(asCounters('the statuses of Redis and Postgres differ', redis.status, postgres.status));
  }
  return { drift, differences };
}

/**
 * Waits until Postgres has all entries that the journal has now. Gives up if the cursor does not move for `limitMs`.
 */
export async function settle(deps: LedgerPart & Pick<LedgerDeps, 'others'>, limitMs: number): Promise<void> {
  await Promise.all(partsOf(deps).map((part) => settleOne(part, limitMs)));
}

async function settleOne(deps: LedgerPart, limitMs: number): Promise<void> {
  const target = await deps.journal.lastId();
  let deadline = performance.now() + limitMs;
  let before = '';
  while (performance.now() < deadline) {
    const cursor = await deps.cursor.read();
    if (compareJournalIds(cursor, target) >= 0) return;
    if (cursor !== before) deadline = performance.now() + limitMs;
    before = cursor;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** What the entries in the journal change: reservations, users in line, the end of the line. */
type UnderWay = { reservations: ReadonlySet<string>; users: ReadonlySet<string>; endOfLine: boolean };
const NOTHING_UNDER_WAY: UnderWay = { reservations: new Set(), users: new Set(), endOfLine: false };

const partsOf = ({ journal, cursor, others = [] }: LedgerPart & Pick<LedgerDeps, 'others'>): LedgerPart[] => [
  { journal, cursor },
  ...others,
];

/** The entries in all journals together, and the last one of each. */
async function positionsOf(deps: LedgerDeps): Promise<{ entries: number; lastIds: string }> {
  const positions = await Promise.all(partsOf(deps).map(({ journal }) => journal.position()));
  return {
    entries: positions.reduce((sum, { entries }) => sum + entries, 0),
    lastIds: positions.map(({ lastId }) => lastId).join(),
  };
}

async function entriesUnderWay(deps: LedgerDeps, no: number): Promise<UnderWay> {
  const found = await Promise.all(partsOf(deps).map((part) => entriesOf(part, no)));
  return {
    reservations: new Set(found.flatMap(({ reservations }) => [...reservations])),
    users: new Set(found.flatMap(({ users }) => [...users])),
    endOfLine: found.some(({ endOfLine }) => endOfLine),
  };
}

async function entriesOf({ journal, cursor }: LedgerPart, no: number): Promise<UnderWay> {
  const reservations = new Set<string>();
  const users = new Set<string>();
  let endOfLine = false;
  let after = await cursor.read();
  for (;;) {
    const entries = await journal.read(after, SCAN_BATCH);
    for (const { fields } of entries) {
      if (campaignOfNumber(Number(fields.no)) !== no) continue;
      if (fields.reservation) reservations.add(fields.reservation);
      if (fields.user) users.add(fields.user);
      if (fields.kind === 'line_closed' || fields.kind === 'status') endOfLine = true;
    }
    const last = entries.at(-1);
    if (!last) return { reservations, users, endOfLine };
    after = last.journalId;
  }
}

type Scan = { confirmed: number; voided: number; unitsTaken: number; suspects: Set<string> };

async function scanBothSides(deps: LedgerDeps, campaign: StoredCampaign, archived: boolean): Promise<Scan> {
  const scan: Scan = { confirmed: 0, voided: 0, unitsTaken: 0, suspects: new Set() };
  const seen = new Set<string>();
  for await (const batch of deps.sale.reservations(campaign.productId, SCAN_BATCH)) {
    const fresh = [...batch].filter(([id]) => !seen.has(id));
    const rows = await deps.redemptions.byIds(fresh.map(([id]) => id));
    for (const [id, record] of fresh) {
      seen.add(id);
      if (record.state === 'voided') scan.voided += 1;
      else scan.confirmed += 1;
      if (takesUnits(record.state)) scan.unitsTaken += record.qty;
      if (differenceOf(id, record, rows.get(id) ?? null)) scan.suspects.add(id);
    }
  }
  if (archived) return scan;
  for await (const ids of deps.redemptions.idsOf(campaign.id, SCAN_BATCH)) {
    for (const id of ids) if (!seen.has(id)) scan.suspects.add(id);
  }
  return scan;
}

async function confirmSuspects(
  deps: LedgerDeps,
  product: ProductId,
  suspects: ReadonlySet<string>,
): Promise<Difference[]> {
  const found: Difference[] = [];
  const ids = [...suspects];
  for (let start = 0; start < ids.length; start += SCAN_BATCH) {
    const chunk = ids.slice(start, start + SCAN_BATCH);
    const [records, rows] = await Promise.all([
      deps.sale.reservationsById(product, chunk),
      deps.redemptions.byIds(chunk),
    ]);
    for (const id of chunk) {
      const difference = differenceOf(id, records.get(id) ?? null, rows.get(id) ?? null);
      if (difference) found.push(difference);
    }
  }
  return found;
}

/**
 * The difference between a record and its row; null = they agree. A reservation that was voided or is missing on both
 * sides is no difference.
 */
function differenceOf(id: string, record: ReservationRecord | null, row: LedgerRow | null): Difference | null {
  const redis = record && rowStateOf(record);
  const postgres = row && `${row.status}${row.burned ? ', burned' : ''}`;
  if (redis === postgres) return record && row ? quantityDifference(id, record, row) : null;
  const base = { reservation: id, redis, postgres };
  if (record && !row) {
    return record.state === 'voided'
      ? null
      : { ...base, side: 'redis', why: 'promised in Redis without a row in Postgres' };
  }
  if (!record) {
    return row?.status === 'voided'
      ? null
      : { ...base, side: 'postgres', why: 'a row in Postgres that is not in Redis' };
  }
  return { ...base, side: 'postgres', why: 'Redis and Postgres have different states' };
}

/** Units are given back in parts. A voided row may have all that the reservation had. */
function quantityDifference(id: string, { state, qty }: ReservationRecord, row: LedgerRow): Difference | null {
  if (qty === row.qty || state === 'voided') return null;
  const why = qty < row.qty ? LACKS_REDUCTION : 'Redis has more units of the reservation than Postgres';
  return { reservation: id, side: 'postgres', why, redis: String(qty), postgres: String(row.qty) };
}

/** The state that a row must have for a record in Redis. */
function rowStateOf(record: ReservationRecord): string {
  if (record.state === 'reacquired') return 'redeemed';
  return record.state === 'burned' ? 'refunded, burned' : record.state;
}

function asDuplicate(row: { redemption_id: string; why: string }): Difference {
  return { reservation: row.redemption_id, side: 'postgres', why: row.why, redis: null, postgres: null };
}

function asCounters(why: string, redis: number | string | null, postgres: number | string | null): Difference {
  const text = (value: number | string | null) => (value === null ? null : String(value));
  return { reservation: null, side: 'counters', why, redis: text(redis), postgres: text(postgres) };
}

/** Whether two readings of the counters are the same. */
export function sameStock(a: object | null, b: object | null): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
