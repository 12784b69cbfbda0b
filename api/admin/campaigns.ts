import { assertNever } from '../../shared/domain/assert-never.js';
import type { CampaignStatus } from '../../shared/domain/campaign.js';
import { normaliseCode } from '../../shared/domain/codes.js';
import { EXTERNAL_ID_PATTERN, type IdempotencyKey, type ProductId } from '../../shared/domain/ids.js';
import { Problem } from '../../shared/errors/catalogue.js';
import { writeAudit } from '../../shared/postgres/audit-log.js';
import type { CampaignsTable, StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { CodesTable } from '../../shared/postgres/codes.js';
import type { Database, Queryable } from '../../shared/postgres/pool.js';
import type { JobQueues } from '../../shared/queues/queues.js';
import type { CodeNotifications } from '../../shared/redis/code-notifications.js';
import type { CommitWatermark } from '../../shared/redis/commit-watermark.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';
import type { Acknowledgement } from '../claim/acknowledgement.js';
import type { TermsNotifications } from '../claim/terms-notifications.js';
import type { PolicyCache } from '../guards/limits/policy-cache.js';
import { invalidFields } from '../http/validate.js';
import type { AmendBody, CampaignBody } from './campaign.contract.js';
import { amendedTerms, campaignView, limitOnlyRaised, newCampaign } from './campaign-form.js';

export const OPERATOR_ACTIONS = ['open', 'pause', 'resume', 'close'] as const;
export type OperatorAction = (typeof OPERATOR_ACTIONS)[number];
export type Operator = { name: string; requestId: string };

/** Operators are few; a change that meets another one is tried again this often. */
const AMEND_TRIES = 3;

export type CampaignsDeps = {
  database: Database;
  table: CampaignsTable;
  sale: SaleStore;
  queues: JobQueues;
  commits: CommitWatermark;
  acknowledgement: Acknowledgement;
  codes: CodesTable;
  codeNotifications: CodeNotifications;
  termsNotifications: TermsNotifications;
  policies: PolicyCache;
  limits: { operatorCommitWaitMs: number; promoteBatch: number; mayDemandPlatform: boolean };
};

/**
 * What operators do to campaigns. Terms are changed in Postgres, with their audit entry, and put into force in Redis before
 * that is committed, because Redis decides whether they are possible; the worker mends what a crash in between leaves.
 * Status and stock are decided by scripts, journaled with who did it, and follow in Postgres; the response waits for that,
 * since operators read back what they changed.
 */
export class Campaigns {
  constructor(readonly deps: CampaignsDeps) {}

  /** @throws Problem 409 when the product has a campaign, whose stock and buyers are never reset, or the code was issued */
  async create(body: CampaignBody, operator: Operator, now: Date): Promise<StoredCampaign> {
    this.#requireKeepable(body.limits);
    const campaign = await this.deps.database.transaction(async (client) => {
      const created = await this.deps.table.insert(newCampaign(body, now), client);
      if (created) await audit(client, operator, 'campaign.create', created, null, campaignView(created));
      if (created) await this.#issueCode(created, client);
      return created;
    });
    if (!campaign) throw new Problem('campaign_exists', `Product ${body.product_id} has a campaign.`);
    await this.#tellGuards(campaign.productId);
    await this.deps.sale.campaigns.load(campaign);
    return campaign;
  }

  /** A level that nobody can reach would sell to nobody. @throws Problem 400 */
  #requireKeepable(limits: CampaignBody['limits'] | undefined): void {
    if (limits?.attestation_level !== 2 || this.deps.limits.mayDemandPlatform) return;
    const detail = 'needs APP_ATTEST_APP_IDS or PLAY_INTEGRITY_PACKAGE in the configuration of the API';
    throw invalidFields({ pointer: '#/limits/attestation_level', detail });
  }

  /** Before the first shopper comes. Whoever misses it reads it again within seconds. */
  async #tellGuards(product: ProductId): Promise<void> {
    await Promise.all([this.deps.policies.refresh(product), this.deps.termsNotifications.announce(product)]).catch(
      () => {},
    );
  }

  /** The one code of a shared campaign stands with all others, so that none is ever issued twice. */
  async #issueCode({ id, code }: StoredCampaign, client: Queryable): Promise<void> {
    const typed = normaliseCode(code ?? '');
    if (typed.kind !== 'code') return;
    await this.deps.codes.lockIssuing(client);
    const settled = await this.deps.codeNotifications.announce([typed.code]);
    if (!(await this.deps.codes.insertShared(id, typed.code, client)))
      throw new Problem('code_taken', 'A campaign has or had this code.');
    await settled();
  }

  async amend(idOrProduct: string, body: AmendBody, operator: Operator): Promise<StoredCampaign> {
    this.#requireKeepable(body.limits);
    let above = 0;
    for (let tries = 1; tries <= AMEND_TRIES; tries += 1) {
      const current = await this.find(idOrProduct);
      if (current.status === 'closed') throw new Problem('campaign_conflict', 'The campaign is closed.');
      const { terms, rules } = amendedTerms(current, body);
      try {
        const amended = await this.deps.database.transaction(async (client) => {
          const changed = await this.deps.table.amend(current, terms, rules, client, above);
          if (!changed) return null;
          await audit(client, operator, 'campaign.amend', changed, campaignView(current), campaignView(changed));
          return { changed, inRedis: await this.#carry(changed) };
        });
        if (!amended) continue;
        if (!amended.inRedis) await this.deps.sale.campaigns.load(amended.changed);
        // A process that misses this is corrected by the script, or uses the old terms for a minute.
        await this.#tellGuards(amended.changed.productId);
        if (body.draft !== false) return amended.changed;
        return { ...amended.changed, status: await this.#setStatus(amended.changed.productId, 'publish', operator) };
      } catch (error) {
        if (!(error instanceof VersionTaken)) throw error;
        above = error.version;
      }
    }
    throw new Problem('campaign_conflict', 'Somebody else is changing this campaign; read it and try again.');
  }

  /**
   * Puts changed terms into force in Redis, which decides, before Postgres commits them.
   * @returns whether Redis has the campaign
   * @throws Problem 409 when the sale has begun, although Postgres does not have that yet
   * @throws VersionTaken when Redis has these terms or newer ones of another amendment, which may not have been committed
   */
  async #carry(amended: StoredCampaign): Promise<boolean> {
    const outcome = await this.deps.sale.campaigns.updateTerms(amended);
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
    // Units may have come back during a pause; the worker hands them out.
    if (action === 'resume' || action === 'open') await this.#promote(campaign.productId);
    return { ...(await this.find(idOrProduct)), status };
  }

  async restock(
    idOrProduct: string,
    delta: number,
    key: IdempotencyKey | null,
    operator: Operator,
  ): Promise<StoredCampaign> {
    const { productId } = await this.find(idOrProduct);
    const outcome = await this.deps.sale.campaigns.restock(
      productId,
      delta,
      this.deps.limits.promoteBatch,
      key,
      operator.name,
      operator.requestId,
    );
    switch (outcome.kind) {
      case 'restocked':
        await this.#acknowledge(outcome);
        if (delta > 0) await this.#promote(productId);
        return { ...(await this.find(idOrProduct)), totalLimit: outcome.total };
      case 'key_reused':
        throw new Problem('idempotency_key_reused', 'This key was used for another change.');
      case 'insufficient':
        throw new Problem('stock_insufficient', `Only ${outcome.free} units are free.`, {
          members: { free: outcome.free },
        });
      case 'too_many':
        throw new Problem('campaign_conflict', `A campaign may have ${outcome.maxTotal} units.`);
      case 'unlimited':
        throw new Problem('campaign_conflict', 'The stock is unlimited.');
      case 'closed':
        throw new Problem('campaign_conflict', 'The campaign is closed.');
      case 'not_found':
        throw notFound();
      default:
        return assertNever(outcome);
    }
  }

  /** @throws Problem 404 */
  async find(idOrProduct: string): Promise<StoredCampaign> {
    // Only what can be an id is looked up: a NUL, for one, is no text to Postgres.
    const campaign = EXTERNAL_ID_PATTERN.test(idOrProduct) ? await this.deps.table.find(idOrProduct) : null;
    if (!campaign) throw notFound();
    return campaign;
  }

  async #setStatus(
    product: ProductId,
    action: OperatorAction | 'publish',
    operator: Operator,
  ): Promise<CampaignStatus> {
    const outcome = await this.deps.sale.campaigns.setStatus(product, action, operator.name, operator.requestId);
    switch (outcome.kind) {
      case 'changed':
        await this.#acknowledge(outcome);
        return outcome.after;
      case 'unchanged':
        return outcome.status;
      case 'refused':
        throw new Problem('campaign_conflict', `A campaign that is ${outcome.status} cannot be changed by ${action}.`);
      case 'not_found':
        throw notFound();
      default:
        return assertNever(outcome);
    }
  }

  /**
   * Operators read back what they changed, so the response waits a moment for the commit. The change is in the journal,
   * so a commit that is late holds up the response of durable campaigns only.
   */
  async #acknowledge(outcome: { durable: boolean; journalId: string }): Promise<void> {
    await this.deps.acknowledgement.held(outcome);
    await this.deps.commits.committed(outcome.journalId, this.deps.limits.operatorCommitWaitMs);
  }

  /** Sooner than the sweep of the lines, which does the same: a job that cannot be queued now changes nothing. */
  async #promote(product: ProductId): Promise<void> {
    const id = `promote-${product.replaceAll(':', '_')}-${Date.now()}`;
    await this.deps.queues.add('promote', id, { productId: product }).catch(() => {});
  }
}

/** Redis has terms of this version already. */
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

const notFound = () => new Problem('campaign_not_found', 'No campaign has this id or product id.');
