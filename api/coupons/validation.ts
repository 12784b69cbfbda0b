import { localTime } from '../../shared/calendar/sale-window.js';
import { assertNever } from '../../shared/domain/assert-never.js';
import { type Attributes, matchesAudience } from '../../shared/domain/audience.js';
import { FIRST_BUCKET } from '../../shared/domain/buckets.js';
import type { Cart } from '../../shared/domain/discount.js';
import type { ProductId, UserId } from '../../shared/domain/ids.js';
import { applyDiscounts, type LeftOutReason } from '../../shared/domain/stacking.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { TermsVersion } from '../../shared/postgres/campaign-terms.js';
import type { Sales } from '../../shared/sale/sales.js';
import type { CheckRedeemableOutcome } from '../../shared/sale/scripts/checkout.js';
import { notStarted } from '../claim/claim.js';
import type { Identity } from '../guards/auth/shopper-identity.js';
import { assertByCode, type IssuedCode } from './code-resolver.js';
import type { ValidationRefusal, ValidData } from './coupon.contract.js';

export type Shopper = { user: UserId; attributes: Record<string, unknown>; cart: Cart | null };
/** One of several codes: usable, or refused with the reason. */
export type Judged = { typed: string; issued: IssuedCode } | { typed: string; refusal: Problem };

/** `total` -1 = unlimited */
type UsableStock = { free: number; total: number };

const FEW_UNITS = 10;
const FEW_PART = 0.1;

/** Computes what a code currently gives its user. It reserves nothing. */
export class Validation {
  constructor(
    readonly sales: Sales,
    readonly nowMs: () => number,
  ) {}

  /** Checks one code. @throws Problem if it could not be redeemed now */
  async one(issued: IssuedCode, shopper: Shopper): Promise<ValidData> {
    const stock = await this.checkRedeemable(issued, shopper);
    const { terms, code } = issued;
    const combined = shopper.cart && applyDiscounts(shopper.cart, [offerOf(issued)]);
    const { endsAt, timeZone } = terms;
    return {
      valid: true,
      code,
      campaign: campaignOf(terms),
      discount: terms.discount,
      discount_amount: combined?.discountAmount ?? null,
      total: combined?.total ?? null,
      free_shipping: terms.discount?.kind === 'free_shipping',
      remaining_hint: hintOf(stock),
      ends_at: endsAt?.toISOString() ?? null,
      ends_at_local: endsAt === null ? null : localTime(endsAt, timeZone),
      time_zone: timeZone,
    };
  }

  /** Returns the best combination of the usable codes, and the reasons why the others are left out. */
  several(judged: readonly Judged[], cart: Cart | null): ValidData {
    const usable = judged.flatMap((one) => ('issued' in one ? [one.issued] : []));
    const termsOf = new Map(usable.map(({ product, terms }) => [product as string, terms]));
    const combined = cart && applyDiscounts(cart, usable.map(offerOf));
    const refused = judged.flatMap((one) =>
      'refusal' in one
        ? [{ code: one.typed, reason: one.refusal.code, detail: one.refusal.detail, conflicts_with: null }]
        : [],
    );
    const leftOut = (combined?.leftOut ?? []).map(({ code, reason, conflictsWith }) => ({
      code,
      reason,
      detail: WHY[reason],
      conflicts_with: conflictsWith,
    }));
    return {
      valid: (combined?.applied.length ?? usable.length) > 0,
      applied: (combined?.applied ?? []).map(({ code, campaign, discount, amount }) => ({
        code,
        campaign: campaignOf(termsOf.get(campaign) as TermsVersion),
        discount,
        amount,
      })),
      left_out: [...refused, ...leftOut],
      discount_amount: combined?.discountAmount ?? null,
      total: combined?.total ?? null,
      free_shipping: combined?.freeShipping ?? false,
    };
  }

