import type { ProductId } from '../../shared/domain/ids.js';
import type { Log } from '../../shared/observability/log.js';
import type { CampaignsTable, StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import type { JournalCursor } from '../../shared/projection/journal-cursor.js';
import type { CampaignArchive } from '../../shared/sale/campaign-archive.js';
import type { SaleReader } from '../../shared/sale/sale-reader.js';
import { ALL_KEYS, type IdempotencyKeys } from './idempotency-keys.js';

export type ArchiveLimits = {
  archiveEntries: number;
  archiveGraceMs: number;
  archiveRestMs: number;
  archiveDiffersMs: number;
  archiveRunMs: number;
  forgetBatch: number;
};

export type ArchiveDeps = {
  redemptions: RedemptionsTable;
  campaigns: Pick<CampaignsTable, 'find'>;
  cursor: JournalCursor;
  sale: Pick<SaleReader, 'directory'>;
  archive: CampaignArchive;
  idempotencyKeys: Pick<IdempotencyKeys, 'page'>;
  log: Log;
  limits: ArchiveLimits;
};

/** Answers of a campaign that are still in Redis, and how many this run has forgotten. */
type Remembered = { campaign: StoredCampaign; upTo: string; forgotten: number };

/**
 * Takes what is over out of Redis, and makes room there: first the records of a closed campaign, by one script, then its
 * remembered answers, batch by batch. In this order, so that a repeated request in between is either answered from the
 * user's record or recalls the user. A worker that dies goes on where the campaign says that it was.
 */
export class ArchiveClosed {
  /** Campaigns that differ, by when they are looked at again: adding all their rows up is dear. */
  readonly #differ = new Map<ProductId, number>();

  constructor(readonly deps: ArchiveDeps) {}

  async run(): Promise<void> {
    const { sale, cursor, limits } = this.deps;
    const endsAt = performance.now() + limits.archiveRunMs;
    // One read for all: should it be old by then, a campaign is found unsettled and waits for the next run.
    const committed = await cursor.read();
    let remembered: Remembered[] = [];
    for (const product of (await sale.directory()).values()) {
      const one = await this.#archive(product, committed);
      if (one) remembered.push(one);
      // Those that are done cost next to nothing, so the next run comes further.
      if (performance.now() > endsAt) break;
    }
    // Each in its turn, so that a large campaign keeps no other one waiting.
    while (remembered.length > 0) {
      const left: Remembered[] = [];
      for (const one of remembered) if (await this.#forgetSome(one)) left.push(one);
      remembered = performance.now() < endsAt ? left : [];
    }
  }

  /** @returns what is left to be forgotten of it; null when it is not archived, or wholly */
  async #archive(product: ProductId, committed: string): Promise<Remembered | null> {
    const { archive, cursor, campaigns, log, limits } = this.deps;
    let outcome = await archive.archive(product, committed, null, limits);
    if (outcome.kind === 'ready' && !this.#differs(product)) {
      const campaign = await campaigns.find(product);
      if (!campaign) return null;
      const counted = await this.deps.redemptions.sums(campaign.id);
      outcome = await archive.archive(product, await cursor.read(), counted, limits);
      if (outcome.kind === 'differs') {
        this.#differ.set(product, performance.now() + limits.archiveDiffersMs);
        log.warn(
          { campaign: product, ...counted },
          'a closed campaign stays in Redis: Postgres has other rows; reconcile it',
        );
      }
      if (outcome.kind === 'archived') log.info({ campaign: product, reservations: counted.reservations }, 'archived');
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

  /** @returns whether there is more of it */
  async #forgetSome(one: Remembered): Promise<boolean> {
    const { archive, idempotencyKeys, log, limits } = this.deps;
    const { productId, id } = one.campaign;
    const { keys, upTo } = await idempotencyKeys.page(id, one.upTo, limits.forgetBatch);
    const outcomes = await Promise.all(keys.map((owned) => archive.evictResponse(productId, owned, '')));
    one.forgotten += outcomes.filter((outcome) => outcome.kind === 'forgotten' && outcome.removed).length;
    // After all of them, so that one that failed is met again.
    const kept = await archive.evictResponse(productId, null, upTo);
    if (kept.kind !== 'forgotten') return false;
    one.upTo = upTo;
    if (upTo !== ALL_KEYS) return true;
    log.info({ campaign: productId, in_this_run: one.forgotten }, 'the answers of an archived campaign left Redis');
    return false;
  }
}
