import { assertNever } from '../../shared/domain/assert-never.js';
import { FIRST_BUCKET, MAX_BUCKETS } from '../../shared/domain/buckets.js';
import type { CampaignStatus } from '../../shared/domain/campaign.js';
import { hasPlaceholder } from '../../shared/domain/checkout-url.js';
import { normaliseCode } from '../../shared/domain/codes.js';
import { EXTERNAL_ID_PATTERN, type IdempotencyKey, type ProductId } from '../../shared/domain/ids.js';
import { Problem } from '../../shared/errors/catalogue.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import { writeAudit } from '../../shared/postgres/audit-log.js';
import type { CampaignBuckets } from '../../shared/postgres/campaign-buckets.js';
import type { CampaignsTable, StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { CodesTable } from '../../shared/postgres/codes.js';
import type { Database, Queryable } from '../../shared/postgres/pool.js';
import type { JobQueues } from '../../shared/queues/queues.js';
import type { CodeNotifications } from '../../shared/redis/code-notifications.js';
import type { CommitWatermark } from '../../shared/redis/commit-watermark.js';
import type { Sales } from '../../shared/sale/sales.js';
import type { Acknowledgements } from '../claim/acknowledgement.js';
import type { TermsNotifications } from '../claim/terms-notifications.js';
import type { PolicyCache } from '../guards/limits/policy-cache.js';
import { invalidFields } from '../http/validate.js';
import type { AmendBody, CampaignBody } from './campaign.contract.js';
import { amendedTerms, campaignView, limitOnlyRaised, newCampaign } from './campaign-form.js';
import type { CampaignPlacement, Placed } from './campaign-placement.js';

export const OPERATOR_ACTIONS = ['open', 'pause', 'resume', 'close'] as const;
export type OperatorAction = (typeof OPERATOR_ACTIONS)[number];
export type Operator = { name: string; requestId: string };

/** How often a change of terms is tried if other operators change the same campaign. */
const AMEND_TRIES = 3;

export type CampaignsDeps = {
  database: Database;
  table: CampaignsTable;
  sales: Sales;
  buckets: CampaignBuckets;
  placement: Pick<CampaignPlacement, 'place' | 'untilKnown' | 'assertKnown'>;
  queues: Pick<JobQueues, 'add'>;
  /** The shard of the first bucket. */
  shardOf: (product: ProductId) => number;
  commitsOf: (product: ProductId, bucket: number) => CommitWatermark;
  acknowledgements: Acknowledgements;
  codes: CodesTable;
  codeNotifications: CodeNotifications;
  termsNotifications: TermsNotifications;
  policies: PolicyCache;
  limits: {
    operatorCommitWaitMs: number;
    promoteBatch: number;
    mayDemandPlatform: boolean;
    mayDemandIdentity: boolean;
    mayUseHttp: boolean;
    maySignLinks: boolean;
    imageOrigins: readonly string[];
    shards: number;
  };
};

/**
 * Changes of campaigns by operators. Terms are changed in Postgres with an audit entry and put into force in Redis
 * before the commit, because Redis decides whether the change is possible; the worker repairs the result of a crash in
 * between. Scripts change status and stock and journal the change with its operator; Postgres follows. The response
 * waits for Postgres, because operators read back what they changed.
 */
export class Campaigns {
  constructor(readonly deps: CampaignsDeps) {}

  /**
   * Creates a campaign. If an earlier attempt stored it in Postgres and did not reach Redis, it is loaded into Redis
   * before the conflict is reported, so that a campaign that exists sells.
   * @throws Problem 409 if the product already has a campaign, which is never reset, or if the code was already issued
   */
  async create(body: CampaignBody, operator: Operator, now: Date): Promise<StoredCampaign> {
    this.#requireKeepable(body);
    this.requireBuckets(body);
    const { database, table, placement } = this.deps;
    let placed: Placed | null = null;
    const campaign = await database.transaction(async (client) => {
      const created = await table.insert(newCampaign(body, now), client);
      if (!created) return null;
      const unread = await this.#assertNotLost(created);
      if (created.buckets > 1) await this.deps.buckets.create(client, created.id, created.totalLimit, created.buckets);
      await audit(client, operator, 'campaign.create', created, null, campaignView(created));
      await this.#issueCode(created, client);
      // Last, because it locks the installation until the commit: the others would wait for the announced code too.
      placed = await placement.place(client, created.productId, created.buckets);
      const away = created.buckets > 1 ? [...unread.values()][0] : unread.get(placed.shard);
      if (away !== undefined) throw EngineUnavailable.from('redis', away);
      return created;
    });
    if (placed !== null) await placement.untilKnown(placed);
    const unsold = await this.#findUnsold(body.product_id);
    if (unsold) {
      await this.#notifyGuards(unsold.productId);
      await this.#load(unsold);
    }
    if (!campaign) throw new Problem('campaign_exists', `Product ${body.product_id} already has a campaign.`);
    return campaign;
  }

  /**
   * Checks that Redis has no campaign for the product, and none under the number. If it has one, Postgres lacks it,
   * because it was set back, and the new campaign would take the place of one that the repair creates again. Each
   * creation raises the version of the map, so the other shards show a lost one for a shard that is away.
   * @returns shard → error of the shards that could not be read
   * @throws EngineUnavailable
   */
  async #assertNotLost({ productId, no }: StoredCampaign): Promise<ReadonlyMap<number, unknown>> {
    const found = await Promise.allSettled(
      this.deps.sales.stores.map(async ({ reader }) => Promise.all([reader.productOf(no), reader.has(productId)])),
    );
    const unread = new Map<number, unknown>();
    for (const [shard, result] of found.entries()) {
      if (result.status === 'rejected') unread.set(shard, result.reason);
      else if (result.value[0] !== null || result.value[1]) throw setBack();
    }
    return unread;
  }

  /** The campaign of a product, unless it was closed or has reservations, which only a worker restores. */
  async #findUnsold(product: string): Promise<StoredCampaign | null> {
    const stored = await this.deps.table.find(product);
    return stored?.productId === product && stored.status !== 'closed' && stored.reservations === 0 ? stored : null;
  }

  /** Rejects rules that this configuration cannot keep. @throws Problem 400 */
  #requireKeepable({
    limits,
    checkout_url: url,
    branding,
  }: Pick<AmendBody, 'limits' | 'checkout_url' | 'branding'>): void {
    const { mayDemandPlatform, mayDemandIdentity, mayUseHttp, maySignLinks, imageOrigins } = this.deps.limits;
    if (limits?.attestation_level === 2 && !mayDemandPlatform) {
      const detail = 'requires APP_ATTEST_APP_IDS or PLAY_INTEGRITY_PACKAGE in the configuration of the API';
      throw invalidFields({ pointer: '#/limits/attestation_level', detail });
    }
    if (limits?.identity_level && !mayDemandIdentity) {
      const detail = 'requires SHOPPER_IDENTITY=jwt or signed in the configuration of the API';
      throw invalidFields({ pointer: '#/limits/identity_level', detail });
    }
    if (url && !mayUseHttp && !/^https:/i.test(url))
      throw invalidFields({ pointer: '#/checkout_url', detail: 'must be a URL starting with https:// in production' });
    if (url && !maySignLinks && hasPlaceholder(url, 'signature')) {
      const detail = 'requires PAY_LINK_KEYS in the configuration of the API for {signature}';
      throw invalidFields({ pointer: '#/checkout_url', detail });
    }
    const pictures = (['image_url', 'logo_url'] as const).filter((name) => {
      const picture = branding?.[name];
      return picture !== undefined && !imageOrigins.includes(new URL(picture).origin);
    });
    const detail =
      imageOrigins.length === 0
        ? 'requires its origin in IMAGE_ORIGINS in the configuration of the API'
        : `must be from an origin of IMAGE_ORIGINS: ${imageOrigins.join(', ')}`;
    if (pictures.length > 0)
      throw invalidFields(...pictures.map((name) => ({ pointer: `#/branding/${name}`, detail })));
  }

  /** @throws Problem 400 if a campaign of this type, or on these shards, cannot have so many buckets */
  requireBuckets({ type, buckets }: Pick<CampaignBody, 'type' | 'buckets'>): void {
    const most = Math.min(this.deps.limits.shards, MAX_BUCKETS);
    const detail =
      buckets > most
        ? `must be at most ${most}: each bucket needs a shard of its own, and SHARDS is ${this.deps.limits.shards}`
        : 'must be 1 in a campaign of type `unique`: its codes are redeemed by users of any bucket';
    if (buckets > most || (buckets > 1 && type === 'unique'))
      throw new Problem('buckets_unavailable', 'The campaign cannot have so many buckets; see `errors`.', {
        members: { errors: [{ pointer: '#/buckets', detail }] },
      });
  }

  /** Writes a campaign to Redis, each of its buckets to its shard. What exists stays. */
  async #load(campaign: StoredCampaign): Promise<void> {
    const { sales, buckets, placement } = this.deps;
    const { productId, id } = campaign;
    await placement.assertKnown(campaign);
    if (campaign.buckets === 1) return void (await sales.of(productId, FIRST_BUCKET).campaigns.load(campaign));
    await Promise.all(
      sales.all(productId).map(async (store, bucket) => {
        const { part } = await buckets.part(id, bucket);
        // A bucket whose stock has moved is restored by a worker, which knows the codes that moved.
        if (part.movedOut > 0 || Object.keys(part.arrived).length > 0) return;
        await store.campaigns.load(campaign, undefined, null, null, part);
      }),
    );
  }

  /** Notifies the guards before the first request. A process that misses it reads the policy within seconds. */
  async #notifyGuards(product: ProductId): Promise<void> {
    await Promise.all([this.deps.policies.refresh(product), this.deps.termsNotifications.announce(product)]).catch(
      () => {},
    );
  }

  /** Inserts the code of a shared campaign into the table of codes, so that no code is ever issued twice. */
  async #issueCode({ id, code }: StoredCampaign, client: Queryable): Promise<void> {
    const typed = normaliseCode(code ?? '');
    if (typed.kind !== 'code') return;
    await this.deps.codes.lockIssuing(client);
    const settled = await this.deps.codeNotifications.announce([typed.code]);
    if (!(await this.deps.codes.insertShared(id, typed.code, client)))
      throw new Problem('code_taken', 'This code was already issued by a campaign.');
    await settled();
  }

  async amend(idOrProduct: string, body: AmendBody, operator: Operator): Promise<StoredCampaign> {
    this.#requireKeepable(body);
    let above = 0;
    for (let tries = 1; tries <= AMEND_TRIES; tries += 1) {
      const current = await this.find(idOrProduct);
      if (current.status === 'closed') throw new Problem('campaign_conflict', 'The campaign is closed.');
      const { terms, rules } = amendedTerms(current, body);
      try {
        const amended = await this.deps.database.transaction(async (client) => {
          const changed = await this.deps.table.amend(current, terms, rules, client, above);
          if (!changed) return null;
          const inRedis = await this.#carry(changed);
          await audit(client, operator, 'campaign.amend', changed, campaignView(current), campaignView(changed));
          return { changed, inRedis };
        });
        if (!amended) continue;
        if (!amended.inRedis && amended.changed.reservations === 0) await this.#load(amended.changed);
        // A process that misses this is corrected by the script, or uses the old terms for at most a minute.
        await this.#notifyGuards(amended.changed.productId);
        if (body.draft !== false) return amended.changed;
        return { ...amended.changed, status: await this.#setStatus(amended.changed.productId, 'publish', operator) };
      } catch (error) {
        if (!(error instanceof VersionTaken)) throw error;
        above = error.version;
      }
    }
    throw new Problem('campaign_conflict', 'Another operator is changing this campaign. Read it and try again.');
  }

  /**
   * Puts changed terms into force in Redis before Postgres commits them, because Redis decides whether that is
   * possible.
   * @returns whether Redis has the campaign
   * @throws Problem 409 if the sale has begun, which Postgres may not know yet
   * @throws VersionTaken if Redis has the same or newer terms of another change, which may not be committed
   */
  async #carry(amended: StoredCampaign): Promise<boolean> {
    const stores = this.deps.sales.all(amended.productId);
    const outcomes = await Promise.all(stores.map(({ campaigns }) => campaigns.updateTerms(amended)));
    // All buckets of a campaign have the same terms; one that differs decides.
    const outcome = outcomes.find(({ kind }) => kind !== 'amended') ?? { kind: 'amended' };
    switch (outcome.kind) {
      case 'amended':
        return true;
      case 'not_found':
        return false;
      case 'known':
        throw new VersionTaken(outcome.version);
      case 'refused':
        throw limitOnlyRaised();
      default:
        return assertNever(outcome);
    }
  }

  async setStatus(idOrProduct: string, action: OperatorAction, operator: Operator): Promise<StoredCampaign> {
    const campaign = await this.find(idOrProduct);
    const status = await this.#setStatus(campaign.productId, action, operator);
    // Units may have been returned during a pause; the worker assigns them.
    if (action === 'resume' || action === 'open') await this.#promote(campaign.productId);
    return { ...(await this.find(idOrProduct)), status };
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

  async #setStatus(
    product: ProductId,
    action: OperatorAction | 'publish',
    operator: Operator,
  ): Promise<CampaignStatus> {
    const { name, requestId } = operator;
    const [home, ...others] = this.deps.sales.all(product).map(({ campaigns }) => campaigns);
    if (!home) throw notFound();
    // Bucket 0 speaks for the campaign, so it is last: if another one cannot be changed, a repetition changes all.
    const ofOthers = await Promise.all(others.map((one) => one.setStatus(product, action, name, requestId)));
    const outcome = await home.setStatus(product, action, name, requestId);
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

/** Redis already has terms of this version. */
class VersionTaken extends Error {
  override readonly name = 'VersionTaken';
  constructor(readonly version: number) {
    super(`version ${version} of the terms is in force`);
  }
}

function audit(
  client: Parameters<typeof writeAudit>[0],
  operator: Operator,
  action: string,
  campaign: StoredCampaign,
  before: Record<string, unknown> | null,
  after: Record<string, unknown>,
): Promise<void> {
  return writeAudit(client, {
    actor: operator.name,
    action,
    campaignId: campaign.id,
    before,
    after,
    requestId: operator.requestId,
  });
}

const setBack = () => new EngineUnavailable('postgres', 'it was set back and lacks a campaign that Redis has');
const notFound = () => new Problem('campaign_not_found', 'No campaign has this id or product id.');