  /** Returns the stock of a usable code; `total` -1 = unlimited. @throws Problem if it could not be redeemed now */
  async checkRedeemable(issued: IssuedCode, { user, attributes }: Shopper): Promise<UsableStock> {
    assertByCode(issued, this.sales.map);
    const { audience } = issued.terms;
    const bucket = this.sales.bucketOf(issued.product, user);
    const store = this.sales.of(issued.product, bucket);
    const outcome = await store.claims.checkRedeemable(issued.product, user, issued.codeNo);
    if (outcome.kind === 'usable' && audience !== null && !matchesAudience(audience, attributes)) {
      throw new Problem('audience_mismatch', 'The user is not in the audience of this campaign.');
    }
    if (outcome.kind !== 'usable') throw refusalOf(outcome, this.nowMs());
    const mayBeElsewhere = outcome.free === 0 && outcome.total !== -1 && this.sales.map.bucketsOf(issued.product) > 1;
    return mayBeElsewhere ? this.#freeInAllBuckets(issued.product, outcome) : outcome;
  }

  /**
   * The stock of a divided campaign. With a line, users get a place, so the stock of their bucket is returned.
   * @throws Problem if there is no line and no bucket has a unit
   */
  async #freeInAllBuckets(product: ProductId, own: UsableStock): Promise<UsableStock> {
    const state = await this.sales.of(product, FIRST_BUCKET).reader.publicState(product);
    if (state?.hasLine !== false) return own;
    const stock = await this.sales.stock(product);
    if (!stock || stock.free === null || stock.total === null) return own;
    if (stock.free <= 0) throw refusalOf({ kind: 'sold_out' }, this.nowMs());
    return { free: stock.free, total: stock.total };
  }
}

const WHY: Record<LeftOutReason, string> = {
  duplicate: 'The code was sent twice.',
  no_discount: 'The campaign of this code gives no discount.',
  currency_mismatch: 'The discount and the cart have different currencies.',
  same_campaign: 'Two codes of one campaign cannot be combined.',
  exclusive: 'One of the two codes cannot be combined with others.',
  same_group: 'Two codes of one group cannot be combined.',
  no_effect: 'The code would not reduce the total any further.',
};

const offerOf = ({ code, product, terms }: IssuedCode) => ({
  code,
  campaign: product,
  discount: terms.discount,
  stacking: terms.stacking,
});

const campaignOf = ({ productId, name, type }: TermsVersion) => ({ product_id: productId, name, type });

/** @param total -1 = unlimited */
function hintOf({ free, total }: { free: number; total: number }): 'plenty' | 'few' | 'none' {
  if (total === -1) return 'plenty';
  if (free === 0) return 'none';
  return free <= Math.max(FEW_UNITS, total * FEW_PART) ? 'few' : 'plenty';
}

function refusalOf(
  outcome: Exclude<CheckRedeemableOutcome, { kind: 'usable' }>,
  nowMs: number,
): Problem<ValidationRefusal> {
  switch (outcome.kind) {
    case 'not_found':
      return new Problem('code_not_found', 'The campaign of this code is not published.');
    case 'paused':
      return new Problem('campaign_paused', 'The sale is paused.', { retryAfterSeconds: 5 });
    case 'ended':
      return new Problem('campaign_ended', 'The campaign has ended.');
    case 'not_started':
      return notStarted(outcome.startsAtMs, nowMs);
    case 'limit_reached':
      return new Problem('already_redeemed', 'The user has reached the limit of this campaign.');
    case 'code_used':
      return new Problem('already_redeemed', 'The code has been redeemed.');
    case 'sold_out':
      return new Problem('sold_out', 'No unit is free.');
    case 'line_full':
      return new Problem('waiting_room_full', 'The waiting room has reached its limit.');
    default:
      return assertNever(outcome);
  }
}

/** Returns the shopper of a request, with the attributes of the proof of identity or else those of the body. */
export function shopperOf(
  body: {
    user_id: string;
    attributes: Attributes;
    cart?: { subtotal: number; currency: string } | undefined;
  },
  identity: Identity,
): Shopper {
  return {
    user: body.user_id as UserId,
    attributes: identity.attributes ?? body.attributes,
    cart: (body.cart as Cart | undefined) ?? null,
  };
}
