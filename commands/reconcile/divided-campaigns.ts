import type { ProductId } from '../../shared/domain/ids.js';
import type { Transit } from '../../shared/postgres/campaign-buckets.js';
import type { Queryable } from '../../shared/postgres/pool.js';
import { sealBuckets } from '../../shared/projection/write-buckets.js';
import type { CampaignFindings } from './findings.js';
import { type DivisionPlan, type PicturedBucket, planDivision } from './plan-division.js';
import { type CampaignRows, endTransfers, insertTransfers, setTotals } from './restored-buckets.js';
import { writeHead } from './write-head.js';

/**
 * Plans the repair of what all buckets of divided campaigns share: terms, units, status and transfers. Campaigns whose
 * number Postgres gave to another one are left out.
 * @param pictured the buckets of all shards
 * @param countOf how many buckets a campaign has
 * @throws BucketsDiffer
 */
export function planDivisions(
  { campaigns, buckets, transit }: CampaignRows,
  pictured: readonly PicturedBucket[],
  countOf: (product: ProductId) => number,
): DivisionPlan[] {
  const numbers = new Map(pictured.map(({ copy }) => [copy.product, copy.no]));
  return [...numbers].flatMap(([product, no]) => {
    const row = campaigns.find((one) => one.no === no) ?? null;
    if (row && row.productId !== product) return [];
    const own = pictured.filter(({ copy }) => copy.product === product);
    const ofRow = <Row extends { no: number }>(all: readonly Row[]) => (row ? all.filter((one) => one.no === no) : []);
    const rows = { row, rows: ofRow(buckets), transit: ofRow(transit) };
    return [planDivision({ product, count: countOf(product), buckets: own, ...rows })];
  });
}

/** Adds the transfers that Postgres lacks to the findings about a bucket. */
export function withTransfers(findings: CampaignFindings, plans: readonly DivisionPlan[]): CampaignFindings {
  const plan = plans.find(({ state }) => state.product === findings.product);
  if (!plan || findings.bucket === undefined) return findings;
  const isOwn = ({ from }: Transit) => from === findings.bucket;
  const left = plan.left.filter(isOwn);
  const units = left.reduce((sum, one) => sum + one.units, 0);
  return { ...findings, transfers: { left: left.length, units, arrived: plan.arrived.filter(isOwn).length } };
}

/**
 * Writes terms, units, status and transfers of a campaign. The caller holds the locks of all shards. It is one
 * transaction, so that no unit counts in two buckets or in none. Rows that end were written before, so there is room
 * for others.
 */
export async function writeDivision(client: Queryable, plan: DivisionPlan, nowMs: number): Promise<void> {
  const { state, copy, home, need, totals, left, arrived } = plan;
  const { no } = copy;
  const place = { shard: home.shard, buckets: totals.length, startsAt: home.copy.terms.startsAt };
  await writeHead(client, { copy, row: state.row, need, ...place }, nowMs);
  await setTotals(client, no, totals);
  await endTransfers(client, no, arrived);
  await insertTransfers(client, no, left);
  const sealed = state.buckets.filter(({ part }) => part.sealed);
  await sealBuckets(
    client,
    sealed.map(({ part: { bucket } }) => ({ no, bucket, atMs: nowMs })),
  );
}
