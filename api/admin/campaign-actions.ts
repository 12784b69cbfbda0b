import { assertNever } from '../../shared/domain/assert-never.js';
import { FIRST_BUCKET } from '../../shared/domain/buckets.js';
import type { CampaignStatus } from '../../shared/domain/campaign.js';
import { EXTERNAL_ID_PATTERN, type IdempotencyKey, type ProductId } from '../../shared/domain/ids.js';
import { Problem } from '../../shared/errors/catalogue.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { CampaignsTable, StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { JobQueues } from '../../shared/queues/queues.js';
import type { CommitWatermark } from '../../shared/redis/commit-watermark.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';
import type { Sales } from '../../shared/sale/sales.js';
import type { Acknowledgements } from '../claim/acknowledgement.js';

export const OPERATOR_ACTIONS = ['open', 'pause', 'resume', 'close'] as const;
export type OperatorAction = (typeof OPERATOR_ACTIONS)[number];
export type Operator = { name: string; requestId: string };

export type CampaignActionsDeps = {
  table: CampaignsTable;
  sales: Sales;
  queues: Pick<JobQueues, 'add'>;
  /** The shard of the first bucket. */
  shardOf: (product: ProductId) => number;
  commitsOf: (product: ProductId, bucket: number) => CommitWatermark;
  acknowledgements: Acknowledgements;
  limits: { operatorCommitWaitMs: number; promoteBatch: number };
};

/**
 * Changes of the status and of the stock by operators. Scripts make and journal them with the operator; Postgres
 * follows. The response waits for Postgres, because operators read back what they changed.
 */
export class CampaignActions {
  constructor(readonly deps: CampaignActionsDeps) {}

  /**
   * @throws Problem 404
   * @throws EngineUnavailable if Redis has a campaign that Postgres lacks, because Postgres was set back
   */
  async find(idOrProduct: string): Promise<StoredCampaign> {
    // Postgres rejects some texts, such as one with a NUL, so only valid ids are looked up.
    if (!EXTERNAL_ID_PATTERN.test(idOrProduct)) throw notFound();
    const campaign = await this.deps.table.find(idOrProduct);
    if (campaign) return campaign;
    if (
      (await this.deps.sales.of(idOrProduct as ProductId, FIRST_BUCKET).reader.stock(idOrProduct as ProductId)) === null
    )
      throw notFound();
    throw setBack();
  }

  async setStatus(idOrProduct: string, action: OperatorAction, operator: Operator): Promise<StoredCampaign> {
    const campaign = await this.find(idOrProduct);
    const status = await this.change(campaign.productId, action, operator);
    // Units may have been returned during a pause; the worker assigns them.
    if (action === 'resume' || action === 'open') await this.#promote(campaign.productId);
    return { ...(await this.find(idOrProduct)), status };
  }

  /**
   * Changes bucket 0 first, which has the status of the campaign. The other buckets follow it, here or, if this process
   * dies or a bucket goes away meanwhile, by the schedule (worker/schedule/follow-home.ts). Until then they may sell
   * their own units; a round promotes no user while a bucket is paused or closed.
   * @throws Problem 404, 409
   * @throws EngineUnavailable if a bucket is away; before the change of bucket 0 none is changed, after it all follow
   */
  async change(product: ProductId, action: OperatorAction | 'publish', operator: Operator): Promise<CampaignStatus> {
    const { name, requestId } = operator;
    const stores = this.deps.sales.all(product);
    const [home, ...others] = stores.map(({ campaigns }) => campaigns);
    if (!home) throw notFound();
    if (others.length > 0) await this.#requireAll(product, stores);
    const outcome = await home.setStatus(product, action, name, requestId);
    const isDone = outcome.kind === 'changed' || outcome.kind === 'unchanged';
    const settled = await Promise.allSettled(
      isDone ? others.map((one) => one.setStatus(product, action, name, requestId)) : [],
    );
    const ofOthers = settled.map((one) => {
      if (one.status === 'rejected') throw one.reason;
      return one.value;
    });
    // No bucket waits for the commit of another one, so that all serve the line again at about the same time.
    await Promise.all(
      [outcome, ...ofOthers].map((one, bucket) => one.kind === 'changed' && this.#acknowledge(product, one, bucket)),
    );
    switch (outcome.kind) {
      case 'changed':
        return outcome.after;
      case 'unchanged':
        return outcome.status;
      case 'refused':
        throw new Problem(
          'campaign_conflict',
          `The campaign is ${outcome.status}, so the action \`${action}\` is not possible.`,
        );
      case 'not_found':
        throw notFound();
      default:
        return assertNever(outcome);
    }
  }

  /** Reads every bucket of a divided campaign. @throws EngineUnavailable if one is away or not in Redis */
  async #requireAll(product: ProductId, stores: readonly SaleStore[]): Promise<void> {
    const [home, ...others] = await Promise.all(stores.map(({ reader }) => reader.stock(product)));
    if (home && others.includes(null)) throw new EngineUnavailable('redis', `it lacks a bucket of ${product}`);
  }

