import { expect, it } from '@jest/globals';
import type { ProductId, UserId } from '../../shared/domain/ids.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { CampaignBuckets } from '../../shared/postgres/campaign-buckets.js';
import { readSharding } from '../../shared/postgres/installation.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';
import { Sales } from '../../shared/sale/sales.js';
import { Rounds } from '../../worker/rounds/rounds.js';
import { takeTurn } from '../../worker/rounds/rounds.module.js';
import { type DividedCampaign, DividedSale } from '../harness/divided-sale.js';

/** Rounds while a bucket or Postgres cannot be used. */
const sale = await DividedSale.start();
const BUCKETS = 4;

/** The same object, each method of which throws. */
function away<Target extends object>(target: Target, engine: EngineUnavailable['engine']): Target {
  return new Proxy(target, {
    get: (object, name) =>
      typeof Reflect.get(object, name) === 'function'
        ? () => Promise.reject(new EngineUnavailable(engine, 'it is away'))
        : Reflect.get(object, name),
  });
}

/**
 * What the worker of a test cannot reach. `awayMs`: how long the line waits for a bucket. `beforePromote`: runs
 * before each promotion. `lineSettleMs`: for how long no unit must have been obtainable before the line is closed.
 */
type Outage = { bucket?: number; postgres?: boolean; awayMs?: number; beforePromote?: () => Promise<void> } & {
  lineSettleMs?: number;
};

/** The same store, whose line runs something before each promotion. */
function delayed(store: SaleStore, before: () => Promise<void>): SaleStore {
  const line = Object.assign(Object.create(store.line) as SaleStore['line'], {
    promote: async (...args: Parameters<SaleStore['line']['promote']>) => {
      await before();
      return store.line.promote(...args);
    },
  });
  return Object.assign(Object.create(store) as SaleStore, { line });
}

/** A worker that runs the rounds of one campaign. */
function workerOf({ product, stored }: DividedCampaign, outage: Outage = {}) {
  const stores = sale.shards.map(({ store, index }) => {
    if (outage.beforePromote) return delayed(store, outage.beforePromote);
    if (outage.bucket === undefined || index !== sale.map.shardOf(product, outage.bucket)) return store;
    const parts = { buckets: away(store.buckets, 'redis'), line: away(store.line, 'redis') };
    return Object.assign(Object.create(store) as SaleStore, parts);
  });
  const sales = new Sales(stores, sale.map);
  const committing = Object.assign(Object.create(sale.table) as CampaignBuckets, {
    countLeft: async (...args: Parameters<CampaignBuckets['countLeft']>) => {
      await sale.persistAll();
      return sale.table.countLeft(...args);
    },
  });
  const rounds = new Rounds({
    sales,
    divided: () => sale.map.divided,
    hasTurn: async () => true,
    transfers: sale.transfersOf(sales, outage.postgres ? away(sale.table, 'postgres') : committing),
    metrics: sale.metrics,
    log: sale.log,
    limits: {
      ...{ roundEveryMs: 20, promoteBatch: 50 },
      ...{ awayMs: outage.awayMs ?? 0, lineSettleMs: outage.lineSettleMs ?? 600_000 },
    },
  });
  const state = {
    ...{ product, id: stored.id, completedAt: Number.NEGATIVE_INFINITY },
    ...{ canMove: true, away: new Map<number, number>(), spentSince: null, isOver: false },
  };
  return { round: () => rounds.round(state), state };
}

/** A user of a bucket, a new one each time. */
let users = 0;
function userOf({ product }: DividedCampaign, bucket: number): UserId {
  for (;;) {
    users += 1;
    const user = `user-${users}` as UserId;
    if (sale.map.bucketOf(product, user) === bucket) return user;
  }
}

/** Opens a campaign whose buckets have sold one unit each, and in whose line one user of each given bucket waits. */
async function openSoldOut(...waiting: number[]): Promise<{ campaign: DividedCampaign; line: UserId[] }> {
  const campaign = await sale.open(BUCKETS, true);
  for (let bucket = 0; bucket < BUCKETS; bucket += 1)
    expect((await campaign.checkout(userOf(campaign, bucket))).kind).toBe('reserved');
  const line = waiting.map((bucket) => userOf(campaign, bucket));
  for (const user of line) expect((await campaign.checkout(user)).kind).toBe('queued');
  await sale.persistAll();
  return { campaign, line };
}

/** Releases the unit that a bucket has sold. */
async function release(campaign: DividedCampaign, bucket: number): Promise<void> {
  const all = await campaign.reservations();
  const one = all.find(({ state, lineNo, bucket: of }) => of === bucket && state === 'reserved' && lineNo === 0);
  if (!one) throw new Error(`bucket ${bucket} has sold no unit`);
  await campaign.storeOf(bucket).reservations.release(campaign.product, one.id, null, '', { actor: '', trace: '' });
}

/** The users of the line who have a unit. */
async function servedOf(campaign: DividedCampaign): Promise<string[]> {
  const all = await campaign.reservations();
  return all.filter(({ lineNo }) => lineNo > 0).map(({ user }) => user);
}

it('serves the line while units are on their way to a bucket that is away', async () => {
  const { campaign, line } = await openSoldOut(1);
  expect(await campaign.storeOf(3).buckets.moveOut(campaign.product, 2, 1)).toEqual({ kind: 'short', free: 0 });
  await release(campaign, 3);
  expect((await campaign.storeOf(3).buckets.moveOut(campaign.product, 2, 1)).kind).toBe('moved');
  await release(campaign, 1);
  await sale.persistAll();
  await workerOf(campaign, { bucket: 2 }).round();
  expect(await servedOf(campaign)).toEqual(line);
  expect((await sale.table.inTransit(campaign.stored.id)).transfers).toHaveLength(1);
  await workerOf(campaign).round();
  await sale.persistAll();
  expect((await sale.table.inTransit(campaign.stored.id)).transfers).toEqual([]);
});

