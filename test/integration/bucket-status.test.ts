import { expect, test } from '@jest/globals';
import type { Redis } from 'ioredis';
import { CampaignActions, type CampaignActionsDeps, type OperatorAction } from '../../api/admin/campaign-actions.js';
import { velocityAlarm } from '../../api/claim/velocity-alarm.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import { SaleCopy } from '../../shared/sale/sale-copy.js';
import type { SaleReader } from '../../shared/sale/sale-reader.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';
import { Sales } from '../../shared/sale/sales.js';
import { keepSchedule } from '../../worker/schedule/schedule.js';
import { DividedSale } from '../harness/divided-sale.js';
import { until } from '../harness/until.js';

const sale = await DividedSale.start();
const operator = { name: 'ops', requestId: 'r-1' };

const statuses = async (product: ProductId) =>
  Promise.all(sale.sales.all(product).map(async ({ reader }) => (await reader.stock(product))?.status));

type Parts = Partial<Pick<SaleStore, 'campaigns' | 'reader'>>;

/** The sale of a process to which the parts of one bucket are these. */
function salesWith(product: ProductId, bucket: number, partsOf: (store: SaleStore) => Parts): Sales {
  const stores = sale.shards.map(({ index, store }) =>
    index === sale.map.shardOf(product, bucket)
      ? Object.assign(Object.create(store) as SaleStore, partsOf(store))
      : store,
  );
  return new Sales(stores, sale.map);
}

const away = () => Promise.reject(new EngineUnavailable('redis', 'the bucket is away'));
/** Every call of the part fails. */
const unreachable = <Part extends object>(part: Part) => new Proxy(part, { get: () => away });

/** A run of the schedule in the shards of these buckets. */
async function keep(product: ProductId, buckets: readonly number[], sales: Sales = sale.sales): Promise<void> {
  const live = await sale.campaigns.live();
  await Promise.all(
    buckets.map((bucket) =>
      keepSchedule({
        ...{ sale: sales.of(product, bucket), campaigns: sale.campaigns, live, log: sale.log },
        copy: new SaleCopy(sale.shards[sale.map.shardOf(product, bucket)]?.redis as Redis),
        isHere: ({ productId }) => productId === product,
        divided: () => [product],
        homeOf: () => sales.of(product, 0),
        nowMs: Date.now(),
        limits: { preheatMs: 600_000 },
        preheat: async () => {},
      }),
    ),
  );
}

/** Changes the status in one bucket only, as a process does that dies after it. */
const changeIn = (product: ProductId, bucket: number, action: OperatorAction) =>
  sale.sales.of(product, bucket).campaigns.setStatus(product, action, 'ops', 'r-1');

/** Changes statuses. Each wait for a commit is recorded with the statuses of the buckets when it begins. */
function actionsOf(commits: { bucket: number; statuses: unknown[] }[], sales: Sales = sale.sales): CampaignActions {
  return new CampaignActions({
    ...{ sales, table: sale.campaigns },
    shardOf: () => 0,
    queues: { add: async () => {} },
    acknowledgements: { entryOf: async (_product: ProductId, id: string) => id, held: async () => {} },
    commitsOf: (product: ProductId, bucket: number) => ({
      committed: async () => commits.push({ bucket, statuses: await statuses(product) }),
    }),
    limits: { operatorCommitWaitMs: 1_500 },
  } as unknown as CampaignActionsDeps);
}

test('all buckets get a status before the response waits for the commit of any', async () => {
  const { product } = await sale.open(8, true);
  const commits: { bucket: number; statuses: unknown[] }[] = [];
  const actions = actionsOf(commits);
  for (const [action, status] of [
    ['pause', 'paused'],
    ['resume', 'open'],
    ['close', 'closed'],
  ] as const) {
    expect((await actions.setStatus(product, action, operator)).status).toBe(status);
    const of = commits.splice(0).sort((a, b) => a.bucket - b.bucket);
    expect(of).toEqual([0, 1, 2, 3].map((bucket) => ({ bucket, statuses: Array(4).fill(status) })));
  }
  // A repetition changes nothing, so it waits for nothing.
  expect((await actions.setStatus(product, 'close', operator)).status).toBe('closed');
  expect(commits).toEqual([]);
});

