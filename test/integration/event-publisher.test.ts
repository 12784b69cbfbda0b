import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import { Metrics } from '../../shared/observability/metrics.js';
import { WebhookEndpoints } from '../../shared/postgres/webhook-endpoints.js';
import type { WrittenEvents } from '../../shared/projection/event-writer.js';
import { EventStream } from '../../shared/redis/event-stream.js';
import { keys } from '../../shared/redis/keys.js';
import { EventPublisher, type EventPublisherDeps } from '../../worker/publish-outbox/event-publisher.js';
import { type EventRange, Outbox } from '../../worker/publish-outbox/outbox.js';
import { sweepOutbox } from '../../worker/publish-outbox/publish.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale } from '../harness/sale.js';
import { until } from '../harness/until.js';

const sale = await startSale();
const store = await startPersistence(sale);
const endpoints = new WebhookEndpoints(store.database);
const woken: string[] = [];

/** Counts how often events are read back. */
class CountingOutbox extends Outbox {
  reads = 0;
  override read(range: EventRange, limit: number) {
    this.reads += 1;
    return super.read(range, limit);
  }
}
const outbox = new CountingOutbox(store.database);

function partsWith(limits: Partial<EventPublisherDeps['limits']> = {}): EventPublisherDeps {
  return {
    outbox,
    stream: new EventStream(sale.store.scripts, 1_000_000),
    endpoints,
    metrics: new Metrics(false),
    log: store.log,
    source: '/tests',
    wake: async (id) => woken.push(id),
    limits: { publishBatch: 3, publishAfterMs: 10, waiting: 100, ...limits },
  };
}

/** Persists the journal. @returns the events of each batch, as the worker takes them */
async function persist(batchEntries = 500): Promise<WrittenEvents[]> {
  const written: WrittenEvents[] = [];
  await store.persist(store.persistWith({ batchEntries, publish: (batch) => written.push(batch) }));
  return written;
}
async function take(count: number): Promise<void> {
  const campaign = await store.openCampaign({ totalLimit: count });
  for (let i = 0; i < count; i += 1) await campaign.take(`user-${i}`);
}
async function inStream(): Promise<{ seq: number; event: Record<string, unknown> }[]> {
  const entries = await sale.redis.xrange(keys.events, '-', '+');
  return entries.map(([id, fields]) => ({
    seq: Number(id.replace(/-0$/, '')),
    event: JSON.parse(String(fields[fields.indexOf('event') + 1])),
  }));
}
const seqsInOutbox = async () =>
  (await outbox.read({ after: 0, upTo: await outbox.lastSeq(), types: null }, 10_000)).map(({ seq }) => seq);
const seqsInStream = async () => (await inStream()).map(({ seq }) => seq);
const untilPublished = async () => {
  const all = await seqsInOutbox();
  await until('the stream has everything', async () => (await seqsInStream()).length >= all.length);
  expect(await seqsInStream()).toEqual(all);
};

beforeEach(async () => {
  await persist();
  await sweepOutbox(partsWith());
  outbox.reads = 0;
  woken.length = 0;
});
afterEach(async () => {
  await store.sql.query('delete from webhook_endpoints');
  await untilPublished();
});

