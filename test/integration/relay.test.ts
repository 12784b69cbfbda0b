import { afterEach, expect, test } from '@jest/globals';
import type { Redis } from 'ioredis';
import type { Jobs, QueueName } from '../../shared/contracts/jobs.js';
import { JobQueues, startJobWorker } from '../../shared/queues/queues.js';
import { CommitWatch } from '../../shared/redis/commit-watch.js';
import { connectForJobs } from '../../shared/redis/connections.js';
import { compareJournalIds, Journal } from '../../shared/redis/journal.js';
import { keys } from '../../shared/redis/keys.js';
import { RelayLease } from '../../shared/redis/relay-lease.js';
import { JournalRelay } from '../../worker/persist/relay.js';
import { atEnd } from '../harness/cleanup.js';
import { type Persistence, startPersistence } from '../harness/persistence.js';
import { connectToRedis, type Sale, startSale } from '../harness/sale.js';
import { until } from '../harness/until.js';

/** What a test started; ended in reverse. */
const running: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const stop of running.splice(0).reverse()) await stop();
});

type Added = { id: string } & Jobs['persist'];

/** Queues that keep in mind what was added to them. */
class RecordingQueues extends JobQueues {
  readonly added: Added[] = [];
  override async add<Name extends QueueName>(name: Name, id: string, data: Jobs[Name]): Promise<void> {
    this.added.push({ id, ...(data as Jobs['persist']) });
    await super.add(name, id, data);
  }
}

function forJobs(sale: Sale): Redis {
  const redis = connectForJobs(sale.engine.url, () => {});
  atEnd('a connection for jobs', () => redis.disconnect());
  return redis;
}

type RelayOptions = { holder?: string; hears?: boolean };

/** A relay as the worker composes it: it starts from the cursor and hears what is committed. */
async function startRelay(sale: Sale, store: Persistence, { holder = 'one', hears = true }: RelayOptions = {}) {
  const queues = new RecordingQueues(forJobs(sale), () => {});
  const lease = new RelayLease(await connectToRedis(sale.engine.url), holder);
  const relay = new JournalRelay(new Journal(forJobs(sale)), store.cursor, queues, lease, store.log);
  const commits = new CommitWatch(await connectToRedis(sale.engine.url), 0);
  commits.onCommit((upTo) => hears && relay.persisted(upTo));
  await commits.start();
  relay.persisted(await store.cursor.read());
  relay.start();
  const stop = once(async () => {
    await relay.stop();
    await queues.close();
  });
  running.push(stop);
  return { relay, queues, stop };
}

/** A job worker that writes the journal. */
function startWriter(sale: Sale, store: Persistence) {
  const persist = store.persistWith();
  const failures: Error[] = [];
  const on = { failed: (_: QueueName, error: Error) => failures.push(error), error: () => {} };
  const worker = startJobWorker('persist', ({ to }) => persist.upTo(to), forJobs(sale), { concurrency: 1 }, on);
  const stop = once(() => worker.close());
  running.push(stop);
  return { failures, stop };
}

