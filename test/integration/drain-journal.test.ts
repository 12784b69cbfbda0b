import { afterEach, expect, test } from '@jest/globals';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import { Journal } from '../../shared/redis/journal.js';
import { compareJournalIds } from '../../shared/redis/journal-ids.js';
import { keys } from '../../shared/redis/keys.js';
import { ForeignHistory, JournalGap } from '../../worker/persist/continuity.js';
import { DrainJournal } from '../../worker/persist/drain-journal.js';
import { JournalFeeder } from '../../worker/persist/feeder.js';
import type { Persist, Persisted } from '../../worker/persist/persist.js';
import { atEnd } from '../harness/cleanup.js';
import { type Persistence, startPersistence } from '../harness/persistence.js';
import { type Sale, startSale } from '../harness/sale.js';
import { until } from '../harness/until.js';

/** What a test started; stopped in reverse. */
const running: { stop: () => Promise<void> }[] = [];
afterEach(async () => {
  for (const one of running.splice(0).reverse()) await one.stop();
});

type Options = {
  gate?: { isOpen: boolean; reason: string };
  persist?: Pick<Persist, 'upTo'>;
  gatherMs?: number;
  drainRunMs?: number;
  drainIdleMs?: number;
  stuckAfterMs?: number;
};

/** A drain as the worker composes it, with the ids that it was asked to persist up to and what it reported. */
function createDrain(sale: Sale, store: Persistence, options: Options = {}) {
  const { gate = { isOpen: true, reason: '' }, persist = store.persistWith() } = options;
  const { gatherMs = 1, drainRunMs = 600_000, drainIdleMs = 600_000, stuckAfterMs = 600_000 } = options;
  const blocking = sale.engine.client.duplicate();
  atEnd('a blocking connection', () => blocking.disconnect());
  const [asked, wentOn, reports]: [string[], string[], unknown[]] = [[], [], []];
  const drain = new DrainJournal({
    shard: 0,
    journal: new Journal(blocking),
    persist: {
      upTo: (to) => {
        asked.push(to);
        return persist.upTo(to);
      },
    },
    gate,
    clock: { nowMs: () => Date.now() },
    goOn: async (upTo) => void wentOn.push(upTo),
    metrics: store.metrics,
    limits: { gatherMs, drainRunMs, drainIdleMs, stuckAfterMs },
  });
  const run = () => drain.run({ report: async (progress) => void reports.push(progress) });
  return { drain, run, asked, wentOn, reports };
}

/** A drain that runs until the test ends. */
function startDrain(sale: Sale, store: Persistence, options: Options = {}) {
  const created = createDrain(sale, store, options);
  const ran = created.run();
  running.push({
    stop: async () => {
      created.drain.stop();
      await ran;
    },
  });
  return created;
}

async function start() {
  const sale = await startSale();
  const store = await startPersistence(sale);
  const campaign = await store.openCampaign({ totalLimit: 100, perUserLimit: 100 });
  const written = () =>
    until(
      'everything is written',
      async () => compareJournalIds(await store.cursor.read(), await sale.journal.lastId()) >= 0,
    );
  const rows = async () => (await store.redemptions(campaign)).length;
  return { sale, store, campaign, written, rows };
}

test('a drain persists every entry, one range after the other, and removes it from the journal', async () => {
  const { sale, store, campaign, written, rows } = await start();
  const { asked } = startDrain(sale, store);
  for (let i = 0; i < 20; i += 1) await campaign.take('ann');
  await written();
  expect(await rows()).toBe(20);
  await until('the journal is empty', async () => (await sale.journal.backlog()).entries === 0);
  for (const [i, to] of asked.entries()) expect(compareJournalIds(asked[i - 1] ?? '0-0', to)).toBeLessThan(0);
});

test('a drain persists what was journaled while no worker was there', async () => {
  const { sale, store, campaign, written, rows } = await start();
  const id = await campaign.take('ann');
  await campaign.confirm(id);
  startDrain(sale, store);
  await written();
  expect(await rows()).toBe(1);
  expect(await store.redemption(id)).toMatchObject({ status: 'redeemed' });
});

