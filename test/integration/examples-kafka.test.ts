import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ClickHouseLogLevel, createClient } from '@clickhouse/client';
import { describe, expect, it } from '@jest/globals';
import { dashboardQueries, Warehouse } from '../../examples/analytics/warehouse.js';
import { compare, type Redemption } from '../../examples/finance-report/report.js';
import { readExport } from '../../examples/finance-report/sources.js';
import type { Event } from '../../examples/read-events.js';
import { eventOf } from '../../examples/read-kafka.js';
import type { KafkaTopics } from '../../shared/config/kafka.js';
import type { OutboxEvent } from '../../shared/contracts/events.js';
import { kafkaMessage } from '../../worker/publish-outbox/kafka/kafka-message.js';
import { atEnd } from '../harness/cleanup.js';

/** What needs no broker; `npm run test:kafka` runs the examples against real ones. */
const TOPICS: KafkaTopics = { prefix: 'shop', split: 'one', create: true, partitions: 1, replication: null };
const CAMPAIGN = '01a1fc6d-483b-7a4a-9e25-913b00000004';
const outboxEvent: OutboxEvent = {
  seq: 7,
  id: '01a1fc6d-483b-8a4a-8e25-913b00000001',
  type: 'dev.doorbuster.redemption.redeemed.v1',
  subject: '01a1fc6d-483b-7a4a-9e25-913b00000003',
  occurredAt: new Date('2026-11-22T10:00:00.123Z'),
  trace: null,
  data: {
    campaign_id: CAMPAIGN,
    product_id: 'größe',
    reservation_id: '01a1fc6d-483b-7a4a-9e25-913b00000003',
    user_id: 'ann',
    order_id: 'cart-1',
    qty: 2,
    device_fp: null,
    payment_ref: 'pay-1',
  },
};
const event: Event = {
  id: outboxEvent.id,
  type: outboxEvent.type,
  subject: outboxEvent.subject,
  time: '2026-11-22T10:00:00.123Z',
  data: outboxEvent.data,
};

describe('eventOf', () => {
  for (const format of ['binary', 'structured'] as const)
    it(`reads an event in ${format} mode`, () => {
      const { headers, value } = kafkaMessage(outboxEvent, '/shop', { topics: TOPICS, format });
      expect(eventOf({ headers: new Map(Object.entries(headers)), value })).toMatchObject(event);
    });
});

/** A double of the HTTP interface of ClickHouse: the requests, and the status that it responds with. */
async function startDouble() {
  const requests: { query: URLSearchParams; body: string }[] = [];
  const double = { requests, status: 200, answer: '' };
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    requests.push({ query: new URL(String(request.url), 'http://x').searchParams, body });
    response.writeHead(double.status).end(double.answer);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client = createClient({ url, log: { level: ClickHouseLogLevel.OFF } });
  atEnd('the double of ClickHouse', async () => {
    await client.close();
    server.closeAllConnections();
    server.close();
  });
  return { ...double, double, warehouse: new Warehouse(client) };
}

describe('Warehouse', () => {
  it('inserts a batch as rows with the id of each event, and nothing for an empty batch', async () => {
    const { warehouse, requests } = await startDouble();
    await warehouse.write([]);
    expect(requests).toEqual([]);
    await warehouse.write([event, { ...event, id: 'another', data: { campaign_id: CAMPAIGN, product_id: 'p' } }]);
    const [request] = requests;
    expect(request?.query.get('query')).toMatch(/^INSERT INTO doorbuster_events\s+FORMAT JSONEachRow/);
    const rows = request?.body
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(rows).toEqual([
      {
        id: event.id,
        type: event.type,
        subject: event.subject,
        time: event.time,
        campaign_id: CAMPAIGN,
        product_id: 'größe',
        reservation_id: event.subject,
        user_id: 'ann',
        order_id: 'cart-1',
        qty: 2,
        device_fp: '',
        payment_ref: 'pay-1',
        reason: '',
        data: JSON.stringify(event.data),
      },
      expect.objectContaining({ id: 'another', reservation_id: null, qty: 0, payment_ref: '' }),
    ]);
  });

  it('throws when ClickHouse does not take the batch, so that it comes again', async () => {
    const { warehouse, double } = await startDouble();
    double.status = 500;
    double.answer = 'Code: 241. DB::Exception: Memory limit exceeded';
    await expect(warehouse.write([event])).rejects.toThrow();
  });

  it('has the queries of the dashboard by name', () => {
    expect([...dashboardQueries().keys()]).toEqual([
      'units_per_minute',
      'funnel',
      'seconds_to_pay',
      'devices_with_most_redemptions',
      'paid_twice',
    ]);
    for (const query of dashboardQueries().values()) expect(query).toContain('{campaign:UUID}');
  });
});