it('waits for bucket 0 as long as a failover takes, then serves the line without it', async () => {
  const { campaign, line } = await openSoldOut(0, 1);
  await release(campaign, 1);
  await expect(workerOf(campaign, { bucket: 0, awayMs: 600_000 }).round()).rejects.toThrow('bucket 0');
  expect(await servedOf(campaign)).toEqual([]);
  await workerOf(campaign, { bucket: 0 }).round();
  expect(await servedOf(campaign)).toEqual(line.slice(1));
});

it('serves the first in line while Postgres is away, and moves no units', async () => {
  const { campaign, line } = await openSoldOut(1, 2, 3);
  for (const bucket of [0, 1, 3]) await release(campaign, bucket);
  await workerOf(campaign, { postgres: true }).round();
  // The second one needs a unit of another bucket; no user is served before.
  expect(await servedOf(campaign)).toEqual(line.slice(0, 1));
  await sale.persistAll();
  expect((await sale.table.inTransit(campaign.stored.id)).transfers).toEqual([]);
  const worker = workerOf(campaign);
  for (let rounds = 0; rounds < 2; rounds += 1) await worker.round();
  expect(new Set(await servedOf(campaign))).toEqual(new Set(line));
});

it('promotes no user before all buckets are resumed', async () => {
  const { campaign, line } = await openSoldOut(1, 2);
  const act = async (action: 'pause' | 'resume', ...buckets: number[]) => {
    for (const bucket of buckets)
      await campaign.storeOf(bucket).campaigns.setStatus(campaign.product, action, 'operator', '');
  };
  await act('pause', 0, 1, 2, 3);
  for (const bucket of [1, 2]) await release(campaign, bucket);
  const worker = workerOf(campaign);
  await worker.round();
  await act('resume', 2, 3);
  await worker.round();
  expect(await servedOf(campaign)).toEqual([]);
  await act('resume', 1, 0);
  await worker.round();
  expect(new Set(await servedOf(campaign))).toEqual(new Set(line));
});

it('promotes no user behind one whose bucket is paused during the round', async () => {
  const { campaign, line } = await openSoldOut(1, 2);
  for (const bucket of [1, 2]) await release(campaign, bucket);
  const act = (action: 'pause' | 'resume') =>
    campaign.storeOf(1).campaigns.setStatus(campaign.product, action, 'operator', '');
  await workerOf(campaign, { beforePromote: async () => void (await act('pause')) }).round();
  expect(await servedOf(campaign)).toEqual([]);
  await act('resume');
  await workerOf(campaign).round();
  expect(new Set(await servedOf(campaign))).toEqual(new Set(line));
});

it('ends the rounds of a closed campaign once no unit is on its way', async () => {
  const { campaign } = await openSoldOut();
  await release(campaign, 3);
  expect((await campaign.storeOf(3).buckets.moveOut(campaign.product, 2, 1)).kind).toBe('moved');
  for (const bucket of [1, 2, 3, 0])
    await campaign.storeOf(bucket).campaigns.setStatus(campaign.product, 'close', 'operator', '');
  const isOver = async () => {
    await sale.persistAll();
    const known = (await readSharding(sale.database)).buckets.get(campaign.product);
    expect(known?.buckets).toBe(BUCKETS);
    const worker = workerOf(campaign);
    await worker.round();
    return [known?.over, worker.state.isOver];
  };
  expect(await isOver()).toEqual([false, false]);
  expect(await isOver()).toEqual([true, true]);
});

it('closes no line while a unit is on its way of which Postgres does not know yet', async () => {
  const { campaign, line } = await openSoldOut(1);
  await release(campaign, 3);
  expect((await campaign.storeOf(3).buckets.moveOut(campaign.product, 2, 1)).kind).toBe('moved');
  for (const { id, bucket, state } of await campaign.reservations())
    if (state === 'reserved')
      await campaign.storeOf(bucket).reservations.confirm(campaign.product, id, '', { actor: '', trace: '' });
  const { round } = workerOf(campaign, { lineSettleMs: 0 });
  await round();
  expect(await campaign.storeOf(1).reader.stock(campaign.product)).toMatchObject({ waiting: 1 });
  await sale.persistAll();
  const worker = workerOf(campaign, { lineSettleMs: 0 });
  for (let rounds = 0; rounds < 3; rounds += 1) await worker.round();
  expect(await servedOf(campaign)).toEqual(line);
});

it('takes the turn from the first shard that responds', async () => {
  const shards = [false, true, true, true].map((isOpen, index) => ({ index, gate: { isOpen } }));
  const asked: number[] = [];
  const turns = [true, null, false, true].map((turn, index) => ({
    take: async () => {
      asked.push(index);
      if (turn === null) throw new Error('Connection is closed.');
      return turn;
    },
  }));
  expect(await takeTurn('sneaker' as ProductId, shards, turns)).toBe(false);
  expect(asked).toEqual([1, 2]);
  expect(await takeTurn('sneaker' as ProductId, shards.slice(3), turns)).toBe(true);
  expect(await takeTurn('sneaker' as ProductId, shards.slice(0, 2), turns)).toBe(false);
});
