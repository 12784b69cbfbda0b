import { numberOfBucket } from '../domain/buckets.js';
import { type BucketPart, type Campaign, type FormerVersion, MAX_UNITS } from '../domain/campaign.js';
import type { IdempotencyKey, ProductId } from '../domain/ids.js';
import { storedVelocity } from '../domain/velocity.js';
import { keys, OPERATORS, saleKeys } from '../redis/keys.js';
import { packFormer, packTerms } from './packed-terms.js';
import type { SaleCalls } from './sale-calls.js';
import type { Archived } from './sale-reader.js';
import {
  type AddCodesOutcome,
  addCodesScript,
  type LoadCampaignOutcome,
  loadCampaignScript,
  type RestockOutcome,
  restockScript,
  type SetStatusOutcome,
  type StatusAction,
  setStatusScript,
  type UpdateTermsOutcome,
  updateTermsScript,
} from './scripts/campaign.js';

/** Counters of a campaign in Postgres, for writing it to Redis. */
export type KnownCounters = { held: number; redeemed: number; burned: number; waiting: number; lastLineNo: number };
const NOTHING_YET: KnownCounters = { held: 0, redeemed: 0, burned: 0, waiting: 0, lastLineNo: 0 };

/** Campaigns themselves: terms, status and stock. Every method throws EngineUnavailable when Redis cannot be used. */
export class Campaigns {
  constructor(readonly calls: SaleCalls) {}

  /**
   * Writes a campaign to Redis, unless it exists.
   * @param archived when only the campaign is written and its records stay in Postgres
   * @param token of the worker that fills Redis (RedisFill); null when Redis is in service
   * @param part the bucket of a divided campaign that this shard has; null = the whole campaign
   * @param former earlier versions of its terms, the latest first
   * @throws FencedOut when this worker no longer fills Redis
   */
  load(
    campaign: Campaign,
    known: KnownCounters = NOTHING_YET,
    archived: Archived | null = null,
    token: string | null = null,
    part: BucketPart | null = null,
    former: readonly FormerVersion[] = [],
  ): Promise<LoadCampaignOutcome> {
    const total = part ? part.total : campaign.totalLimit;
    return this.calls.scripts.run(loadCampaignScript, {
      keys: saleKeys(campaign.productId),
      args: {
        no: part ? numberOfBucket(campaign.no, part.bucket) : campaign.no,
        product_id: campaign.productId,
        ...packTerms(campaign),
        status: campaign.status,
        // The codes of a bucket divide themselves when they are added, so that an existing bitmap stays.
        codes: part && token === null ? 0 : campaign.codes,
        total: total ?? -1,
        held: known.held,
        redeemed: known.redeemed,
        burned: known.burned,
        waiting: known.waiting,
        last_line_no: known.lastLineNo,
        archived: archived?.pass ?? '',
        promised: archived?.promised ?? 0,
        token: token ?? '',
        stage: part ? (part.sealed ? 'sealed' : 'open') : '0',
        moved_out: part?.movedOut ?? 0,
        arrived: JSON.stringify(part?.arrived ?? {}),
        gave: JSON.stringify(part?.gave ?? []),
        own_codes: part?.ownCodes ?? 0,
        former: packFormer(former),
      },
    });
  }

  updateTerms(campaign: Campaign): Promise<UpdateTermsOutcome> {
    return this.calls.scripts.run(updateTermsScript, {
      keys: saleKeys(campaign.productId),
      args: {
        ...packTerms(campaign),
        version: campaign.termsVersion,
        per_user_limit: campaign.perUserLimit,
        velocity: storedVelocity(campaign.rules.velocity),
      },
    });
  }

  /** Changes the status. @param reason for the audit log and the operator's page; "" = none */
  setStatus(
    product: ProductId,
    action: StatusAction,
    actor: string,
    requestId: string,
    reason = '',
  ): Promise<SetStatusOutcome> {
    return this.calls.keep(
      this.calls.scripts.run(setStatusScript, {
        keys: saleKeys(product),
        args: { action, actor, request_id: requestId, reason },
      }),
    );
  }

  /**
   * Adds or removes units.
   * @param key idempotency key; null = a repetition is a second restock
   * @param back whether units return that were taken from the campaign before: then it may be closed
   * @param final whether a refusal is one for this key for good, because the caller records it
   */
  restock(
    product: ProductId,
    delta: number,
    promoteLimit: number,
    key: IdempotencyKey | null,
    actor: string,
    requestId: string,
    { back = false, final = false }: { back?: boolean; final?: boolean } = {},
  ): Promise<RestockOutcome> {
    const idempotencyKey = key ?? ('' as IdempotencyKey);
    return this.calls.keep(
      this.calls.scripts.run(restockScript, {
        keys: {
          ...saleKeys(product),
          idempotency: keys.idempotency(OPERATORS, idempotencyKey),
        },
        args: {
          delta,
          limit: promoteLimit,
          key: idempotencyKey,
          key_ttl_ms: this.calls.limits.idempotencyTtlMs,
          actor,
          request_id: requestId,
          max_total: MAX_UNITS,
          back,
          final,
        },
      }),
    );
  }

  /**
   * Raises the number of codes of the campaign in this shard. A divided campaign needs the call in the shard of each
   * bucket. @param codes total number of codes
   */
  addCodes(product: ProductId, codes: number, buckets = 1): Promise<AddCodesOutcome> {
    return this.calls.scripts.run(addCodesScript, { keys: saleKeys(product), args: { codes, buckets } });
  }
}
