import type { Discount } from './discount.js';
import { type Cart, discountOn, isDiscount, orderOfKind } from './discount.js';
import { type MinorUnits, minus } from './money.js';

/** Every combination is looked at, so their number doubles with each code: 1,024 at most, about a millisecond. */
export const MAX_CODES = 10;
/** Where a campaign without a priority stands; lower ones are applied first. */
export const USUAL_PRIORITY = 100;

/** What a campaign says of others in the same cart. */
export type Stacking = {
  /** Combines with nothing. */
  exclusive: boolean;
  /** Two of one group do not combine. */
  group?: string | undefined;
  /** 0–1,000, lower is applied first; equal ones by kind: percentages, amounts, free shipping. */
  priority?: number | undefined;
};

/**
 * The same as scripts and rows keep it: `combines`, `exclusive`, or `group:` and the group, percent-encoded. Who is exclusive
 * needs no group.
 */
export function packStacking({ exclusive, group }: Pick<Stacking, 'exclusive' | 'group'>): string {
  if (exclusive) return 'exclusive';
  return group === undefined ? COMBINES : `group:${encodeURIComponent(group)}`;
}
export const COMBINES = 'combines';

/** A code with the terms under which it is offered. `campaign` is any id that tells campaigns apart. */
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
/** `conflictsWith`: the applied code that keeps this one out. */
export type LeftOutCode = { code: string; campaign: string; reason: LeftOutReason; conflictsWith: string | null };

export type Combination = {
  currency: string;
  subtotal: MinorUnits;
  /** In the order in which they are applied, each to what those before it left. */
  applied: AppliedCode[];
  /** In the order in which they were given. */
  leftOut: LeftOutCode[];
  discountAmount: MinorUnits;
  total: MinorUnits;
  freeShipping: boolean;
};

type Candidate = OfferedCode & { discount: Discount };

/**
 * The combination that saves the shopper most, of all that the campaigns allow. Ties go to the one with free shipping, then to
 * fewer codes, so that none is used up for nothing, then to the codes that come first in their order. What was given in which
 * order makes no difference.
 * @throws RangeError for more than MAX_CODES codes: callers refuse them first
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

/** Why a code is in no combination at all. */
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

/** Why two codes are never in one cart; null when they may be. */
function conflictBetween(a: OfferedCode, b: OfferedCode): LeftOutReason | null {
  if (a.campaign === b.campaign) return 'same_campaign';
  if (a.stacking.exclusive || b.stacking.exclusive) return 'exclusive';
  return a.stacking.group !== undefined && a.stacking.group === b.stacking.group ? 'same_group' : null;
}

type Result = Omit<Combination, 'leftOut'>;

/** Looks at every set that has no conflict in it. `ordered` is in the order of application. */
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

/** Sets are met in the order of their codes, so of equal ones the first stays. */
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

/** Without a conflict it would change nothing: the best combination has everything that saves a unit. */
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