test('a drain gathers promises for the next batch, unless responses wait for their commit', async () => {
  const { sale, store, campaign, written } = await start();
  const { asked } = startDrain(sale, store, { gatherMs: 600_000 });
  await campaign.take('ann');
  await written();
  // A second drain shows that the journal has something to persist.
  const other = startDrain(sale, store, { gatherMs: 600_000 });
  await campaign.take('ann');
  await written();
  expect([asked.length, other.asked.length]).toEqual([1, 1]);

  const durable = await store.openCampaign({ totalLimit: 10, perUserLimit: 10, confirmation: 'durable' });
  const third = startDrain(sale, store, { gatherMs: 600_000 });
  for (let i = 0; i < 3; i += 1) {
    await durable.take('ann');
    await written();
  }
  expect(third.asked.length).toBe(3);
});

test('a drain fails while Redis is out of service, with its reason', async () => {
  const { sale, store, campaign } = await start();
  await campaign.take('ann');
  const { run, asked } = createDrain(sale, store, {
    drainIdleMs: 1,
    gate: { isOpen: false, reason: 'Redis is being recovered' },
  });
  await expect(run()).rejects.toThrow(new EngineUnavailable('redis', 'Redis is being recovered'));
  expect(asked).toEqual([]);
});

test('a drain ends when no entry comes, and reports what it wrote', async () => {
  const { sale, store, campaign } = await start();
  for (let i = 0; i < 5; i += 1) await campaign.take('ann');
  const { run, wentOn } = createDrain(sale, store, { drainIdleMs: 1 });
  expect(await run()).toEqual({ entries: 5, batches: 1 });
  expect(wentOn).toEqual([]);
});

test('a drain that has run long enough adds the job that goes on', async () => {
  const { sale, store, campaign } = await start();
  await campaign.take('ann');
  const { run, wentOn } = createDrain(sale, store, { drainRunMs: 0 });
  await run();
  expect(wentOn).toEqual([await sale.journal.lastId()]);
});

test('a drain that fails reports the backlog, and the next one writes it', async () => {
  const { sale, store, campaign, rows } = await start();
  const real = store.persistWith();
  let isAway = true;
  const persist = {
    upTo: (to: string) => (isAway ? Promise.reject<Persisted>(new Error('not now')) : real.upTo(to)),
  };
  const { run, reports } = createDrain(sale, store, { persist, drainIdleMs: 1 });
  await campaign.take('ann');
  await expect(run()).rejects.toThrow('not now');
  await campaign.take('ann');
  await expect(run()).rejects.toThrow('not now');
  expect(reports).toMatchObject([{ entries: 1 }, { entries: 2 }]);
  isAway = false;
  await run();
  expect(await rows()).toBe(2);
});

test('a drain fails at a gap without writing or trimming anything', async () => {
  const { sale, store, campaign, rows } = await start();
  await campaign.take('ann');
  const second = await campaign.take('ann');
  await campaign.take('ann');
  const entries = await sale.journal.read('0-0', 10);
  await sale.redis.xdel(keys.journal, String(entries.find(({ fields }) => fields.reservation === second)?.journalId));
  await expect(createDrain(sale, store).run()).rejects.toThrow(JournalGap);
  expect(await rows()).toBe(0);
  expect(await sale.redis.xlen(keys.journal)).toBe(entries.length - 1);
});

test('a drain does not persist the journal of a history that Postgres does not know as the latest', async () => {
  const { sale, store, campaign, rows } = await start();
  await campaign.take('ann');
  await store.sql.query(
    `insert into journal_histories (generation, server, after_id, reason) select max(generation) + 1, 'other', '0-0', 'test'
     from journal_histories`,
  );
  await expect(createDrain(sale, store).run()).rejects.toThrow(ForeignHistory);
  expect(await rows()).toBe(0);
  expect((await sale.journal.backlog()).entries).toBe(1);
});

