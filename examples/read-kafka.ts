import { Consumer, type Message, stringDeserializers } from '@platformatic/kafka';
import type { Event } from './read-events.js';

export type KafkaReader = { brokers: string[]; topics: string[]; group: string };
type Record = Message<string, string, string, string>;

const CLIENT = 'doorbuster-example';
const ATTRIBUTES = ['id', 'type', 'subject', 'time'] as const;

/** The event of a record, in either mode of CloudEvents. */
export function eventOf({ headers, value }: Pick<Record, 'headers' | 'value'>): Event {
  if (headers.get('content-type')?.startsWith('application/cloudevents+json')) return JSON.parse(value) as Event;
  const [id, type, subject, time] = ATTRIBUTES.map((name) => headers.get(`ce_${name}`) ?? '') as [
    string,
    string,
    string,
    string,
  ];
  return { id, type, subject, time, data: JSON.parse(value) as Event['data'] };
}

/** For brokers with TLS or SASL add `tls` and `sasl`, as the documentation of the client describes them. */
function newConsumer({ brokers, group }: Omit<KafkaReader, 'topics'>) {
  return new Consumer({
    clientId: CLIENT,
    groupId: group,
    bootstrapBrokers: brokers,
    deserializers: stringDeserializers,
  });
}

/**
 * Gives the next events to `handle` in batches, and commits each batch when it is handled. Starts at the oldest event.
 * An event may come again (a crash in between, a repetition by the sender), so `handle` must do no harm the second
 * time.
 * @returns when `signal` is aborted
 * @throws what `handle` throws; the batch comes again at the next start
 */
export async function readKafka(
  { topics, ...reader }: KafkaReader,
  handle: (events: Event[]) => Promise<void>,
  { batch = 500, signal }: { batch?: number; signal?: AbortSignal } = {},
): Promise<void> {
  const consumer = newConsumer(reader);
  const onAbort = () => consumer.close(true, () => {});
  signal?.addEventListener('abort', onAbort);
  try {
    const stream = await consumer.consume({ topics, mode: 'committed', fallbackMode: 'earliest', autocommit: false });
    let records: Record[] = [];
    for await (const record of stream) {
      records.push(record);
      // Waits for nothing: a batch is what has arrived.
      if (records.length < batch && stream.readableLength > 0) continue;
      await handle(records.map(eventOf));
      const last = new Map(records.map((one) => [`${one.topic} ${one.partition}`, one]));
      for (const one of last.values()) await one.commit();
      records = [];
    }
  } catch (error) {
    if (!signal?.aborted) throw error;
  } finally {
    signal?.removeEventListener('abort', onAbort);
    await consumer.close(true);
  }
}

/** Yields everything that the topics have now, in the order of each partition. Commits nothing. */
export async function* readKafkaOnce({ topics, ...reader }: KafkaReader): AsyncGenerator<Event> {
  const consumer = newConsumer(reader);
  try {
    const left = new Map<string, bigint>();
    const [starts, ends] = [
      await consumer.listOffsets({ topics, timestamp: -2n }),
      await consumer.listOffsets({ topics }),
    ];
    for (const [topic, offsets] of ends)
      for (const [partition, end] of offsets.entries())
        if (end > (starts.get(topic)?.[partition] ?? 0n)) left.set(`${topic} ${partition}`, end);
    if (left.size === 0) return;
    const stream = await consumer.consume({ topics, mode: 'earliest', autocommit: false });
    for await (const record of stream) {
      const place = `${record.topic} ${record.partition}`;
      if (left.has(place)) yield eventOf(record);
      if (record.offset + 1n >= (left.get(place) ?? 0n)) left.delete(place);
      if (left.size === 0) return;
    }
  } finally {
    await consumer.close(true);
  }
}
