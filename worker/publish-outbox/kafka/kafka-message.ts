import type { KafkaConfig, KafkaTopics } from '../../../shared/config/kafka.js';
import {
  cloudEvent,
  cloudEventAttributes,
  EVENT_TYPES,
  type EventType,
  type OutboxEvent,
} from '../../../shared/contracts/events.js';

/** A record of Kafka. Values of `headers` are UTF-8. */
export type KafkaMessage = {
  topic: string;
  key: string;
  value: string;
  headers: Record<string, string>;
  /** When the event happened, ms since 1970. */
  timestamp: bigint;
};

/** The second part of `dev.doorbuster.<family>.<name>.v1`. */
const familyOf = (type: EventType): string => type.split('.')[2] ?? '';

const topicOf = (type: EventType, { prefix, split }: KafkaTopics): string =>
  `${prefix}.${split === 'one' ? 'events' : familyOf(type)}`;

/** All topics that events may go to. */
export function topicNames(topics: KafkaTopics): string[] {
  return [...new Set(EVENT_TYPES.map((type) => topicOf(type, topics)))];
}

/**
 * The key decides the partition, and with it which events have an order: those of one reservation, and those about one
 * campaign itself.
 */
function keyOf({ type, subject, data }: OutboxEvent): string {
  return familyOf(type) === 'campaign' ? String(data.campaign_id) : subject;
}

/**
 * Encodes an event by the Kafka protocol binding of CloudEvents 1.0. Its extension `partitionkey` repeats the key.
 * @param source `source` attribute of the event
 */
export function kafkaMessage(
  event: OutboxEvent,
  source: string,
  { topics, format }: Pick<KafkaConfig, 'topics' | 'format'>,
): KafkaMessage {
  const key = keyOf(event);
  const record = { topic: topicOf(event.type, topics), key, timestamp: BigInt(event.occurredAt.getTime()) };
  if (format === 'structured') {
    const value = cloudEvent(event, source, { partitionkey: key });
    return { ...record, value, headers: { 'content-type': 'application/cloudevents+json; charset=UTF-8' } };
  }
  const attributes = { ...cloudEventAttributes(event, source), partitionkey: key };
  const headers = Object.entries(attributes).map(([name, value]) => [`ce_${name}`, value]);
  return {
    ...record,
    value: JSON.stringify(event.data),
    headers: { 'content-type': 'application/json', ...Object.fromEntries(headers) },
  };
}
