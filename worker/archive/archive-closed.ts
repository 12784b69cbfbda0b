import { bucketOfResponse } from '../../shared/domain/buckets.js';
import type { ProductId } from '../../shared/domain/ids.js';
import type { Log } from '../../shared/observability/log.js';
import type { CampaignsTable, StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import type { JournalCursor } from '../../shared/projection/journal-cursor.js';
import type { RequestNames } from '../../shared/redis/request-names.js';
import type { CampaignArchive } from '../../shared/sale/campaign-archive.js';
import type { SaleReader } from '../../shared/sale/sale-reader.js';
import { ALL_KEYS, type IdempotencyKeys } from './idempotency-keys.js';

export type ArchiveLimits = {
  entries: number;
  graceMs: number;
  restMs: number;
  differsMs: number;
  runMs: number;
  forgetBatch: number;
};

export type ArchiveDeps = {
  redemptions: RedemptionsTable;
  campaigns: Pick<CampaignsTable, 'find'>;
  cursor: JournalCursor;
  sale: Pick<SaleReader, 'directory'>;
  /** The bucket of a campaign that is in this shard, 0 for one that is not divided; null = none. */
  bucketIn: (product: ProductId) => number | null;
  archive: CampaignArchive;
  idempotencyKeys: Pick<IdempotencyKeys, 'page'>;
  requests: Pick<RequestNames, 'drop'>;
  log: Log;
  limits: ArchiveLimits;
};

/**
 * An archived campaign whose idempotency records are still in Redis. `upTo`: how far the walk over its keys has come.
 * `forgotten`: how many records this run has removed.
 */
type Remembered = { campaign: StoredCampaign; upTo: string; forgotten: number };

/**
 * Removes closed campaigns from Redis, to free memory: first the records of a campaign, by one script, then its
 * idempotency records, batch by batch. In this order, a repeated request in between either gets its idempotency record
 * or recalls the user. The campaign stores the progress, so another worker continues if this one dies.
 */
export class ArchiveClosed {
  /**
   * Campaigns whose rows in Postgres differ from Redis → when they are compared again. The comparison is rare because
   * summing all rows of a campaign is expensive.
   */
  readonly #differ = new Map<ProductId, number>();

  constructor(readonly deps: ArchiveDeps) {}

  async run(): Promise<void> {
    const { sale, bucketIn, cursor, limits } = this.deps;
    const endsAt = performance.now() + limits.runMs;
    // Read once for all campaigns. If it is out of date for a campaign, the script finds that campaign unsettled, and
    // the next run archives it.
    const committed = await cursor.read();
    let remembered: Remembered[] = [];
    for (const product of (await sale.directory()).values()) {
      if (bucketIn(product) === null) continue;
      const one = await this.#archive(product, committed);
      if (one) remembered.push(one);
      // Campaigns that are done cost almost nothing, so the next run gets further.
      if (performance.now() > endsAt) break;
    }
    // One batch of each campaign in turn, so that a large campaign does not delay the others.
    while (remembered.length > 0) {
      const left: Remembered[] = [];
      for (const one of remembered) if (await this.#forgetSome(one)) left.push(one);
      remembered = performance.now() < endsAt ? left : [];
    }
  }

  /**
   * @returns the campaign with its progress; null when it is not archived, or has no idempotency record left in Redis
   */
  async #archive(product: ProductId, committed: string): Promise<Remembered | null> {
    const { archive, cursor, campaigns, log, limits } = this.deps;
    let outcome = await archive.archive(product, committed, null, limits);
    if (outcome.kind === 'ready' && !this.#differs(product)) {
      const campaign = await campaigns.find(product);
      if (!campaign) return null;
      // Redis has the counters of the bucket that is in this shard.
      const bucket = campaign.buckets > 1 ? this.deps.bucketIn(product) : null;
      const counted = await this.deps.redemptions.sums(campaign.id, bucket);
      outcome = await archive.archive(product, await cursor.read(), counted, limits);
      if (outcome.kind === 'differs') {
        this.#differ.set(product, performance.now() + limits.differsMs);
        log.warn(
          { campaign: product, ...counted },
          'a closed campaign stays in Redis because its rows in Postgres differ; reconcile it',
        );
      }
      if (outcome.kind === 'archived')
        log.info({ campaign: product, reservations: counted.reservations }, 'a campaign was archived');
    }
    if (outcome.kind !== 'archived' && outcome.kind !== 'unchanged') return null;
    this.#differ.delete(product);
    if (outcome.forgotten === ALL_KEYS) return null;
    const campaign = await campaigns.find(product);
    return campaign && { campaign, upTo: outcome.forgotten, forgotten: 0 };
  }

  #differs(product: ProductId): boolean {
    return performance.now() < (this.#differ.get(product) ?? 0);
  }

  /** @returns whether more idempotency records of the campaign are left */
  async #forgetSome(one: Remembered): Promise<boolean> {
    const { archive, idempotencyKeys, requests, log, limits } = this.deps;
    const { productId, id, no, buckets } = one.campaign;
    const { keys, upTo } = await idempotencyKeys.page(id, one.upTo, limits.forgetBatch);
    const bucket = this.deps.bucketIn(productId);
    const own = buckets === 1 ? keys : keys.filter(({ user }) => bucketOfResponse(user, buckets) === bucket);
    const outcomes = await Promise.all(own.map((owned) => archive.evictResponse(productId, owned, '')));
    one.forgotten += outcomes.filter((outcome) => outcome.kind === 'forgotten' && outcome.removed).length;
    if (upTo === ALL_KEYS) await requests.drop(no);
    // The progress is stored after the whole batch, so that a record that could not be removed is tried again.
    const kept = await archive.evictResponse(productId, null, upTo);
    if (kept.kind !== 'forgotten') return false;
    one.upTo = upTo;
    if (upTo !== ALL_KEYS) return true;
    log.info(
      { campaign: productId, in_this_run: one.forgotten },
      'the idempotency records of an archived campaign were removed from Redis',
    );
    return false;
  }
}
