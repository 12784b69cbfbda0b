import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Cart, Discount } from './discount.js';
import type { MinorUnits } from './money.js';
import { applyDiscounts, MAX_CODES, type OfferedCode, type Stacking } from './stacking.js';

const percent = (value: number): Discount => ({ kind: 'percent', percent: value });
const amount = (value: number, currency = 'EUR'): Discount => ({ kind: 'amount', amount: value, currency });
const SHIPPING: Discount = { kind: 'free_shipping' };

const cartOf = (subtotal: number, currency = 'EUR'): Cart => ({ subtotal: subtotal as MinorUnits, currency });
const offer = (code: string, discount: Discount | null, stacking: Partial<Stacking> = {}): OfferedCode => ({
  code,
  campaign: `campaign of ${code}`,
  discount,
  stacking: { exclusive: false, ...stacking },
});
const brief = (cart: Cart, ...codes: OfferedCode[]) => {
  const { applied, leftOut, discountAmount, total } = applyDiscounts(cart, codes);
  return {
    applied: applied.map(({ code, amount: taken }) => [code, taken]),
    leftOut: leftOut.map(({ code, reason, conflictsWith }) => [code, reason, conflictsWith]),
    discountAmount,
    total,
  };
};

describe('the order', () => {
  test('is percentages, then amounts, then free shipping, each on what is left', () => {
    expect(brief(cartOf(10_000), offer('A', SHIPPING), offer('B', amount(500)), offer('C', percent(10)))).toEqual({
      applied: [
        ['C', 1_000],
        ['B', 500],
        ['A', 0],
      ],
      leftOut: [],
      discountAmount: 1_500,
      total: 8_500,
    });
  });

  test('is the campaigns’ own where they have a priority', () => {
    expect(brief(cartOf(10_000), offer('B', amount(500), { priority: 1 }), offer('C', percent(10))).applied).toEqual([
      ['B', 500],
      ['C', 950],
    ]);
  });

  test('of two percentages is that of their codes, the second on what the first left', () => {
    expect(brief(cartOf(999), offer('Y', percent(50)), offer('X', percent(33.33))).applied).toEqual([
      ['X', 333],
      ['Y', 333],
    ]);
  });
});

describe('codes that do not combine', () => {
  test('of one group: the better one stays', () => {
    expect(
      brief(cartOf(10_000), offer('A', percent(10), { group: 'food' }), offer('B', amount(1_001), { group: 'food' })),
    ).toEqual({ applied: [['B', 1_001]], leftOut: [['A', 'same_group', 'B']], discountAmount: 1_001, total: 8_999 });
  });

  test('an exclusive one stands alone when it is worth more than all the others together', () => {
    const others = [offer('A', percent(10)), offer('B', amount(500))];
    const exclusive = (value: number) => offer('X', amount(value), { exclusive: true });
    expect(brief(cartOf(10_000), exclusive(1_501), ...others)).toEqual({
      applied: [['X', 1_501]],
      leftOut: [
        ['A', 'exclusive', 'X'],
        ['B', 'exclusive', 'X'],
      ],
      discountAmount: 1_501,
      total: 8_499,
    });
    expect(brief(cartOf(10_000), exclusive(1_499), ...others).leftOut).toEqual([['X', 'exclusive', 'A']]);
  });

  test('of one campaign: a handful of unique codes is not a handful of discounts', () => {
    const twins = ['A', 'B'].map((code) => ({ ...offer(code, percent(20)), campaign: 'one' }));
    expect(brief(cartOf(1_000), ...twins)).toMatchObject({
      applied: [['A', 200]],
      leftOut: [['B', 'same_campaign', 'A']],
    });
  });

  test('an amount in another currency, a campaign without a discount, the same code again', () => {
    const codes = [offer('A', amount(5, 'IDR')), offer('B', null), offer('C', amount(5)), offer('C', amount(5))];
    expect(brief(cartOf(1_000), ...codes)).toEqual({
      applied: [['C', 5]],
      leftOut: [
        ['A', 'currency_mismatch', null],
        ['B', 'no_discount', null],
        ['C', 'duplicate', null],
      ],
      discountAmount: 5,
      total: 995,
    });
  });
});

describe('a code that would change nothing', () => {
  test('is not used up', () => {
    expect(brief(cartOf(1_000), offer('A', percent(100)), offer('B', amount(5)))).toMatchObject({
      applied: [['A', 1_000]],
      leftOut: [['B', 'no_effect', null]],
    });
    expect(brief(cartOf(0), offer('A', percent(50))).leftOut).toEqual([['A', 'no_effect', null]]);
    expect(brief(cartOf(1_000), offer('A', SHIPPING), offer('B', SHIPPING)).leftOut).toEqual([
      ['B', 'no_effect', null],
    ]);
  });

  test('is kept when it is free shipping, which is worth something that no cart shows', () => {
    const codes = [offer('A', amount(10), { group: 'g' }), offer('B', amount(10)), offer('C', SHIPPING)];
    expect(brief(cartOf(10), ...codes)).toMatchObject({
      applied: [
        ['A', 10],
        ['C', 0],
      ],
      leftOut: [['B', 'no_effect', null]],
    });
  });
});

test('the total is never below zero', () => {
  expect(brief(cartOf(300), offer('A', percent(50)), offer('B', amount(200)))).toEqual({
    applied: [
      ['A', 150],
      ['B', 150],
    ],
    leftOut: [],
    discountAmount: 300,
    total: 0,
  });
});

