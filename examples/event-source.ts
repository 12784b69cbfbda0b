import type { Redis } from 'ioredis';
import { createGroup, type Event, readEvents } from './read-events.js';
import { readKafka } from './read-kafka.js';

/** Brokers and topics of the environment; null = read the stream of Redis. */
export function kafkaOfEnvironment(): { brokers: string[]; topics: string[] } | null {
  const { KAFKA_BROKERS: brokers, EVENT_TOPICS: topics = 'doorbuster.events' } = process.env;
  return brokers ? { brokers: brokers.split(','), topics: topics.split(',') } : null;
}

/**
 * Gives each event to `handle` until SIGINT or SIGTERM: from Kafka if KAFKA_BROKERS is set, else from the stream of
 * Redis.
 */
export async function readUntilStopped(
  redis: Redis,
  group: string,
  handle: (event: Event) => Promise<void>,
): Promise<void> {
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());
  const kafka = kafkaOfEnvironment();
  if (kafka) {
    const handleAll = async (events: Event[]) => {
      for (const event of events) await handle(event);
    };
    return await readKafka({ ...kafka, group: `doorbuster-${group}` }, handleAll, { signal: stop.signal });
  }
  const reader = { stream: process.env.EVENTS ?? 'db1:events', group, name: `${group}-${process.pid}` };
  await createGroup(redis, reader);
  while (!stop.signal.aborted) await readEvents(redis, reader, handle);
}
