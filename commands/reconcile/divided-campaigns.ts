import type { ProductId } from '../../shared/domain/ids.js';
import { RestoredCampaigns } from '../../shared/image/restored-campaigns.js';
import type { Queryable } from '../../shared/postgres/pool.js';
import { emptyProjection } from '../../shared/projection/projection.js';
import { writeProjection } from '../../shared/projection/write-projection.js';
import type { CampaignFindings } from './findings.js';
import { type DivisionPlan, type PicturedBucket, planDivision } from './plan-division.js';
import { ACTION, ACTOR } from './repair-shard.js';
import { type CampaignRows, RestoredBuckets } from './restored-buckets.js';

/**
 * Repairs what all buckets of divided campaigns share: terms, units, status and transfers. The caller holds the locks
 * of all shards. It is one transaction, so that no unit counts in two buckets or in none.
 */
export class DividedCampaigns {
  readonly #campaigns: RestoredCampaigns;
  readonly #buckets: RestoredBuckets;

  constructor(
    readonly client: Queryable,
    readonly plans: readonly DivisionPlan[],
  ) {
    this.#campaigns = new RestoredCampaigns(client);
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
      if (row && row.product !== product) continue;
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

  /** Adds the transfers to the findings about buckets. */
  withTransfers(findings: CampaignFindings): CampaignFindings {
    const plan = this.plans.find(({ state }) => state.product === findings.product);
    const transfers = findings.bucket === undefined ? undefined : plan?.transfers.get(findings.bucket);
    return transfers ? { ...findings, transfers } : findings;
  }

  /** Writes terms, units, transfers and statuses. Rows that end were written before, so there is room for others. */
  async write(nowMs: number): Promise<void> {
    for (const plan of this.plans) {
      const { state, home, newest, need, total, totals, left, arrived } = plan;
      const { no, status, terms } = home.copy;
      if (state.row === null) {
        await this.#campaigns.create({ ...newest, status, total }, home.shard);
        await this.#buckets.create(no, home.shard, totals);
      } else {
        if (need.terms) await this.#campaigns.raiseTerms(state.row, newest);
        if (need.total) await this.#campaigns.setTotal(no, total);
        const changed = state.rows.filter(({ bucket, total: before }) => (totals[bucket] ?? null) !== before);
        await this.#buckets.setTotals(
          no,
          changed.map(({ bucket }) => [bucket, totals[bucket] ?? null]),
        );
      }
      if (need.codes) await this.#campaigns.raiseCodes(no, need.codes.redis);
      await this.#buckets.endTransfers(no, arrived);
      await this.#buckets.insertTransfers(no, left);
      const sealed = state.buckets.filter(({ part }) => part.sealed).map(({ part }) => part.bucket);
      await this.#buckets.seal(no, sealed);
      if (need.status) await writeProjection(this.client, { ...emptyProjection(), statuses: new Map([[no, status]]) });
      if (state.row && status === 'open') await this.#campaigns.setBeginning(no, terms.startsAt.getTime());
      await this.#audit(plan, nowMs);
    }
  }

  async #audit({ state: { row }, home, newest, need, total }: DivisionPlan, nowMs: number): Promise<void> {
    if (row && !need.total && !need.status && !need.terms) return;
    const before = row && { total_limit: row.total, status: row.status, version: row.version };
    const after = { total_limit: total, status: home.copy.status, version: newest.version };
    const at = { atMs: nowMs, actor: ACTOR, action: ACTION, no: home.copy.no };
    const audit = [{ ...at, before: before ?? {}, after, request: '' }];
    await writeProjection(this.client, { ...emptyProjection(), audit });
  }
}
