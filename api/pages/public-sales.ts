import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { Branding } from '../../shared/domain/branding.js';
import { FIRST_BUCKET } from '../../shared/domain/buckets.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { phaseAt } from '../../shared/domain/phase.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { TermsVersion } from '../../shared/postgres/campaign-terms.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';
import type { PublicState } from '../../shared/sale/sale-reader.js';
import type { Sales } from '../../shared/sale/sales.js';
import type { TermsCache } from '../claim/terms-cache.js';

const PHASES = ['scheduled', 'open', 'paused', 'ended'] as const;

/** What a page may show of a campaign. It contains no number of units or shoppers. */
export const publicSale = z.object({
  product_id: z.string(),
  name: z.string().describe('the product id if the name cannot be read'),
  status: z.enum(PHASES),
  starts_at: z.iso.datetime(),
  ends_at: z.iso.datetime().nullable().describe('null = open end'),
  server_time: z.iso.datetime(),
  has_line: z.boolean().describe('whether shoppers who find no free unit wait in a line'),
  sold_out: z
    .boolean()
    .describe('no unit is free; with a line: no unit is held either, so that none can become free soon'),
  hold_seconds: z.int().optional().describe('time to pay; 0 = nothing to pay'),
  branding: z
    .record(z.string(), z.unknown())
    .optional()
    .describe('the `branding` of the campaign, if it has one, without its texts'),
});
export type PublicSale = z.infer<typeof publicSale>;

/** `version`: of everything but the time. `perUserLimit`: null = unknown. */
export type FoundSale = {
  sale: PublicSale;
  branding: Branding;
  timeZone: string;
  perUserLimit: number | null;
  version: string;
};

export type PublicSalesDeps = { sales: Pick<Sales, 'of' | 'stock' | 'map'>; terms: TermsCache; clock: RedisClock };

/** Reads what anyone may see of sales. It costs one small read of Redis; this process caches the terms. */
export class PublicSales {
  constructor(readonly deps: PublicSalesDeps) {}

  /** In a divided campaign units may be in any bucket. */
  async #state(product: ProductId): Promise<PublicState | null> {
    const { sales } = this.deps;
    const state = await sales.of(product, FIRST_BUCKET).reader.publicState(product);
    if (!state || sales.map.bucketsOf(product) === 1) return state;
    const stock = await sales.stock(product);
    if (!stock || stock.free === null) return state;
    const isLimited = Number(stock.total) > 0 || !state.hasLine;
    return { ...state, soldOut: isLimited && stock.free <= 0 && (!state.hasLine || stock.held <= 0) };
  }

  /** Returns null for a product without a campaign, or with a draft. @throws EngineUnavailable */
  async of(product: ProductId): Promise<FoundSale | null> {
    const { terms, clock } = this.deps;
    const state = await this.#state(product);
    const nowMs = clock.nowMs();
    const phase = state ? phaseAt(state, nowMs) : 'draft';
    if (!state || phase === 'draft') return null;
    const known = await termsOf(terms, product);
    const { texts: _, ...look } = known?.branding ?? {};
    const sale: Omit<PublicSale, 'server_time'> = {
      product_id: product,
      name: known?.name ?? product,
      status: phase === 'not_started' ? 'scheduled' : phase,
      starts_at: new Date(state.startsAtMs).toISOString(),
      ends_at: state.endsAtMs > 0 ? new Date(state.endsAtMs).toISOString() : null,
      has_line: state.hasLine,
      sold_out: state.soldOut,
      ...(known ? { hold_seconds: known.holdSeconds } : {}),
      ...(known?.branding ? { branding: look } : {}),
    };
    const version = createHash('sha1')
      .update(JSON.stringify([sale, known?.version]))
      .digest('base64url');
    const { server_time, ...rest } = { server_time: new Date(nowMs).toISOString(), ...sale };
    return {
      sale: { ...rest, server_time },
      branding: known?.branding ?? {},
      timeZone: known?.timeZone ?? 'UTC',
      perUserLimit: known?.perUserLimit ?? null,
      version,
    };
  }
}

/** Returns the terms; null = unknown, or Postgres is unavailable, during which the page keeps working. */
async function termsOf(terms: TermsCache, product: ProductId): Promise<TermsVersion | null> {
  try {
    return await terms.current(product);
  } catch (error) {
    if (error instanceof EngineUnavailable) return null;
    throw error;
  }
}
