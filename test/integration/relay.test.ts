import { afterEach, expect, test } from '@jest/globals';
import { Journal } from '../../shared/redis/journal.js';
import { compareJournalIds } from '../../shared/redis/journal-ids.js';
import { keys } from '../../shared/redis/keys.js';
import { RelayLease } from '../../shared/redis/relay-lease.js';
import type { Persist, Persisted } from '../../worker/persist/persist.js';
import { JournalRelay } from '../../worker/persist/relay.js';
import { atEnd } from '../harness/cleanup.js';
import { type Persistence, startPersistence } from '../harness/persistence.js';
import { connectToRedis, type Sale, startSale } from '../harness/sale.js';
import { until } from '../harness/until.js';

/** Relays that a test started; stopped in reverse. */
const running: JournalRelay[] = [];
afterEach(async () => {
  for (const relay of running.splice(0).reverse()) await relay.stop();
});

type RelayOptions = { holder?: string; inService?: () => boolean; persist?: Pick<Persist, 'upTo'>; gatherMs?: number };

/** A relay as the worker composes it, and the ids that it was asked to persist up to. */
async function startRelay(sale: Sale, store: Persistence, options: RelayOptions = {}) {
  const { holder = 'one', inService = () => true, persist = store.persistWith(), gatherMs = 1 } = options;
  const blocking = sale.engine.client.duplicate();
  atEnd('a blocking connection', () => blocking.disconnect());
  const asked: string[] = [];
  const relay = new JournalRelay({
    shard: 0,
    journal: new Journal(blocking),
    persist: {
      upTo: (to) => {
        asked.push(to);
        return persist.upTo(to);
      },
    },
    inService,
    lease: new RelayLease(await connectToRedis(sale.engine.url), holder),
    metrics: store.metrics,
    log: store.log,
    limits: { gatherMs },
  });
  relay.start();
  running.push(relay);
  return { relay, asked };
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

test('the relay persists every entry, one range after the other, and removes it from the journal', async () => {
  const { sale, store, campaign, written, rows } = await start();
  const { asked } = await startRelay(sale, store);
  for (let i = 0; i < 20; i += 1) await campaign.take('ann');
  await written();
  expect(await rows()).toBe(20);
  await until('the journal is empty', async () => (await sale.journal.backlog()).entries === 0);
  for (const [i, to] of asked.entries()) expect(compareJournalIds(asked[i - 1] ?? '0-0', to)).toBeLessThan(0);
});

test('the relay persists what was journaled while no worker was there', async () => {
  const { sale, store, campaign, written, rows } = await start();
  const id = await campaign.take('ann');
  await campaign.confirm(id);
  await startRelay(sale, store);
  await written();
  expect(await rows()).toBe(1);
  expect(await store.redemption(id)).toMatchObject({ status: 'redeemed' });
});

test('the relay gathers promises for the next batch, unless responses wait for their commit', async () => {
  const { sale, store, campaign, written } = await start();
  const { asked } = await startRelay(sale, store, { holder: 'both', gatherMs: 600_000 });
  await campaign.take('ann');
  await written();
  // A second relay shows that the journal has something to persist.
  const other = await startRelay(sale, store, { holder: 'both', gatherMs: 600_000 });
  await campaign.take('ann');
  await written();
  expect([asked.length, other.asked.length]).toEqual([1, 1]);

  const durable = await store.openCampaign({ totalLimit: 10, perUserLimit: 10, confirmation: 'durable' });
  const third = await startRelay(sale, store, { holder: 'both', gatherMs: 600_000 });
  for (let i = 0; i < 3; i += 1) {
    await durable.take('ann');
    await written();
  }
  expect(third.asked.length).toBe(3);
});

test('the relay waits while Redis is out of service', async () => {
  const { sale, store, campaign, written } = await start();
  let inService = false;
  const { asked } = await startRelay(sale, store, { inService: () => inService });
  await campaign.take('ann');
  await until('the lease is free', async () => (await sale.redis.get(keys.relayLease)) === null);
  expect(asked).toEqual([]);
  inService = true;
  await written();
});

test('the relay retries after a failure, and goes on with what came meanwhile', async () => {
  const { sale, store, campaign, written, rows } = await start();
  const real = store.persistWith();
  let failures = 3;
  const persist = {
    upTo: (to: string) => {
      failures -= 1;
      return failures >= 0 ? Promise.reject<Persisted>(new Error('not now')) : real.upTo(to);
    },
  };
  const { asked } = await startRelay(sale, store, { persist });
  await campaign.take('ann');
  await until('it has failed', () => failures <= 0);
  await campaign.take('ann');
  await written();
  expect(await rows()).toBe(2);
  expect(asked.length).toBeGreaterThanOrEqual(4);
});

test('the relay stops at a gap without writing or trimming anything, and reports it', async () => {
  const { sale, store, campaign, rows } = await start();
  await campaign.take('ann');
  const second = await campaign.take('ann');
  await campaign.take('ann');
  const entries = await sale.journal.read('0-0', 10);
  await sale.redis.xdel(keys.journal, String(entries.find(({ fields }) => fields.reservation === second)?.journalId));
  await startRelay(sale, store);
  await until('the gap is reported', () => store.log.lines.some(({ message }) => message.includes('--after-restore')));
  expect(await rows()).toBe(0);
  expect(await sale.redis.xlen(keys.journal)).toBe(entries.length - 1);
});

test('the relay does not persist the journal of a history that Postgres does not know as the latest', async () => {
  const { sale, store, campaign, rows } = await start();
  await campaign.take('ann');
  await store.sql.query(
    `insert into journal_histories (generation, server, after_id, reason) select max(generation) + 1, 'other', '0-0', 'test'
     from journal_histories`,
  );
  await startRelay(sale, store);
  await until('it is reported', () => store.log.lines.some(({ message }) => message.includes('another history')));
  expect(await rows()).toBe(0);
  expect((await sale.journal.backlog()).entries).toBe(1);
});

test('two relays at once write nothing twice', async () => {
  const { sale, store, campaign, written, rows } = await start();
  // With the same holder's name both believe that the lease is theirs.
  const relays = [await startRelay(sale, store, { holder: 'both' }), await startRelay(sale, store, { holder: 'both' })];
  const ids = await Promise.all(Array.from({ length: 50 }, () => campaign.take('ann')));
  await Promise.all(ids.map((id) => campaign.confirm(id)));
  await written();
  expect(relays.map(({ asked }) => asked.length > 0)).toEqual([true, true]);
  expect(await rows()).toBe(50);
  expect(await store.campaignRow(campaign)).toMatchObject({ taken: 50 });
});

test('one relay works at a time, and another one takes over from a relay that stops or dies', async () => {
  const { sale, store, campaign, written, rows } = await start();
  const first = await startRelay(sale, store, { holder: 'one' });
  await until('the first has the lease', async () => (await sale.redis.get(keys.relayLease)) === 'one');
  const second = await startRelay(sale, store, { holder: 'two' });
  await campaign.take('ann');
  await written();
  expect(first.asked.length).toBeGreaterThan(0);
  expect(second.asked).toEqual([]);
  await first.relay.stop();
  await until('the second has the lease', async () => (await sale.redis.get(keys.relayLease)) === 'two');
  await campaign.take('ann');
  await written();
  await second.relay.stop();

  await sale.redis.set(keys.relayLease, 'a dead worker', 'PX', 5_000);
  await startRelay(sale, store, { holder: 'three' });
  await campaign.take('ann');
  expect(await sale.redis.get(keys.relayLease)).toBe('a dead worker');
  // Its time passes.
  await sale.redis.pexpire(keys.relayLease, 1);
  await written();
  expect(await rows()).toBe(3);
});
