import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { checkoutBody, isPlainCheckout } from './checkout.contract.js';

const odd = fc.oneof(
  fc.jsonValue(),
  fc.constantFrom('', 'a', 'a b', 'x'.repeat(128), 'x'.repeat(129), 'x'.repeat(513), 'é', 'a|b'),
  fc.constantFrom(-1, 0, 1, 1.5, 1_000_000, 1_000_001, 99_999_999_999, 100_000_000_000, 2 ** 53, Number.NaN, Infinity),
);
const member = (usual: unknown) =>
  fc.oneof({ weight: 6, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: odd });
const body = fc.record(
  {
    product_id: member('sale'),
    user_id: member('ann@example.org'),
    qty: member(1),
    device_fp: member('fp-1'),
    attestation: member('a1.x'),
    expires_at: member(1_719_000_030),
    idempotency_key: member('key-12345'),
    other: odd,
  },
  { requiredKeys: [] },
);

test('takes exactly the bodies that the schema takes, of those without attributes and solutions', () => {
  let taken = 0;
  fc.assert(
    fc.property(fc.oneof({ weight: 20, arbitrary: body }, { weight: 1, arbitrary: odd }), (value) => {
      const parsed = checkoutBody.safeParse(value);
      expect([isPlainCheckout(value), value]).toEqual([parsed.success, value]);
      if (parsed.success) taken += 1;
    }),
    { numRuns: 3_000 },
  );
  expect(taken).toBeGreaterThan(300);
});
