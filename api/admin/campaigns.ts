import { assertNever } from '../../shared/domain/assert-never.js';
import { FIRST_BUCKET } from '../../shared/domain/buckets.js';
import { normaliseCode } from '../../shared/domain/codes.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { Problem } from '../../shared/errors/catalogue.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { CarriedTerms } from '../../shared/image/carry-terms.js';
import { writeAudit } from '../../shared/postgres/audit-log.js';
import type { CampaignBuckets } from '../../shared/postgres/campaign-buckets.js';
import type { CampaignsTable, StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { CodesTable } from '../../shared/postgres/codes.js';
import type { Database, Queryable } from '../../shared/postgres/pool.js';
import type { CodeNotifications } from '../../shared/redis/code-notifications.js';
import type { Sales } from '../../shared/sale/sales.js';
import type { TermsNotifications } from '../claim/terms-notifications.js';
import type { PolicyCache } from '../guards/limits/policy-cache.js';
import type { AmendBody, CampaignBody } from './campaign.contract.js';
import { type CampaignActions, type Operator, setBack } from './campaign-actions.js';
import { amendedTerms, campaignView, limitOnlyRaised, newCampaign } from './campaign-form.js';
import type { CampaignPlacement, Placed } from './campaign-placement.js';
import { type OwnRegion, sellersOf } from './campaign-regions.js';
import { type Demands, requireSupported, type Supported } from './campaign-requirements.js';

/** How often a change of terms is tried if other operators change the same campaign. */
const AMEND_TRIES = 3;

export type CampaignsDeps = {
  database: Database;
  table: CampaignsTable;
  sales: Sales;
  buckets: CampaignBuckets;
  placement: Pick<CampaignPlacement, 'place' | 'exclude' | 'untilKnown' | 'assertKnown'>;
  actions: CampaignActions;
  /** Copies later terms of Redis to Postgres. */
  carryTerms: (campaign: StoredCampaign) => Promise<CarriedTerms>;
  codes: CodesTable;
  codeNotifications: CodeNotifications;
  termsNotifications: TermsNotifications;
  policies: PolicyCache;
  supported: Supported;
  /** null = this installation is the only one. */
  region: OwnRegion | null;
};

/**
 * Creates campaigns and changes their terms. Terms are changed in Postgres with an audit entry and put into force in
 * Redis before the commit, because Redis decides whether the change is possible; the worker repairs the result of a
 * crash in between.
 */
export class Campaigns {
  constructor(readonly deps: CampaignsDeps) {}

  /** @throws Problem 404 @throws EngineUnavailable as `CampaignActions.find` does */
  find(idOrProduct: string): Promise<StoredCampaign> {
    return this.deps.actions.find(idOrProduct);
  }

  /** @throws Problem 400 if the configuration cannot keep a rule of the campaign */
  requireSupported(body: Demands): void {
    requireSupported(body, this.deps.supported);
  }

  /** @throws Problem 400 or 409 if a creation would be rejected for its configuration, its regions or its code */
  async requireCreatable(body: CampaignBody): Promise<void> {
    this.requireSupported(body);
    sellersOf(body, this.deps.region);
    const typed = normaliseCode(body.code ?? '');
    if (typed.kind === 'code' && (await this.deps.codes.find([typed.code])).size > 0) throw codeTaken();
  }

  /**
   * Creates a campaign. If an earlier attempt stored it in Postgres and did not reach Redis, it is loaded into Redis
   * before the conflict is reported, so that a campaign that exists sells.
   * @throws Problem 409 if the product already has a campaign, which is never reset, or if the code was already issued
   */
  async create(body: CampaignBody, operator: Operator, now: Date): Promise<StoredCampaign> {
    this.requireSupported(body);
    const { database, table, placement } = this.deps;
    const regions = sellersOf(body, this.deps.region);
    let placed: Placed | null = null;
    const campaign = await database.transaction(async (client) => {
      const created = await table.insert(newCampaign({ ...body, regions }, now), client);
      if (!created) return null;
      const unread = await this.#assertNotLost(created);
      if (created.buckets > 1) await this.deps.buckets.create(client, created.id, created.totalLimit, created.buckets);
      await audit(client, operator, 'campaign.create', created, null, campaignView(created));
      await this.#issueCode(created, client);
      // Last, because it locks the installation until the commit: the others would wait for the announced code too.
      placed = await placement.place(client, created);
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
    if (!(await this.deps.codes.insertShared(id, typed.code, client))) throw codeTaken();
    await settled();
  }

  async amend(idOrProduct: string, body: AmendBody, operator: Operator): Promise<StoredCampaign> {
    this.requireSupported(body);
    let above = 0;
    for (let tries = 1; tries <= AMEND_TRIES; tries += 1) {
      const current = await this.find(idOrProduct);
      if (current.status === 'closed') throw new Problem('campaign_conflict', 'The campaign is closed.');
      try {
        const { terms, rules } = amendedTerms(current, body);
        const amended = await this.deps.database.transaction(async (client) => {
          const changed = await this.deps.table.amend(current, terms, rules, client, above);
          if (!changed) return null;
          const inRedis = await this.#carry(changed);
          await audit(client, operator, 'campaign.amend', changed, campaignView(current), campaignView(changed));
          // Last, because it locks the installation until the commit.
          return { changed, inRedis, version: await this.deps.placement.exclude(client, current.rules, changed.rules) };
        });
        if (!amended) continue;
        await this.deps.placement.untilKnown({ version: amended.version, mustBeKnown: true });
        if (!amended.inRedis && amended.changed.reservations === 0) await this.#load(amended.changed);
        // A process that misses this is corrected by the script, or uses the old terms for at most a minute.
        await this.#notifyGuards(amended.changed.productId);
        if (body.draft !== false) return amended.changed;
        return {
          ...amended.changed,
          status: await this.deps.actions.change(amended.changed.productId, 'publish', operator),
        };
      } catch (error) {
        // An API has died before its commit, or Postgres was set back. The terms in force have the changes it lacks.
        if (error instanceof VersionTaken) {
          above = error.version;
          await this.deps.carryTerms(current);
        } else if (!(error instanceof Problem) || tries > 1 || !(await this.#hasCarried(current))) {
          throw error;
        }
      }
    }
    throw new Problem('campaign_conflict', 'Another operator is changing this campaign. Read it and try again.');
  }

  /** Whether Postgres lacked terms that are in force, and has them now. A refusal may not hold by them. */
  async #hasCarried(campaign: StoredCampaign): Promise<boolean> {
    const carried = await this.deps.carryTerms(campaign).catch(() => null);
    return carried?.kind === 'carried';
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

const codeTaken = () => new Problem('code_taken', 'This code was already issued by a campaign.');