function once<Value>(run: () => Promise<Value>): () => Promise<Value> {
  let result: Promise<Value> | null = null;
  return () => {
    result ??= run();
    return result;
  };
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

test('brings every entry to Postgres, one range after the other', async () => {
  const { sale, store, campaign, written, rows } = await start();
  startWriter(sale, store);
  const { queues } = await startRelay(sale, store);
  for (let i = 0; i < 20; i += 1) await campaign.take('ann');
  await written();
  expect(await rows()).toBe(20);
  expect((await sale.journal.backlog()).entries).toBe(0);
  for (const [i, { id, from, to }] of queues.added.entries()) {
    expect(id).toBe(`${from}_${to}`);
    // Not before the range that was there: a batch may take along what came meanwhile.
    expect(compareJournalIds(from, queues.added[i - 1]?.to ?? '0-0')).toBeGreaterThanOrEqual(0);
    expect(compareJournalIds(from, to)).toBeLessThan(0);
  }
});

test('goes on from the cursor after a restart', async () => {
  const { sale, store, campaign, written, rows } = await start();
  startWriter(sale, store);
  const first = await startRelay(sale, store);
  await campaign.take('ann');
  await written();
  await first.stop();
  const cursor = await store.cursor.read();
  await campaign.take('ann');
  const second = await startRelay(sale, store);
  await written();
  expect(second.queues.added[0]).toEqual({
    id: `${cursor}_${await sale.journal.lastId()}`,
    from: cursor,
    to: await sale.journal.lastId(),
  });
  expect(await rows()).toBe(2);
});

test('brings what was journaled while no worker was there', async () => {
  const { sale, store, campaign, written, rows } = await start();
  const id = await campaign.take('ann');
  await campaign.confirm(id);
  const relay = await startRelay(sale, store);
  await until('the job is made', () => relay.queues.added.length > 0);
  startWriter(sale, store);
  await written();
  expect(await rows()).toBe(1);
  expect(await store.redemption(id)).toMatchObject({ status: 'redeemed' });
});

test('goes on when the announcement of a commit is lost', async () => {
  const { sale, store, campaign, written, rows } = await start();
  startWriter(sale, store);
  const { queues } = await startRelay(sale, store, { hears: false });
  await campaign.take('ann');
  await written();
  const cursor = await store.cursor.read();
  await campaign.take('ann');
  await written();
  expect(await rows()).toBe(2);
  expect(queues.added.at(-1)?.from).toBe(cursor);
});

test('makes a job again that has vanished from the queue', async () => {
  const { sale, store, campaign, written, rows } = await start();
  const { queues } = await startRelay(sale, store);
  await campaign.take('ann');
  await until('the job is made', () => queues.added.length > 0);
  const lost = await sale.redis.keys('*:queues}:persist:*');
  expect(lost.length).toBeGreaterThan(0);
  await sale.redis.del(...lost);
  startWriter(sale, store);
  await written();
  expect(await rows()).toBe(1);
  expect(queues.added.length).toBeGreaterThanOrEqual(2);
  // Under a name of its own: the first one may be held by a worker that died.
  expect(queues.added[1]).toEqual({ ...queues.added[0], id: `${queues.added[0]?.id}_one` });
});

test('two relays at once write nothing twice', async () => {
  const { sale, store, campaign, written, rows } = await start();
  const { failures } = startWriter(sale, store);
  startWriter(sale, store);
  // With the same holder's name both believe that the lease is theirs.
  const relays = [await startRelay(sale, store, { holder: 'both' }), await startRelay(sale, store, { holder: 'both' })];
  const ids = await Promise.all(Array.from({ length: 50 }, () => campaign.take('ann')));
  await Promise.all(ids.map((id) => campaign.confirm(id)));
  await written();
  expect(relays.map(({ queues }) => queues.added.length > 0)).toEqual([true, true]);
  expect(await rows()).toBe(50);
  expect(await store.campaignRow(campaign)).toMatchObject({ taken: 50 });
  expect(failures).toEqual([]);
});

test('one relay works at a time, and another one takes over from a relay that stops or dies', async () => {
  const { sale, store, campaign, written, rows } = await start();
  startWriter(sale, store);
  const first = await startRelay(sale, store, { holder: 'one' });
  await until('the first has the lease', async () => (await sale.redis.get(keys.relayLease)) === 'one');
  const second = await startRelay(sale, store, { holder: 'two' });
  await campaign.take('ann');
  await written();
  expect([first.queues.added.length, second.queues.added.length]).toEqual([1, 0]);
  await first.stop();
  expect(await sale.redis.get(keys.relayLease)).not.toBe('one');
  await until('the second has the lease', async () => (await sale.redis.get(keys.relayLease)) === 'two');
  await campaign.take('ann');
  await written();
  await second.stop();

  await sale.redis.set(keys.relayLease, 'a dead worker', 'PX', 5_000);
  const third = await startRelay(sale, store, { holder: 'three' });
  await campaign.take('ann');
  expect(await sale.redis.get(keys.relayLease)).toBe('a dead worker');
  // Its time passes.
  await sale.redis.pexpire(keys.relayLease, 1);
  await written();
  expect(third.queues.added.length).toBe(1);
  expect(await rows()).toBe(3);
});
