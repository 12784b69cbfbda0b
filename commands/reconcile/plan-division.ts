import type { ProductId } from '../../shared/domain/ids.js';
import type { Transit } from '../../shared/postgres/campaign-buckets.js';
import type { StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { BucketCopy, CampaignCopy } from '../../shared/sale/sale-copy.js';
import type { CampaignFindings } from './findings.js';
import { findingsOf, type Need, NO_LOSS, needOf } from './need.js';
import { BucketsDiffer } from './refusals.js';
import type { BucketRow, LostTransfer } from './restored-buckets.js';

/** A bucket as it was at the position of its shard. */
export type PicturedBucket = { copy: CampaignCopy; part: BucketCopy; shard: number };

/** What Redis and Postgres have of a divided campaign. `transit`: the transfers on their way by Postgres. */
export type DividedState = {
  product: ProductId;
  /** How many buckets it has. */
  count: number;
  row: StoredCampaign | null;
  buckets: readonly PicturedBucket[];
  rows: readonly BucketRow[];
  transit: readonly Transit[];
};

export type DivisionPlan = {
  state: DividedState;
  /** The campaign: bucket 0, with the newest terms and the units of all buckets. */
  copy: CampaignCopy;
  home: PicturedBucket;
  need: Need;
  /** Units of each bucket. */
  totals: (number | null)[];
  left: LostTransfer[];
  arrived: Transit[];
  findings: CampaignFindings;
};

/**
 * Plans the rows that a divided campaign needs besides those of its reservations. Its units are those of its buckets
 * in Redis and of the transfers on their way.
 * @throws BucketsDiffer
 */
export function planDivision(state: DividedState): DivisionPlan {
  const { buckets, row, rows, count } = state;
  const byNumber = new Map(buckets.map((one) => [one.part.bucket, one]));
  const home = byNumber.get(0);
  if (!home || (row === null && buckets.length < count))
    throw new BucketsDiffer(`${state.product} lacks buckets in Redis: it has ${buckets.length} of ${count}`);
  for (const bucket of buckets) assertConsistent(state, bucket, byNumber);
  const hasArrived = ({ from, to, out }: Transit) => (byNumber.get(to)?.part.arrived[from] ?? 0) >= out;
  const left = lostTransfers(state).map((one) => ({ ...one, hasArrived: hasArrived(one) }));
  const arrived = state.transit.filter(hasArrived);
  const moving = [...left.filter((one) => !one.hasArrived), ...state.transit.filter((one) => !hasArrived(one))];
  const totals = Array.from({ length: count }, (_, bucket) => {
    const known = byNumber.get(bucket)?.copy ?? rows.find((one) => one.bucket === bucket);
    return known?.total ?? null;
  });
  const total = totals.includes(null)
    ? null
    : [...totals, ...moving.map(({ units }) => units)].reduce<number>((sum, units) => sum + Number(units), 0);
  const newest = buckets.reduce((best, { copy }) => (copy.version > best.version ? copy : best), home.copy);
  const codes = Math.max(...buckets.map(({ copy }) => copy.codes));
  const copy = { ...newest, status: home.copy.status, total, codes };
  const need = needOf(copy, row);
  // Each bucket has counters of its own, so the losses of an archived campaign are found by bucket.
  const findings = { ...findingsOf(copy, row, false, need), archivedLoss: NO_LOSS };
  return { state, copy, home, need, totals, left, arrived, findings };
}

/** @throws BucketsDiffer */
function assertConsistent(
  { product, rows }: DividedState,
  { copy, part }: PicturedBucket,
  byNumber: ReadonlyMap<number, PicturedBucket>,
): void {
  const { bucket, movedOut, arrived, gave } = part;
  const known = rows.find((one) => one.bucket === bucket)?.movedOut ?? 0;
  const differs = (why: string) => new BucketsDiffer(`${product}, bucket ${bucket}: ${why}; nothing was written`);
  if (movedOut < known) throw differs(`Redis has its transfers up to ${movedOut}, Postgres up to ${known}`);
  const last = gave.at(-1)?.[0] ?? 0;
  if (movedOut > known && last !== movedOut) throw differs(`the units of transfer ${movedOut} are unknown`);
  // A refilled bucket gets its codes from its transfers, so each transfer of a pool must be known.
  const remembered = gave.filter(([out]) => out > known).length;
  if (copy.type === 'pool' && remembered < movedOut - known)
    throw differs(`Postgres lacks ${movedOut - known} of its transfers, and the codes of only ${remembered} are known`);
  for (const [from, out] of Object.entries(arrived)) {
    const giver = byNumber.get(Number(from));
    if (giver && out > giver.part.movedOut)
      throw differs(`it has transfer ${out} of bucket ${from}, which bucket ${from} has not given`);
  }
}

/** The transfers that Postgres lacks. Of those that arrived long ago, only the last one to each bucket is known. */
function lostTransfers({ buckets, rows }: DividedState): Transit[] {
  return buckets.flatMap(({ part: { bucket: from, gave } }) => {
    const known = rows.find(({ bucket }) => bucket === from)?.movedOut ?? 0;
    return gave
      .filter(([out]) => out > known)
      .map(([out, to, units, codes]) => ({ from, to, out, units, codes: codes ? codes.split(',').map(Number) : [] }));
  });
}
