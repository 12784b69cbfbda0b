import { afterEach, expect, test } from '@jest/globals';
import { Metrics } from '../../shared/observability/metrics.js';
import { WebhookEndpoints } from '../../shared/postgres/webhook-endpoints.js';
import { EventStream } from '../../shared/redis/event-stream.js';
import { keys } from '../../shared/redis/keys.js';
import { Outbox } from '../../worker/publish-outbox/outbox.js';
import { type PublishDeps, pruneOutbox, sweepOutbox } from '../../worker/publish-outbox/publish.js';
import { startPersistence } from '../harness/persistence.js';
import { goBack, takeBackup } from '../harness/postgres-back.js';
import { recordingLog } from '../harness/recording-log.js';
import { startSale } from '../harness/sale.js';

const sale = await startSale();
const store = await startPersistence(sale);
const outbox = new Outbox(store.database);
const endpoints = new WebhookEndpoints(store.database);
afterEach(() => sale.expectConsistent());

function parts(changed: Partial<PublishDeps> = {}): PublishDeps & { woken: string[] } {
  const woken: string[] = [];
  return {
    outbox,
    stream: new EventStream(sale.store.scripts, 1_000_000),
    endpoints,
    metrics: new Metrics(false),
    log: store.log,
    source: '/tests',
    woken,
    wake: async (id) => woken.push(id),
    limits: { publishBatch: 3 },
    ...changed,
  };
}

async function happen(count: number): Promise<void> {
  const campaign = await store.openCampaign({ totalLimit: count });
  for (let i = 0; i < count; i += 1) await campaign.take(`user-${i}`);
  await store.persist();
}

/** The contents of the stream: sequence numbers by the ids of entries, and the events. */
async function inStream(): Promise<{ seqs: number[]; events: Record<string, any>[] }> {
  const entries = await sale.redis.xrange(keys.events, '-', '+');
  return {
    seqs: entries.map(([id]) => Number(id.replace(/-0$/, ''))),
    events: entries.map(([, fields]) => JSON.parse(String(fields[fields.indexOf('event') + 1]))),
  };
}
const inOutbox = async () =>
  (await outbox.read({ after: 0, upTo: await outbox.lastSeq(), types: null }, 1_000)).map(({ seq }) => seq);

test('the publisher carries every event to the stream, in order, once however often it runs', async () => {
  await happen(7);
  await Promise.all([sweepOutbox(parts()), sweepOutbox(parts()), sweepOutbox(parts())]);
  await happen(2);
  await sweepOutbox(parts());
  await sweepOutbox(parts());
  const { seqs, events } = await inStream();
  expect(seqs).toEqual(await inOutbox());
  expect(seqs.length).toBe(9);
  expect(events[8]).toMatchObject({
    specversion: '1.0',
    source: '/tests',
    type: 'dev.doorbuster.redemption.reserved.v1',
    data: { user_id: 'user-1' },
  });
});

test('the publisher appends the missing events to a Redis that lost its data, or is older', async () => {
  await happen(3);
  await sweepOutbox(parts());
  const backup = await sale.redis.dumpBuffer(keys.events);
  await happen(2);
  await sweepOutbox(parts());
  const whole = await inStream();
  await sale.redis.restore(keys.events, 0, backup, 'REPLACE');
  await sweepOutbox(parts());
  expect(await inStream()).toEqual(whole);
  await sale.redis.del(keys.events);
  await sweepOutbox(parts());
  expect(await inStream()).toEqual(whole);
});

test('a Redis that is full takes all of a batch or nothing, and goes on where it was', async () => {
  await sweepOutbox(parts());
  await happen(4);
  const before = await inStream();
  await sale.redis.config('SET', 'maxmemory', '1');
  await expect(sweepOutbox(parts())).rejects.toThrow(/OOM|EXECABORT/);
  await sale.redis.config('SET', 'maxmemory', '0');
  expect(await inStream()).toEqual(before);
  await sweepOutbox(parts());
  expect((await inStream()).seqs).toEqual(await inOutbox());
});