test('two drains at once write nothing twice', async () => {
  const { sale, store, campaign, written, rows } = await start();
  const drains = [startDrain(sale, store), startDrain(sale, store)];
  const ids = await Promise.all(Array.from({ length: 50 }, () => campaign.take('ann')));
  await Promise.all(ids.map((id) => campaign.confirm(id)));
  await written();
  expect(drains.map(({ asked }) => asked.length > 0)).toEqual([true, true]);
  expect(await rows()).toBe(50);
  expect(await store.campaignRow(campaign)).toMatchObject({ taken: 50 });
});

/** A feeder whose queue does what the test says. */
function startFeeder(
  sale: Sale,
  store: Persistence,
  add: (upTo: string) => Promise<unknown>,
  stuckAfterMs = 600_000,
  drain = createDrain(sale, store, { stuckAfterMs }).drain,
) {
  const counts = { fallbacks: 0 };
  const failures: unknown[] = [];
  const feeder = new JournalFeeder({
    journal: drain.deps.journal,
    commits: { upTo: '0-0' },
    drain,
    add,
    inService: () => true,
    onFallback: () => {
      counts.fallbacks += 1;
    },
    onFailed: (error) => failures.push(error),
    limits: { gatherMs: 1, stuckAfterMs, stuckRetryMs: 1 },
  });
  feeder.start();
  running.push(feeder);
  return { feeder, counts, failures };
}

test('a feeder adds a job as long as an entry is not committed, and writes nothing itself', async () => {
  const { sale, store, campaign, rows } = await start();
  const added: string[] = [];
  const { counts } = startFeeder(sale, store, async (upTo) => added.push(upTo));
  await campaign.take('ann');
  await until('it has added the job twice', () => added.length >= 2);
  expect(new Set(added)).toEqual(new Set([await sale.journal.lastId()]));
  expect([counts.fallbacks, await rows()]).toEqual([0, 0]);
});

test('a feeder persists without a job while Redis is too full to take one', async () => {
  const { sale, store, campaign, written } = await start();
  const add = () => Promise.reject(new Error('OOM command not allowed when used memory > maxmemory'));
  const { counts } = startFeeder(sale, store, add);
  await campaign.take('ann');
  await written();
  expect(counts.fallbacks).toBeGreaterThanOrEqual(1);
  // A run also writes what comes before it ends.
  let user = 0;
  await until('another run has written', async () => {
    await campaign.take(`user-${user++}`);
    await written();
    return counts.fallbacks >= 2;
  });
});

test.each([
  ['takes jobs and runs none', async () => {}],
  ['refuses jobs', () => Promise.reject(new Error('not now'))],
  ['does not respond', () => new Promise(() => {})],
])('a feeder persists without a job when the queue %s', async (_, add) => {
  const { sale, store, campaign, written } = await start();
  const { counts } = startFeeder(sale, store, add, 1);
  await campaign.take('ann');
  await written();
  expect(counts.fallbacks).toBeGreaterThanOrEqual(1);
});

test('a feeder persists without a job when that of its own process hangs', async () => {
  const { sale, store, campaign, written } = await start();
  const real = store.persistWith();
  let calls = 0;
  const persist = {
    upTo: (to: string) => {
      calls += 1;
      return calls === 1 ? new Promise<never>(() => {}) : real.upTo(to);
    },
  };
  const { drain, run } = createDrain(sale, store, { persist, stuckAfterMs: 1 });
  void run();
  await campaign.take('ann');
  await until('the run hangs', () => calls === 1);
  const { counts } = startFeeder(sale, store, async () => {}, 1, drain);
  await written();
  expect(counts.fallbacks).toBeGreaterThanOrEqual(1);
});

test('a feeder reports why it cannot add a job, and tries again', async () => {
  const { sale, store, campaign } = await start();
  let calls = 0;
  const add = async () => {
    calls += 1;
    if (calls === 1) throw new Error('not now');
  };
  const { failures } = startFeeder(sale, store, add);
  await campaign.take('ann');
  await until('it has tried again', () => calls >= 2);
  expect(failures).toEqual([new Error('not now')]);
});
