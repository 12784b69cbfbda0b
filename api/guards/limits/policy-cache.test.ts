import { expect, test } from '@jest/globals';
import type { CampaignPolicy } from '../../../shared/domain/campaign-policy.js';
import type { ProductId } from '../../../shared/domain/ids.js';
import type { Log } from '../../../shared/observability/log.js';
import { PolicyCache } from './policy-cache.js';

const policy = (product: string, version: number, fields: Partial<CampaignPolicy> = {}): CampaignPolicy => ({
  product,
  version,
  risk: 'observe',
  timeZone: 'UTC',
  uniformRefusals: false,
  limits: {},
  audience: null,
  checkoutUrl: null,
  extendSeconds: 0,
  closed: false,
  ...fields,
});
const product = 'sale' as ProductId;
const DEFAULTS = { validatePerMinutePerUser: 10, redeemPerMinutePerUser: 5, redeemPerMinutePerAddress: 20 };

/** A source whose reads end when the test resolves them. */
function startBook() {
  const ends: ((policies: CampaignPolicy[]) => void)[] = [];
  const source = {
    live: () => new Promise<CampaignPolicy[]>((resolve) => ends.push(resolve)),
    of: async () => next,
  };
  let next: CampaignPolicy | null = null;
  const history = { name: '1' };
  const book = new PolicyCache(source, 60_000, {} as Log, DEFAULTS, () => history.name);
  return {
    book,
    history,
    /** Starts a full read. @returns a function that ends it with these policies */
    begin: () => {
      const reading = book.refreshAll();
      return async (policies: CampaignPolicy[]) => {
        ends.shift()?.(policies);
        await reading;
      };
    },
    change: async (changed: CampaignPolicy) => {
      next = changed;
      await book.refresh(changed.product as ProductId);
    },
  };
}

test('a full read does not undo a change that was notified meanwhile', async () => {
  const { book, begin, change } = startBook();
  await begin()([policy('sale', 1)]);
  const end = begin();
  await change(policy('sale', 2, { risk: 'enforce' }));
  await change(policy('fresh', 1, { risk: 'enforce' }));
  await end([policy('sale', 1)]);
  expect([book.of(product).risk, book.of('fresh').risk]).toEqual(['enforce', 'enforce']);
  await change(policy('sale', 1));
  expect(book.of(product).version).toBe(2);
  await begin()([policy('sale', 3)]);
  expect([book.of(product).risk, book.of('fresh').product]).toEqual(['observe', '']);
});

test('after a set-back of the engines, a full read counts although its versions are lower', async () => {
  const { book, begin, history } = startBook();
  await begin()([policy('sale', 7, { risk: 'enforce' })]);
  history.name = '2';
  await begin()([policy('sale', 1)]);
  expect([book.of(product).version, book.of(product).risk]).toEqual([1, 'observe']);
});

test('guesses get the policy of the strictest campaign', async () => {
  const { book, begin } = startBook();
  const level = { attestationLevel: 1 } as const;
  await begin()([policy('a', 1), policy('b', 1, { limits: level })]);
  expect([book.ofNone.risk, book.ofNone.limits]).toEqual(['observe', {}]);
  await begin()([policy('a', 1, { risk: 'enforce' }), policy('b', 1, { limits: level, uniformRefusals: true })]);
  expect([book.ofNone.risk, book.ofNone.limits]).toEqual(['enforce', level]);
});

test('codes of campaigns with uniform refusals get the same policy, the strictest of these campaigns', async () => {
  const { book, begin } = startBook();
  expect(book.ofUniform).toMatchObject({ product: '', risk: 'observe', limits: {} });
  const uniform = (product: string, fields: Partial<CampaignPolicy> = {}) =>
    policy(product, 1, { uniformRefusals: true, ...fields });
  await begin()([
    uniform('a', { limits: { validatePerMinutePerUser: 100, accountsPerDevice: null, accountMinAgeHours: 24 } }),
    uniform('b', {
      risk: 'enforce',
      limits: { redeemPerMinutePerUser: 2, accountsPerDevice: null, attestationLevel: 1 },
    }),
    policy('c', 1, { limits: { validatePerMinutePerUser: 1, attestationLevel: 2 } }),
  ]);
  expect(book.uniform).toEqual(['a', 'b']);
  expect([book.ofUniform.product, book.ofUniform.risk, book.ofUniform.uniformRefusals]).toEqual(['', 'enforce', true]);
  expect(book.ofUniform.limits).toEqual({
    identityLevel: 0,
    validatePerMinutePerUser: 10,
    redeemPerMinutePerUser: 2,
    redeemPerMinutePerAddress: 20,
    attestationLevel: 1,
    accountsPerDevice: null,
    accountsPerAddress: 100,
    accountMinAgeHours: 24,
  });
  await begin()([
    uniform('a', { limits: { accountsPerAddress: 7 } }),
    uniform('b', { limits: { accountsPerAddress: null } }),
  ]);
  expect(book.ofUniform.limits).toMatchObject({
    accountsPerAddress: 7,
    accountsPerDevice: 5,
    accountMinAgeHours: null,
  });
});