test('ignores stored terms that are not valid, without an effect on other codes', () => {
  const wrong = [percent(33.333), percent(101), amount(0.5), { kind: 'gift' } as unknown as Discount];
  const codes = wrong.map((discount, index) => offer(`C${index}`, discount));
  expect(brief(cartOf(100), ...codes, offer('D', percent(1)))).toMatchObject({
    applied: [['D', 1]],
    leftOut: codes.map(({ code }) => [code, 'no_discount', null]),
  });
});

test('no code at all leaves the price', () => {
  expect(applyDiscounts(cartOf(70), [])).toEqual({
    currency: 'EUR',
    subtotal: 70,
    applied: [],
    leftOut: [],
    discountAmount: 0,
    total: 70,
    freeShipping: false,
  });
});

test('rejects more codes than it can combine', () => {
  const codes = Array.from({ length: MAX_CODES + 1 }, (_, index) => offer(`C${index}`, percent(1)));
  expect(() => applyDiscounts(cartOf(1_000), codes)).toThrow('at most 10 codes, not 11');
});

const discounts = fc.oneof(
  fc.integer({ min: 1, max: 10_000 }).map((points) => percent(Number((points / 100).toFixed(2)))),
  fc.record({
    kind: fc.constant('amount' as const),
    amount: fc.integer({ min: 1, max: 900 }),
    currency: fc.constantFrom('EUR', 'IDR'),
  }),
  fc.constant(SHIPPING),
  fc.constant(null),
);
const stackings = fc.record({
  exclusive: fc.boolean(),
  group: fc.constantFrom(undefined, undefined, 'g', 'h'),
  priority: fc.constantFrom(undefined, 0, 200),
});
const offers = fc.uniqueArray(
  fc.record({
    code: fc.constantFrom('A', 'B', 'C', 'D', 'E', 'F'),
    campaign: fc.constantFrom('1', '2', '3', '4', '5', '6', '7'),
    discount: discounts,
    stacking: fc.oneof(fc.constant({ exclusive: false }), stackings),
  }),
  { selector: ({ code }) => code, maxLength: 6 },
);
const subtotals = fc.integer({ min: 0, max: 1_000 });

/** Every subset, priced with fractions of whole numbers and without any code of the module. */
function bruteForce(
  subtotal: number,
  codes: readonly OfferedCode[],
): { discount: number; shipping: boolean; codes: number } {
  let best = { discount: 0, shipping: false, codes: 0 };
  for (let set = 0; set < 2 ** codes.length; set += 1) {
    const chosen = codes.filter((_, index) => set & (1 << index));
    const legal = chosen.every(
      (a, i) =>
        a.discount !== null &&
        !(a.discount.kind === 'amount' && a.discount.currency !== 'EUR') &&
        chosen.every(
          (b, j) =>
            i === j ||
            !(
              a.campaign === b.campaign ||
              a.stacking.exclusive ||
              (a.stacking.group && a.stacking.group === b.stacking.group)
            ),
        ),
    );
    if (!legal) continue;
    const kinds = ['percent', 'amount', 'free_shipping'];
    const key = ({ code, discount, stacking }: OfferedCode) =>
      `${String(stacking.priority ?? 100).padStart(4, '0')} ${kinds.indexOf(String(discount?.kind))} ${code}`;
    let left = BigInt(subtotal);
    for (const { discount } of chosen.sort((a, b) => (key(a) < key(b) ? -1 : 1))) {
      if (discount?.kind === 'percent') {
        const hundredths = BigInt(discount.percent.toFixed(2).replace('.', ''));
        const [quotient, rest] = [(left * hundredths) / 10_000n, (left * hundredths) % 10_000n];
        left -= quotient + (rest >= 5_000n ? 1n : 0n);
      } else if (discount?.kind === 'amount') left -= left < BigInt(discount.amount) ? left : BigInt(discount.amount);
    }
    const found = {
      discount: subtotal - Number(left),
      shipping: chosen.some(({ discount }) => discount?.kind === 'free_shipping'),
      codes: chosen.length,
    };
    const better =
      found.discount - best.discount || Number(found.shipping) - Number(best.shipping) || best.codes - found.codes;
    if (better > 0) best = found;
  }
  return best;
}

test('no allowed combination saves more, and the amounts add up', () => {
  fc.assert(
    fc.property(subtotals, offers, (subtotal, codes) => {
      const result = applyDiscounts(cartOf(subtotal), codes);
      const best = bruteForce(subtotal, codes);
      expect([result.discountAmount, result.freeShipping, result.applied.length]).toEqual([
        best.discount,
        best.shipping,
        best.codes,
      ]);
      expect(result.total).toBeGreaterThanOrEqual(0);
      expect(result.total + result.discountAmount).toBe(subtotal);
      expect(result.applied.reduce((sum, { amount: taken }) => sum + taken, 0)).toBe(result.discountAmount);
      expect([...result.applied, ...result.leftOut].map(({ code }) => code).sort()).toEqual(
        codes.map(({ code }) => code).sort(),
      );
    }),
    { numRuns: 1_000 },
  );
});

test('the order in which codes are given makes no difference', () => {
  const shuffled = offers.chain((codes) =>
    fc.shuffledSubarray(codes, { minLength: codes.length }).map((other) => [codes, other] as const),
  );
  fc.assert(
    fc.property(subtotals, shuffled, (subtotal, [codes, other]) => {
      const first = applyDiscounts(cartOf(subtotal), codes);
      const second = applyDiscounts(cartOf(subtotal), other);
      const sorted = (result: typeof first) => ({
        ...result,
        leftOut: [...result.leftOut].sort((a, b) => (a.code < b.code ? -1 : 1)),
      });
      expect(sorted(second)).toEqual(sorted(first));
    }),
  );
});