test('the publisher keeps about as many events as its limit, the newest', async () => {
  // "About" means whole nodes; with nodes of one entry it is exact.
  await sale.redis.config('SET', 'stream-node-max-entries', '1');
  await sale.redis.del(keys.events);
  const short = parts({ stream: new EventStream(sale.store.scripts, 2) });
  await sweepOutbox(short);
  expect((await inStream()).seqs).toEqual((await inOutbox()).slice(-2));
  await happen(3);
  await sweepOutbox(short);
  expect((await inStream()).seqs).toEqual((await inOutbox()).slice(-2));
});

test('the publisher wakes the endpoints with pending events, and reports how far behind each destination is', async () => {
  const endpoint = await endpoints.insert({
    id: '01a1fc6d-483b-7a4a-9e25-913b00000001',
    url: 'https://x.test',
    secrets: ['s'],
    types: null,
  });
  const quiet = parts();
  await sweepOutbox(quiet);
  expect(quiet.woken).toEqual([]);
  await happen(1);
  await store.sql.query(
    "update outbox set occurred_at = now() - interval '90 seconds' where seq = (select max(seq) from outbox)",
  );
  const busy = parts();
  await sweepOutbox(busy);
  expect(busy.woken).toEqual([endpoint.id]);
  const lag = await busy.metrics.registry.getSingleMetricAsString('doorbuster_outbox_lag_seconds');
  expect(lag).toContain('{destination="stream"} 0');
  expect(Number(new RegExp(`\\{destination="${endpoint.id}"\\} (\\S+)`).exec(lag)?.[1])).toBeGreaterThanOrEqual(90);
  await store.sql.query('delete from webhook_endpoints');
});

test('the publisher deletes nothing that the stream lacks', async () => {
  await happen(2);
  await store.sql.query("update outbox set occurred_at = now() - interval '8 days'");
  const stream = new EventStream(sale.store.scripts, 1_000);
  const behind = (await inOutbox()).filter((seq) => seq > 0).slice(-2);
  const limits = { outboxKeepMs: 7 * 86_400_000, pruneBatch: 3, pruneBatches: 100 };
  const deps = { outbox, stream, kafka: null, metrics: new Metrics(false), log: recordingLog(), limits };
  await pruneOutbox(deps);
  expect(await inOutbox()).toEqual(behind);
  await sweepOutbox(parts());
  await pruneOutbox(deps);
  expect(await inOutbox()).toEqual([]);
});

// The last test: it leaves a gap in the journal.
test('after Postgres was set back, every event reaches the stream under a number that was not used', async () => {
  await happen(2);
  await sweepOutbox(parts());
  const backup = await takeBackup(store.sql);
  await happen(4);
  await sweepOutbox(parts());
  const before = await inStream();
  await goBack(store.sql, backup);
  const log = recordingLog();
  for (const count of [1, 2]) {
    // Written by a worker, without an entry of the journal.
    await store.sql.query(
      `insert into outbox (event_id, type, subject, campaign_id, product_id, occurred_at, data)
       select gen_random_uuid(), 'dev.doorbuster.campaign.drifted.v1', 'new', campaign_id, product_id, now(), '{}'
       from campaigns limit 1`,
    );
    await Promise.all([sweepOutbox(parts({ log })), sweepOutbox(parts({ log }))]);
    const { seqs, events } = await inStream();
    expect(seqs.slice(0, before.seqs.length)).toEqual(before.seqs);
    expect(events.slice(before.events.length).map(({ subject }) => subject)).toEqual(Array(count).fill('new'));
  }
  expect(log.lines).toContainEqual(
    expect.objectContaining({ level: 'warn', fields: { lastSeq: before.seqs.at(-1), renumbered: 1 } }),
  );
});
