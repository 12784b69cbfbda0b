import { matchesAudience } from '../../shared/domain/audience.js';
import type { Discount } from '../../shared/domain/campaign.js';
import type { Cart } from '../../shared/domain/discount.js';
import type { DeviceId, IdempotencyKey, OrderId, UserId } from '../../shared/domain/ids.js';
import { applyDiscounts } from '../../shared/domain/stacking.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { TermsVersion } from '../../shared/postgres/campaign-terms.js';
import type { KnownTerms } from '../../shared/postgres/known-terms.js';
import { type Claim, type ClaimResult, type HeldUnit, TermsChanged } from '../claim/claim.js';
import type { CodeFinder, IssuedCode } from './code-finder.js';
import type { OneTimeTokens } from './one-time-token.js';

export type RedemptionRequest = {
  user: UserId;
  order: OrderId;
  attributes: Record<string, unknown>;
  cart: Cart | null;
  /** as it was sent; null = none */
  oneTimeToken: string | null;
  key: IdempotencyKey;
  attestation: { expiresAtSeconds: number } | null;
  device: DeviceId | null;
  network: string;
  trace: string;
};

export type Redeemed = {
  status: 201 | 202;
  data: Record<string, unknown>;
  replayed: boolean;
  quotaLeft: number | null;
};

/** Terms that change again and again while one request is judged; then it may come again. */
const MAX_JUDGEMENTS = 5;

/** Redeeming: a claim by code. The audience is judged here, and the script refuses when the terms are others by then. */
export class Redemption {
  constructor(
    readonly claim: Claim,
    readonly finder: CodeFinder,
    readonly terms: KnownTerms,
    readonly tokens: OneTimeTokens,
  ) {}

  /** @throws Problem for every refusal; EngineUnavailable when an engine that is needed did not answer */
  async run(issued: IssuedCode, request: RedemptionRequest): Promise<Redeemed> {
    const once = this.#verified(issued, request);
    let judged = issued;
    for (let round = 0; round < MAX_JUDGEMENTS; round += 1) {
      try {
        return await this.#told(judged, request, await this.#claim(judged, request, once));
      } catch (error) {
        if (!(error instanceof TermsChanged)) throw error;
        judged = await this.finder.renewed(judged);
      }
    }
    throw new Problem('temporarily_unavailable', 'The campaign is being changed.', { retryAfterSeconds: 1 });
  }

  #verified({ code }: IssuedCode, { oneTimeToken, user }: RedemptionRequest): Verified {
    if (oneTimeToken === null) return null;
    const once = this.tokens.verify(oneTimeToken, code, user);
    if (!once) throw new Problem('token_invalid', 'The one-time token is not ours for this code and user.');
    return once;
  }

  #claim({ codeNo, product, terms }: IssuedCode, request: RedemptionRequest, once: Verified): Promise<ClaimResult> {
    const isHis = terms.audience === null || matchesAudience(terms.audience, request.attributes);
    const { user, order, key, attestation: token, device, network, trace } = request;
    // A mismatch goes to the script as well, since a repeated key is answered before anything else is judged.
    const coupon = { code: codeNo, terms: isHis ? terms.version : -1, once };
    return this.claim.run({ product, user, qty: 1, key, order, token, device, network, trace, coupon });
  }

  async #told(
    { code, product, terms }: IssuedCode,
    { cart }: RedemptionRequest,
    { promise, replayed, quotaLeft }: ClaimResult,
  ): Promise<Redeemed> {
    if (promise.kind === 'place') return { status: 202, data: promise.data, replayed, quotaLeft };
    const under = promise.terms === terms.version ? terms : await this.terms.version(product, promise.terms);
    return { status: 201, data: redeemedData(code, promise, under, cart), replayed, quotaLeft };
  }
}

type Verified = { nonce: string; expiresAtMs: number } | null;

function redeemedData(
  code: string,
  unit: HeldUnit,
  terms: TermsVersion | null,
  cart: Cart | null,
): Record<string, unknown> {
  const discount = terms?.discount ?? null;
  return {
    status: unit.payBefore === null ? 'redeemed' : 'reserved',
    reservation_id: unit.reservationId,
    order_id: unit.orderId,
    code,
    discount,
    ...amounts(code, discount, terms, cart),
    pay_before: unit.payBefore,
    ticket: unit.ticket,
    durability: unit.durability,
  };
}

function amounts(code: string, discount: Discount | null, terms: TermsVersion | null, cart: Cart | null) {
  if (!cart || !terms) return { discount_amount: null, total: null };
  const offered = { code, campaign: terms.productId, discount, stacking: terms.stacking };
  const { discountAmount, total } = applyDiscounts(cart, [offered]);
  return { discount_amount: discountAmount, total };
}