test.each([0, 2])('no bucket is changed while bucket %d is away, and the change can be repeated', async (lacking) => {
  const { product } = await sale.open(8, true);
  const sales = salesWith(product, lacking, ({ campaigns, reader }) => ({
    campaigns: unreachable(campaigns),
    reader: unreachable(reader),
  }));
  for (const action of ['pause', 'close'] as const) {
    await expect(actionsOf([], sales).setStatus(product, action, operator)).rejects.toThrow(EngineUnavailable);
    expect(await statuses(product)).toEqual(Array(4).fill('open'));
  }
  expect((await actionsOf([]).setStatus(product, 'close', operator)).status).toBe('closed');
  expect(await statuses(product)).toEqual(Array(4).fill('closed'));
});

test('a change begins with bucket 0, so that the campaign has it when another bucket goes away meanwhile', async () => {
  const { product } = await sale.open(8, true);
  const sales = salesWith(product, 2, ({ campaigns }) => ({ campaigns: unreachable(campaigns) }));
  await expect(actionsOf([], sales).setStatus(product, 'close', operator)).rejects.toThrow('the bucket is away');
  expect(await statuses(product)).toEqual(['closed', 'closed', 'open', 'closed']);
  await keep(product, [2]);
  expect(await statuses(product)).toEqual(Array(4).fill('closed'));
});

test('a change that bucket 0 refuses changes no bucket', async () => {
  const { product } = await sale.open(8, true);
  await changeIn(product, 0, 'close');
  await changeIn(product, 2, 'pause');
  await expect(actionsOf([]).setStatus(product, 'resume', operator)).rejects.toThrow('is closed');
  expect(await statuses(product)).toEqual(['closed', 'open', 'paused', 'open']);
});

test.each([
  ['pause', 'paused'],
  ['close', 'closed'],
] as const)('the schedule completes a %s that reached bucket 0 only, and a resume likewise', async (action, status) => {
  const { product } = await sale.open(8, true);
  await changeIn(product, 0, action);
  await keep(product, [0, 1, 2, 3]);
  expect(await statuses(product)).toEqual(Array(4).fill(status));
  if (action === 'close') return;
  await changeIn(product, 0, 'resume');
  await keep(product, [0, 1, 2, 3]);
  expect(await statuses(product)).toEqual(Array(4).fill('open'));
});

test('the schedule completes an early opening', async () => {
  const { product } = await sale.open(8, true, { status: 'scheduled', startsAt: new Date(Date.now() + 3_600_000) });
  await changeIn(product, 0, 'open');
  await keep(product, [0, 1, 2, 3]);
  expect(await statuses(product)).toEqual(Array(4).fill('open'));
});

test('the schedule changes nothing while bucket 0 is away, or when an operator completes the change', async () => {
  const { product } = await sale.open(8, true);
  await changeIn(product, 1, 'pause');
  await keep(
    product,
    [1],
    salesWith(product, 0, ({ reader }) => ({ reader: unreachable(reader) })),
  );
  expect(await statuses(product)).toEqual(['open', 'paused', 'open', 'open']);
  // The operator pauses the others after the first look of the schedule.
  let looks = 0;
  const meanwhile = salesWith(product, 0, ({ reader }) => ({
    reader: Object.assign(Object.create(reader) as SaleReader, {
      stock: async () => {
        const stock = await reader.stock(product);
        looks += 1;
        if (looks === 1) for (const bucket of [0, 2, 3]) await changeIn(product, bucket, 'pause');
        return stock;
      },
    }),
  }));
  await keep(product, [1], meanwhile);
  expect(looks).toBe(2);
  expect(await statuses(product)).toEqual(Array(4).fill('paused'));
});

test('a pause by the watch over velocity reaches bucket 0 when it is back', async () => {
  const { product } = await sale.open(8, true);
  let isAway = true;
  const sales = salesWith(product, 0, ({ campaigns }) => ({
    campaigns: new Proxy(campaigns, {
      get: (part, name) => (isAway ? away : Reflect.get(part, name).bind(part)),
    }),
  }));
  await changeIn(product, 2, 'pause');
  const { metrics, log } = sale;
  velocityAlarm({ sales, metrics, log })(product, { outcome: 'paused', users: 900, usual: 1 });
  await until('the others are paused', async () => (await statuses(product)).join() === 'open,paused,paused,paused');
  isAway = false;
  await until('bucket 0 is paused', async () => (await statuses(product))[0] === 'paused');
});
