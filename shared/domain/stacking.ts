import type { Discount } from './discount.js';
import { type Cart, discountOn, isDiscount, orderOfKind } from './discount.js';
import { type MinorUnits, minus } from './money.js';

/** Every combination is priced, and their number doubles with each code: at most 1,024, in about a millisecond. */
export const MAX_CODES = 10;
/** The priority of a campaign that sets none. Lower priorities are applied first. */
export const USUAL_PRIORITY = 100;

/** How the codes of a campaign combine with others in the same cart. */
export type Stacking = {
  /** Combines with nothing. */
  exclusive: boolean;
  /** Two codes of the same group do not combine. */
  group?: string | undefined;
  /** 0–1,000; lower is applied first. Equal priorities are ordered by kind: percentages, amounts, free shipping. */
  priority?: number | undefined;
};

/**
 * The stacking as scripts and rows store it: `combines`, `exclusive`, or `group:` and the percent-encoded group. An
 * exclusive campaign needs no group.
 */
export function packStacking({ exclusive, group }: Pick<Stacking, 'exclusive' | 'group'>): string {
  if (exclusive) return 'exclusive';
  return group === undefined ? COMBINES : `group:${encodeURIComponent(group)}`;
}
export const COMBINES = 'combines';

/** A code with the terms under which it is offered. `campaign` is any id that is unique to the campaign. */
export type OfferedCode = { code: string; campaign: string; discount: Discount | null; stacking: Stacking };

export type LeftOutReason =
  | 'duplicate'
  | 'no_discount'
  | 'currency_mismatch'
  | 'same_campaign'
  | 'exclusive'
  | 'same_group'
  | 'no_effect';

export type AppliedCode = { code: string; campaign: string; discount: Discount; amount: MinorUnits };
/** `conflictsWith`: the applied code with which this code does not combine. */
export type LeftOutCode = { code: string; campaign: string; reason: LeftOutReason; conflictsWith: string | null };

export type Combination = {
  currency: string;
  subtotal: MinorUnits;
  /** In the order of application. Each is applied to the price that the codes before it left. */
  applied: AppliedCode[];
  /** In the order of the input. */
  leftOut: LeftOutCode[];
  discountAmount: MinorUnits;
  total: MinorUnits;
  freeShipping: boolean;
};

type Candidate = OfferedCode & { discount: Discount };

/**
 * Finds the allowed combination of codes that saves the shopper most. Ties go to a combination with free shipping, then
 * to the one with fewer codes, so that no code is used without an effect, then to the codes that come first in the
 * order of application. The order of the input makes no difference.
 * @throws RangeError for more than MAX_CODES codes; callers must reject such requests first
 */
export function applyDiscounts(cart: Cart, codes: readonly OfferedCode[]): Combination {
  if (codes.length > MAX_CODES) throw new RangeError(`at most ${MAX_CODES} codes, not ${codes.length}`);
  const unusable = new Map<number, LeftOutReason>();
  codes.forEach((offered, index) => {
    const reason = unusableBecause(cart, offered, codes.slice(0, index));
    if (reason) unusable.set(index, reason);
  });
  const candidates = codes.filter((_, index) => !unusable.has(index)) as Candidate[];
  const best = bestOf(cart, candidates.sort(inOrder));
  const chosen = new Set(best.applied.map(({ code }) => code));
  const leftOut = codes.flatMap((offered, index): LeftOutCode[] => {
    const { code, campaign } = offered;
    const reason = unusable.get(index);
    if (reason) return [{ code, campaign, reason, conflictsWith: null }];
    return chosen.has(code) ? [] : [{ code, campaign, ...keptOutBy(offered, candidates, chosen) }];
  });
  return { ...best, leftOut };
}

/** Why a code cannot be in any combination; null when it can. */
function unusableBecause(cart: Cart, offered: OfferedCode, before: readonly OfferedCode[]): LeftOutReason | null {
  if (before.some(({ code }) => code === offered.code)) return 'duplicate';
  if (offered.discount === null || !isDiscount(offered.discount)) return 'no_discount';
  if (offered.discount.kind === 'amount' && offered.discount.currency !== cart.currency) return 'currency_mismatch';
  return null;
}

function inOrder(a: Candidate, b: Candidate): number {
  return (
    (a.stacking.priority ?? USUAL_PRIORITY) - (b.stacking.priority ?? USUAL_PRIORITY) ||
    orderOfKind(a.discount) - orderOfKind(b.discount) ||
    (a.code < b.code ? -1 : 1)
  );
}

/** Why two codes do not combine; null when they do. */
function conflictBetween(a: OfferedCode, b: OfferedCode): LeftOutReason | null {
  if (a.campaign === b.campaign) return 'same_campaign';
  if (a.stacking.exclusive || b.stacking.exclusive) return 'exclusive';
  return a.stacking.group !== undefined && a.stacking.group === b.stacking.group ? 'same_group' : null;
}

type Result = Omit<Combination, 'leftOut'>;

/** Prices every set without a conflict. `ordered` is in the order of application. */
function bestOf(cart: Cart, ordered: readonly Candidate[]): Result {
  let best = priced(cart, []);
  const extend = (chosen: readonly Candidate[], from: number): void => {
    for (const [offset, candidate] of ordered.slice(from).entries()) {
      if (chosen.some((other) => conflictBetween(other, candidate))) continue;
      const larger = [...chosen, candidate];
      const result = priced(cart, larger);
      if (isBetter(result, best)) best = result;
      extend(larger, from + offset + 1);
    }
  };
  extend([], 0);
  return best;
}

/**
 * Whether `a` is better than `b`. Sets are priced in the order of their codes, so of equal sets the first one stays.
 */
function isBetter(a: Result, b: Result): boolean {
  if (a.discountAmount !== b.discountAmount) return a.discountAmount > b.discountAmount;
  if (a.freeShipping !== b.freeShipping) return a.freeShipping;
  return a.applied.length < b.applied.length;
}

function priced(cart: Cart, chosen: readonly Candidate[]): Result {
  let total = cart.subtotal;
  const applied = chosen.map(({ code, campaign, discount }) => {
    const amount = discountOn(total, discount);
    total = minus(total, amount);
    return { code, campaign, discount, amount };
  });
  return {
    currency: cart.currency,
    subtotal: cart.subtotal,
    applied,
    discountAmount: minus(cart.subtotal, total),
    total,
    freeShipping: chosen.some(({ discount }) => discount.kind === 'free_shipping'),
  };
}

/**
 * Why a usable code was not applied. A code without a conflict was left out because it has no effect: the best
 * combination contains every code that saves anything.
 */
function keptOutBy(
  offered: OfferedCode,
  candidates: readonly Candidate[],
  chosen: ReadonlySet<string>,
): Pick<LeftOutCode, 'reason' | 'conflictsWith'> {
  for (const other of candidates) {
    const reason = chosen.has(other.code) ? conflictBetween(offered, other) : null;
    if (reason) return { reason, conflictsWith: other.code };
  }
  return { reason: 'no_effect', conflictsWith: null };
}
