import fc from 'fast-check';
import type { OrderId, UserId } from '../../shared/domain/ids.js';
import { keys } from '../../shared/redis/keys.js';
import { SaleStore } from '../../shared/sale/sale-store.js';
import { TestArchive } from '../harness/archive.js';
import { keyNames } from '../harness/key-names.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale, TEST_LIMITS } from '../harness/sale.js';
import { anyStep } from './commands.js';
import { SaleModel } from './model.js';
import type { CampaignType, Status, Terms } from './model-types.js';
import { campaignTerms, Real } from './real.js';
import { type Runs, tryOften } from './runs.js';

const sale = await startSale();
const store = await startPersistence(sale);
const archive = new TestArchive(sale, store);

const DEVICE_QUOTA = 4;

type Opening = { total: number | null; status: Status; type: CampaignType; codes: number; terms: Terms };

const opening = fc.record<Opening>({
  total: fc.oneof(
    { weight: 6, arbitrary: fc.integer({ min: 0, max: 4 }) },
    { weight: 1, arbitrary: fc.constant(null) },
  ),
  status: fc.oneof(
    { weight: 14, arbitrary: fc.constant('open' as const) },
    { weight: 1, arbitrary: fc.constantFrom('scheduled', 'draft') },
  ),
  type: fc.oneof(
    { weight: 2, arbitrary: fc.constant('shared' as const) },
    { weight: 3, arbitrary: fc.constant('pool' as const) },
    { weight: 1, arbitrary: fc.constant('unique' as const) },
  ),
  codes: fc.integer({ min: 1, max: 4 }),
  terms: fc.record<Terms>({
    perUserLimit: fc.integer({ min: 1, max: 3 }),
    maxQty: fc.integer({ min: 1, max: 3 }),
    holdSeconds: fc.constantFrom(600, 600, 600, 0),
    lineEnabled: fc.oneof({ weight: 7, arbitrary: fc.constant(true) }, { weight: 1, arbitrary: fc.constant(false) }),
    lineMax: fc.integer({ min: 1, max: 5 }),
    latePayment: fc.constantFrom('refuse', 'reacquire'),
    refundPolicy: fc.constantFrom('return', 'burn'),
    presence: fc.boolean(),
  }),
});

/** Opens a campaign on both sides. */
async function open({ total, status, type, codes, terms }: Opening): Promise<{ model: SaleModel; real: Real }> {
  // An order of a user is one for all campaigns, and has room for a limited number of claims.
  const orders = await keyNames(sale.redis, keys.order('*' as UserId, '*' as OrderId));
  if (orders.length > 0) await sale.redis.unlink(...orders);
  const room = { waitingRoom: { enabled: true, maxSize: 1, presenceSeconds: null } };
  const stored = await store.openCampaign({ ...campaignTerms(terms, room), totalLimit: total, status, type });
  const known = type === 'shared' ? 0 : await store.issueCodes(stored, codes);
  const limits = { ...TEST_LIMITS, deviceQuota: DEVICE_QUOTA, deviceWindowMs: 86_400_000 };
  const campaign = stored.through(new SaleStore(sale.store.scripts, limits, null, archive.recallWith(archive.people)));
  return {
    model: new SaleModel(total, status, { ...terms }, DEVICE_QUOTA, type, known),
    real: new Real(store, campaign),
  };
}

/** Whatever happens in whatever order, the sale does what the model does, and Postgres ends with the same rows. */
export async function expectLivesOfTheModel(runs: Runs): Promise<void> {
  let steps = 0;
  const property = fc.asyncProperty(
    opening,
    fc.commands([anyStep], { maxCommands: 100, size: 'max' }),
    async (given, commands) => {
      const { model, real } = await open(given);
      await fc.asyncModelRun(() => ({ model, real }), commands);
      await real.expectEnd(model);
      steps += [...commands].length;
    },
  );
  const made = await tryOften(property, runs);
  process.stdout.write(`${made} runs, ${steps} steps\n`);
}
