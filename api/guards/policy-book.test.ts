import { expect, test } from '@jest/globals';
import type { CampaignPolicy } from '../../shared/domain/campaign-policy.js';
import type { ProductId } from '../../shared/domain/ids.js';
import type { Log } from '../../shared/observability/log.js';
import { PolicyBook } from './policy-book.js';

const policy = (product: string, version: number, fields: Partial<CampaignPolicy> = {}): CampaignPolicy => ({
  product,
  version,
  risk: 'observe',
  timeZone: 'UTC',
  uniformRefusals: false,
  limits: {},
  audience: null,
  ...fields,
});
const product = 'sale' as ProductId;

/** A source whose readings end when the test says so. */
function startBook() {
  const ends: ((policies: CampaignPolicy[]) => void)[] = [];
  const source = {
    live: () => new Promise<CampaignPolicy[]>((resolve) => ends.push(resolve)),
    of: async () => next,
  };
  let next: CampaignPolicy | null = null;
  const book = new PolicyBook(source, 60_000, {} as Log);
  return {
    book,
    /** Begins to read everything. @returns ends it with these */
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

test('a change that is heard while everything is read is not undone by what was read before it', async () => {
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

test('guesses are judged as the strictest campaign does, where that hides its codes', async () => {
  const { book, begin } = startBook();
  const level = { attestationLevel: 1 } as const;
  await begin()([policy('a', 1), policy('b', 1, { limits: level })]);
  expect([book.ofNone.risk, book.ofNone.limits]).toEqual(['observe', {}]);
  await begin()([policy('a', 1, { risk: 'enforce' }), policy('b', 1, { limits: level, uniformRefusals: true })]);
  expect([book.ofNone.risk, book.ofNone.limits]).toEqual(['enforce', level]);
});
