import type { Cart, Discount } from '../../shared/domain/discount.js';
import { applyDiscounts } from '../../shared/domain/stacking.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { TermsVersion } from '../../shared/postgres/campaign-terms.js';
import type { ClaimRequest } from '../../shared/sale/reserve-input.js';
import type { Claim, ClaimResult, HeldUnit } from '../claim/claim.js';
import { judgedClaim } from '../claim/judged-claim.js';
import type { Claimed } from '../claim/send-claim.js';
import type { TermsCache } from '../claim/terms-cache.js';
import { assertByCode, type IssuedCode } from './code-resolver.js';
import type { RedeemedData } from './coupon.contract.js';
import type { OneTimeTokens } from './one-time-token.js';

export type RedemptionRequest = {
  claim: ClaimRequest;
  attributes: Record<string, unknown>;
  cart: Cart | null;
  /** As sent; null = none. */
  oneTimeToken: string | null;
};

export type Redeemed = Claimed<{ status: 201; data: RedeemedData }>;

/** Redeems codes: a claim by code, returned with the discount of the terms under which it was made. */
export class Redemption {
  constructor(
    readonly claim: Claim,
    readonly terms: TermsCache,
    readonly tokens: OneTimeTokens,
  ) {}

  /** @throws Problem for every refusal · EngineUnavailable if Redis or Postgres is unavailable */
  async run(issued: IssuedCode, request: RedemptionRequest): Promise<Redeemed> {
    assertByCode(issued, this.claim.sales.map);
    const claim = { ...request.claim, coupon: { code: issued.codeNo, once: this.#verified(issued, request) } };
    return judgedClaim(
      issued.terms,
      request.attributes,
      async (version, before) => (await this.terms.inForce(issued.product, version)) ?? before,
      async (terms, judged) => this.#responseOf({ ...issued, terms }, request, await this.claim.run(claim, judged)),
    );
  }

  #verified({ code }: IssuedCode, { oneTimeToken, claim }: RedemptionRequest): Verified {
    if (oneTimeToken === null) return null;
    const once = this.tokens.verify(oneTimeToken, code, claim.user);
    if (!once) throw new Problem('token_invalid', 'The one-time token is not valid for this code and user.');
    return once;
  }

  async #responseOf(
    { code, product, terms }: IssuedCode,
    { cart }: RedemptionRequest,
    { promise, replayed, quotaLeft }: ClaimResult,
  ): Promise<Redeemed> {
    if (promise.kind === 'place') return { answer: { status: 202, data: promise.data }, replayed, quotaLeft };
    const under = promise.terms === terms.version ? terms : await this.terms.promised(product, promise.terms);
    return { answer: { status: 201, data: redeemedData(code, promise, under, cart) }, replayed, quotaLeft };
  }
}

type Verified = { nonce: string; expiresAtMs: number } | null;

function redeemedData(code: string, unit: HeldUnit, terms: TermsVersion, cart: Cart | null): RedeemedData {
  const { discount } = terms;
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

function amounts(code: string, discount: Discount | null, terms: TermsVersion, cart: Cart | null) {
  if (!cart) return { discount_amount: null, total: null };
  const offered = { code, campaign: terms.productId, discount, stacking: terms.stacking };
  const { discountAmount, total } = applyDiscounts(cart, [offered]);
  return { discount_amount: discountAmount, total };
}