describe('the finance report', () => {
  const redemption = (id: string, payment: string | null, status = 'redeemed'): Redemption => ({
    redemption_id: id,
    user_id: `user-${id}`,
    order_id: `order-${id}`,
    status,
    payment_ref: payment,
  });
  const told = (type: string, id: string, payment: string | null): Event => ({
    ...event,
    type: `dev.doorbuster.${type}.v1`,
    data: { reservation_id: id, payment_ref: payment },
  });
  const paid = (payment: string, status: 'paid' | 'refunded' = 'paid') => ({
    payment_ref: payment,
    status,
    amount: '9.90',
  });
  const kinds = (...parts: Parameters<typeof compare>) =>
    compare(...parts).map(({ kind, payment_ref, redemption_id }) => [kind, payment_ref, redemption_id]);

  it('finds nothing where all sides agree', () => {
    const redemptions = [redemption('a', 'p1'), redemption('b', 'p2', 'refunded'), redemption('c', null, 'reserved')];
    const events = [told('redemption.redeemed', 'a', 'p1'), told('redemption.redeemed', 'b', 'p2')];
    expect(compare(redemptions, [...events, ...events], [paid('p1'), paid('p2', 'refunded')])).toEqual([]);
  });

  it('names what is missing or different on either side', () => {
    const redemptions = [
      redemption('a', 'p1'),
      redemption('b', 'p2', 'voided'),
      redemption('c', 'p3'),
      redemption('d', 'p4'),
    ];
    const events = [
      told('redemption.redeemed', 'a', 'p1'),
      told('redemption.redeemed', 'c', 'p3'),
      told('payment.duplicated', 'c', 'p5'),
      told('redemption.redeemed', 'x', 'p7'),
    ];
    const exported = [
      paid('p2'),
      paid('p3', 'refunded'),
      paid('p4'),
      paid('p4'),
      paid('p5'),
      paid('p6'),
      paid('p8', 'refunded'),
    ];
    expect(kinds(redemptions, events, exported)).toEqual([
      ['missing_at_provider', 'p1', 'a'],
      ['missing_here', 'p6', ''],
      ['paid_again', 'p5', 'c'],
      ['not_refunded', 'p2', 'b'],
      ['refunded_there_only', 'p3', 'c'],
      ['twice_in_export', 'p4', 'd'],
      ['event_missing', 'p4', 'd'],
      ['event_only', 'p7', ''],
    ]);
  });

  it('compares no events when there are none to compare', () => {
    expect(kinds([redemption('a', 'p1')], null, [paid('p1')])).toEqual([]);
  });

  it('reads an export with the columns of its provider, and names a column that is missing', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'doorbuster-export-'));
    const file = join(directory, 'export.csv');
    atEnd('the export', () => rm(directory, { recursive: true, force: true }));
    await writeFile(file, '\ufeffReference,State,Gross\n"pay,1",SUCCEEDED,"1.234,50"\npay-2,chargeback,5\n');
    const columns = { payment: 'Reference', status: 'State', amount: 'Gross', paid: ['succeeded'] };
    expect(readExport(file, columns)).toEqual([
      { payment_ref: 'pay,1', status: 'paid', amount: '1.234,50' },
      { payment_ref: 'pay-2', status: 'refunded', amount: '5' },
    ]);
    expect(() => readExport(file, { ...columns, amount: 'Net' })).toThrow('has no column Net');
  });
});