  async restock(
    idOrProduct: string,
    delta: number,
    key: IdempotencyKey | null,
    operator: Operator,
  ): Promise<StoredCampaign> {
    const { productId, buckets, totalLimit } = await this.find(idOrProduct);
    // The first bucket gets the units; rounds and fetches move them to the users.
    const outcome = await this.deps.sales
      .of(productId, FIRST_BUCKET)
      .campaigns.restock(productId, delta, this.deps.limits.promoteBatch, key, operator.name, operator.requestId);
    switch (outcome.kind) {
      case 'restocked': {
        const isCommitted = await this.#acknowledge(productId, outcome, FIRST_BUCKET);
        if (delta > 0) await this.#promote(productId);
        const changed = await this.find(idOrProduct);
        if (buckets === 1) return { ...changed, totalLimit: outcome.total };
        // The reply of a bucket has its own total, and Postgres lacked the change when this call began.
        if (isCommitted || changed.totalLimit !== totalLimit) return changed;
        return { ...changed, totalLimit: Number(totalLimit) + delta };
      }
      case 'key_reused':
        throw new Problem('idempotency_key_reused', 'This key was used for a different change.');
      case 'insufficient':
        throw new Problem('stock_insufficient', `Only ${outcome.free} units are free and can be removed.`, {
          members: { free: outcome.free },
        });
      case 'too_many':
        throw new Problem('campaign_conflict', `A campaign can have at most ${outcome.maxTotal} units.`);
      case 'unlimited':
        throw new Problem('campaign_conflict', 'The campaign has unlimited stock.');
      case 'closed':
        throw new Problem('campaign_conflict', 'The campaign is closed.');
      case 'not_found':
        throw notFound();
      default:
        return assertNever(outcome);
    }
  }

  /**
   * Waits for the commit for at most `operatorCommitWaitMs`, because operators read back what they changed. The change
   * is in the journal, so only the response of a durable campaign depends on the commit.
   * @returns whether Postgres has the change
   */
  async #acknowledge(
    product: ProductId,
    outcome: { durable: boolean; journalId: string },
    bucket: number,
  ): Promise<boolean> {
    const { acknowledgements, commitsOf, limits } = this.deps;
    const journalId = await acknowledgements.entryOf(product, outcome.journalId, bucket);
    await acknowledgements.held(product, { ...outcome, journalId }, bucket);
    return commitsOf(product, bucket).committed(journalId, limits.operatorCommitWaitMs);
  }

  /** Queues a promotion. Errors are ignored, because the queue `expire` promotes as well, only later. */
  async #promote(product: ProductId): Promise<void> {
    const { queues, shardOf } = this.deps;
    await queues.add('promote', { productId: product }, shardOf(product)).catch(() => {});
  }
}

export const setBack = () => new EngineUnavailable('postgres', 'it was set back and lacks a campaign that Redis has');
const notFound = () => new Problem('campaign_not_found', 'No campaign has this id or product id.');