describe('EventPublisher', () => {
  it('publishes new reservations from memory, the same as from the outbox, without reading', async () => {
    const publisher = new EventPublisher(partsWith());
    await take(8);
    for (const batch of await persist(5)) publisher.committed(batch);
    await publisher.stop();
    expect(outbox.reads).toBe(0);
    const published = await inStream();
    await sale.redis.del(keys.events);
    await sweepOutbox(partsWith());
    expect(published).toEqual(await inStream());
  });

  it('reads what does not follow from memory, and goes on from memory after it', async () => {
    const publisher = new EventPublisher(partsWith());
    const campaign = await store.openCampaign();
    const id = await campaign.take('ann');
    await campaign.release(id);
    const [mixed] = await persist();
    expect(mixed?.events).toBeNull();
    publisher.committed(mixed as WrittenEvents);
    await untilPublished();
    outbox.reads = 0;
    await take(2);
    for (const batch of await persist()) publisher.committed(batch);
    await until('they are published', async () => (await seqsInStream()).at(-1) === (await outbox.lastSeq()));
    expect(outbox.reads).toBe(0);
  });

  it('publishes nothing after a gap, and reads what is missing: a commit whose reply was lost', async () => {
    const publisher = new EventPublisher(partsWith());
    await take(3);
    const [, second, third] = await persist(1);
    for (const batch of [second, third]) publisher.committed(batch as WrittenEvents);
    await untilPublished();
    expect(outbox.reads).toBeGreaterThan(0);
  });

  it('goes on from memory after numbers that a rolled back transaction has used', async () => {
    const publisher = new EventPublisher(partsWith());
    await store.sql.query(`select nextval(pg_get_serial_sequence('outbox', 'seq')) from generate_series(1, 7)`);
    await take(2);
    for (const batch of await persist()) publisher.committed(batch);
    await publisher.stop();
    expect(outbox.reads).toBe(0);
    expect((await seqsInStream()).at(-1)).toBe(await outbox.lastSeq());
  });

  it('appends nothing twice when another publisher was faster, whole or in part', async () => {
    const publisher = new EventPublisher(partsWith());
    await take(5);
    const batches = await persist();
    const first = batches[0] as WrittenEvents;
    const other = partsWith();
    await other.stream.append([{ seq: first.span.first, id: 'x', type: 'y', subject: 'z', json: '{}' }]);
    for (const batch of batches) publisher.committed(batch);
    await untilPublished();
    await take(2);
    const more = await persist();
    await sweepOutbox(other);
    outbox.reads = 0;
    for (const batch of more) publisher.committed(batch);
    await publisher.stop();
    expect(outbox.reads).toBe(0);
  });

  it('gives a Redis that was emptied everything, in order', async () => {
    const publisher = new EventPublisher(partsWith());
    await take(2);
    const batches = await persist();
    await sale.redis.del(keys.events);
    for (const batch of batches) publisher.committed(batch);
    await untilPublished();
  });

  it('leaves to the outbox what does not fit into its memory', async () => {
    const publisher = new EventPublisher(partsWith({ waiting: 4 }));
    await take(12);
    for (const batch of await persist(3)) publisher.committed(batch);
    await untilPublished();
    expect(outbox.reads).toBeGreaterThan(0);
  });

  it('publishes nothing while Redis is full, and everything when it is not', async () => {
    const parts = partsWith();
    const publisher = new EventPublisher(parts);
    await take(2);
    const before = await seqsInStream();
    await sale.redis.config('SET', 'maxmemory', '1');
    try {
      const [batch] = await persist();
      const { stream } = parts;
      const events = (batch?.events ?? []).map(({ seq, id, type, subject }) => ({
        seq,
        id,
        type,
        subject,
        json: '{}',
      }));
      await expect(stream.append(events, batch?.span.after ?? 0)).rejects.toThrow(/OOM/);
      publisher.committed(batch as WrittenEvents);
      await publisher.stop();
      expect(await seqsInStream()).toEqual(before);
    } finally {
      await sale.redis.config('SET', 'maxmemory', '0');
    }
    await sweepOutbox(parts);
  });

  it('wakes endpoints after commits, but asks for none while none is in use', async () => {
    let asked = 0;
    class CountingEndpoints extends WebhookEndpoints {
      override due(lastSeq: number) {
        asked += 1;
        return super.due(lastSeq);
      }
    }
    const publisher = new EventPublisher({ ...partsWith(), endpoints: new CountingEndpoints(store.database) });
    await publisher.sweep();
    await take(1);
    for (const batch of await persist()) publisher.committed(batch);
    await untilPublished();
    const { id } = await endpoints.insert({
      id: '01a1fc6d-483b-7a4a-9e25-913b00000003',
      url: 'https://x.test',
      secrets: ['s'],
      types: null,
    });
    expect(asked).toBe(0);
    await publisher.sweep();
    expect(woken).toEqual([]);
    await take(1);
    for (const batch of await persist()) publisher.committed(batch);
    await until('the endpoint is woken', () => woken.length > 0);
    expect(woken).toEqual([id]);
    await publisher.stop();
  });

  it('leaves events to the sweep when Postgres is away after the commit', async () => {
    const away = Object.assign(new CountingOutbox(store.database), {
      lastSeq: () => Promise.reject(new EngineUnavailable('postgres', 'gone')),
    });
    const publisher = new EventPublisher({ ...partsWith(), outbox: away });
    const campaign = await store.openCampaign();
    await campaign.release(await campaign.take('ann'));
    for (const batch of await persist()) publisher.committed(batch);
    await expect(publisher.stop()).resolves.toBeUndefined();
    await sweepOutbox(partsWith());
  });

  it('holds up no stop when Redis does not reply', async () => {
    const parts = partsWith();
    const publisher = new EventPublisher({
      ...parts,
      stream: Object.assign(Object.create(parts.stream), { append: () => new Promise(() => {}) }),
    });
    await take(1);
    for (const batch of await persist()) publisher.committed(batch);
    await publisher.stop();
    await sweepOutbox(parts);
  });
});
