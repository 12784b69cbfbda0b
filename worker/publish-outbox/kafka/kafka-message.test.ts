import { describe, expect, it } from '@jest/globals';
import type { KafkaTopics } from '../../../shared/config/kafka.js';
import type { OutboxEvent } from '../../../shared/contracts/events.js';
import { kafkaMessage, topicNames } from './kafka-message.js';

const TOPICS: KafkaTopics = { prefix: 'shop', split: 'one', create: true, partitions: 1, replication: null };
const BY_FAMILY: KafkaTopics = { ...TOPICS, split: 'family' };
const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const RESERVATION = '01a1fc6d-483b-7a4a-9e25-913b00000003';
const CAMPAIGN = '01a1fc6d-483b-7a4a-9e25-913b00000004';
const redeemed: OutboxEvent = {
  seq: 7,
  id: '01a1fc6d-483b-8a4a-8e25-913b00000001',
  type: 'dev.doorbuster.redemption.redeemed.v1',
  subject: RESERVATION,
  occurredAt: new Date('2026-11-22T10:00:00.123Z'),
  trace: TRACE,
  data: { campaign_id: CAMPAIGN, product_id: 'größe', reservation_id: RESERVATION, qty: 1 },
};
const closed: OutboxEvent = {
  ...redeemed,
  type: 'dev.doorbuster.campaign.closed.v1',
  subject: 'größe',
  trace: null,
  data: { campaign_id: CAMPAIGN, product_id: 'größe' },
};

describe('kafkaMessage', () => {
  it('has the attributes as headers and the data as the value in binary mode', () => {
    expect(kafkaMessage(redeemed, '/shop', { topics: TOPICS, format: 'binary' })).toEqual({
      topic: 'shop.events',
      key: RESERVATION,
      timestamp: 1_795_341_600_123n,
      value: JSON.stringify(redeemed.data),
      headers: {
        'content-type': 'application/json',
        ce_specversion: '1.0',
        ce_id: redeemed.id,
        ce_source: '/shop',
        ce_type: redeemed.type,
        ce_subject: RESERVATION,
        ce_time: '2026-11-22T10:00:00.123Z',
        ce_traceparent: TRACE,
        ce_partitionkey: RESERVATION,
      },
    });
  });

  it('has the whole event as the value in structured mode', () => {
    const { value, headers, key } = kafkaMessage(redeemed, '/shop', { topics: TOPICS, format: 'structured' });
    expect(key).toBe(RESERVATION);
    expect(headers).toEqual({ 'content-type': 'application/cloudevents+json; charset=UTF-8' });
    expect(JSON.parse(value)).toEqual({
      specversion: '1.0',
      id: redeemed.id,
      source: '/shop',
      type: redeemed.type,
      subject: RESERVATION,
      time: '2026-11-22T10:00:00.123Z',
      datacontenttype: 'application/json',
      traceparent: TRACE,
      partitionkey: RESERVATION,
      data: redeemed.data,
    });
  });

  it('has the campaign as the key of events about it, and no header without a value', () => {
    const message = kafkaMessage(closed, '/shop', { topics: TOPICS, format: 'binary' });
    expect(message).toMatchObject({ key: CAMPAIGN, headers: { ce_subject: 'größe', ce_partitionkey: CAMPAIGN } });
    expect(message.headers).not.toHaveProperty('ce_traceparent');
  });

  it('goes to the topic of its family', () => {
    const topicOf = (event: OutboxEvent) => kafkaMessage(event, '/', { topics: BY_FAMILY, format: 'binary' }).topic;
    expect([topicOf(redeemed), topicOf(closed)]).toEqual(['shop.redemption', 'shop.campaign']);
  });
});

describe('topicNames', () => {
  it('names each topic once', () => {
    expect(topicNames(TOPICS)).toEqual(['shop.events']);
    expect(topicNames(BY_FAMILY)).toEqual([
      'shop.redemption',
      'shop.payment',
      'shop.user',
      'shop.waiting',
      'shop.campaign',
    ]);
  });
});
