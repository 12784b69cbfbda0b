import type { ProductId } from '../../shared/domain/ids.js';
import type { Transit } from '../../shared/postgres/campaign-buckets.js';
import type { Queryable } from '../../shared/postgres/pool.js';
import { sealBuckets } from '../../shared/projection/write-buckets.js';
import type { CampaignFindings } from './findings.js';
import { type DivisionPlan, type PicturedBucket, planDivision } from './plan-division.js';
import { type CampaignRows, RestoredBuckets } from './restored-buckets.js';
import { writeHead } from './write-head.js';

/**
 * Repairs what all buckets of divided campaigns share: terms, units, status and transfers. The caller holds the locks
 * of all shards. It is one transaction, so that no unit counts in two buckets or in none.
 */
export class DividedCampaigns {
  readonly #buckets: RestoredBuckets;

  constructor(
    readonly client: Queryable,
    readonly plans: readonly DivisionPlan[],
  ) {
    this.#buckets = new RestoredBuckets(client);
  }

  /**
   * Plans the repair. Campaigns whose number Postgres gave to another one are left out.
   * @param pictured the buckets of all shards
   * @param countOf how many buckets a campaign has
   * @throws BucketsDiffer
   */
  static async plan(
    client: Queryable,
    { campaigns, buckets }: CampaignRows,
    pictured: readonly PicturedBucket[],
    countOf: (product: ProductId) => number,
  ): Promise<DividedCampaigns> {
    const transit = pictured.length > 0 ? await new RestoredBuckets(client).inTransit() : [];
    const byProduct = new Map<ProductId, PicturedBucket[]>();
    for (const one of pictured) byProduct.set(one.copy.product, [...(byProduct.get(one.copy.product) ?? []), one]);
    const plans: DivisionPlan[] = [];
    for (const [product, its] of byProduct) {
      const no = its[0]?.copy.no;
      const row = campaigns.find((one) => one.no === no) ?? null;
      if (row && row.productId !== product) continue;
      const rows = row ? buckets.filter((one) => one.no === no) : [];
      const own = row ? transit.filter((one) => one.no === no) : [];
      plans.push(planDivision({ product, count: countOf(product), row, buckets: its, rows, transit: own }));
    }
    return new DividedCampaigns(client, plans);
  }

  /** The findings about the campaigns whose bucket 0 a shard has. */
  findingsOf(shard: number): CampaignFindings[] {
    return this.plans.flatMap(({ home, findings }) => (home.shard === shard ? [findings] : []));
  }

  /** Adds the transfers that Postgres lacks to the findings about buckets. */
  withTransfers(findings: CampaignFindings): CampaignFindings {
    const plan = this.plans.find(({ state }) => state.product === findings.product);
    if (!plan || findings.bucket === undefined) return findings;
    const isOwn = ({ from }: Transit) => from === findings.bucket;
    const left = plan.left.filter(isOwn);
    const units = left.reduce((sum, one) => sum + one.units, 0);
    return { ...findings, transfers: { left: left.length, units, arrived: plan.arrived.filter(isOwn).length } };
  }

  /** Writes terms, units, statuses and transfers. Rows that end were written before, so there is room for others. */
  async write(nowMs: number): Promise<void> {
    for (const { state, copy, home, need, totals, left, arrived } of this.plans) {
      const { no } = copy;
      const place = { shard: home.shard, buckets: totals.length, startsAt: home.copy.terms.startsAt };
      await writeHead(this.client, { copy, row: state.row, need, ...place }, nowMs);
      await this.#buckets.setTotals(no, totals);
      await this.#buckets.endTransfers(no, arrived);
      await this.#buckets.insertTransfers(no, left);
      const sealed = state.buckets.filter(({ part }) => part.sealed);
      await sealBuckets(
        this.client,
        sealed.map(({ part: { bucket } }) => ({ no, bucket, atMs: nowMs })),
      );
    }
  }
}
