import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@clickhouse/client';
import { expect, test } from '@jest/globals';
import { Warehouse } from '../../examples/analytics/warehouse.js';
import { Bans } from '../../examples/fraud-counter/bans.js';
import { FraudCounter } from '../../examples/fraud-counter/counter.js';
import type { Event } from '../../examples/read-events.js';
import { readKafka, readKafkaOnce } from '../../examples/read-kafka.js';
import { projectRoot } from '../../shared/config/project-root.js';
import { atEnd } from '../harness/cleanup.js';
import { Operator, PaymentService, Shopper } from '../harness/clients.js';
import { startCarts } from '../harness/example-carts.js';
import { ADMIN_SECRET, startService } from '../harness/service.js';
import { until } from '../harness/until.js';
import { startBroker } from './broker.js';
import { startClickHouse } from './clickhouse.js';
import { startServerOf2018 } from './clickhouse-2018.js';

const broker = await startBroker();
const service = await startService({ KAFKA_BROKERS: broker.brokers, KAFKA_TOPIC_PARTITIONS: '3' });
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const kafka = { brokers: [broker.brokers], topics: ['doorbuster.events'] };

/** A paid unit. @returns its reservation and order */
async function sellOrder(product: string, user: string, payment = `pay-${randomUUID()}`) {
  const answer = await new Shopper(service.url, product, user).checkout();
  expect(answer.status).toBe(200);
  await payments.confirm(answer.data.reservation_id, payment);
  return { reservation: String(answer.data.reservation_id), order: String(answer.data.order_id) };
}
const sell = async (...args: Parameters<typeof sellOrder>) => (await sellOrder(...args)).reservation;
const openCampaign = (terms: Record<string, unknown> = {}) =>
  operator.openCampaign({ total_limit: 100, hold_seconds: 600, ...terms });
const campaignOf = async (product: string) =>
  String((await operator.call('GET', `/admin/campaigns/${product}`)).data.id);

/** Reads with a group until `isDone`. `handle` gets only the events of the campaign. */
async function readUntil(
  group: string,
  campaign: string,
  handle: (event: Event) => Promise<void>,
  isDone: () => Promise<boolean> | boolean,
): Promise<void> {
  const stop = new AbortController();
  const reading = readKafka(
    { ...kafka, group },
    async (events) => {
      for (const event of events) if (event.data.campaign_id === campaign) await handle(event);
    },
    { signal: stop.signal },
  );
  reading.catch(() => {});
  try {
    await Promise.race([until('the reader is done', isDone), reading]);
  } finally {
    stop.abort();
  }
  await reading;
}

test('the cart applies each discount once, also after a reader that failed', async () => {
  const product = await openCampaign({ discount: { kind: 'percent', percent: 50 } });
  const campaign = await campaignOf(product);
  const { order } = await sellOrder(product, 'ann');
  const [group, { carts }] = [`cart-${randomUUID()}`, await startCarts()];
  await carts.setSubtotal(order, 10_000, 'EUR');
  // It dies after the transaction, before the commit in Kafka.
  const dying = async (event: Event) => {
    await carts.handle(event);
    if (event.type.includes('.redeemed.')) throw new Error('killed');
  };
  await expect(readUntil(group, campaign, dying, () => false)).rejects.toThrow('killed');
  let again = false;
  const handle = async (event: Event) => {
    await carts.handle(event);
    again ||= event.type.includes('.redeemed.');
  };
  await readUntil(group, campaign, handle, () => again);
  expect(await carts.read(order)).toEqual({ subtotal: 10_000, discount: 5_000, freeShipping: false, total: 5_000 });
});

test('the fraud counter bans a user through the admin API, once', async () => {
  const product = await openCampaign({ per_user_limit: 5 });
  const campaign = await campaignOf(product);
  const user = `fraud-${randomUUID()}`;
  for (let i = 0; i < 3; i += 1) await sell(product, user);
  const rule = { by: 'user_id', limit: 1, windowMs: 3_600_000 } as const;
  const counter = new FraudCounter(service.redis.client, `fraud-${randomUUID()}`, [rule]);
  const bans = new Bans({ api: service.url, key: ADMIN_SECRET, banMs: 3_600_000 });
  const banned: boolean[] = [];
  const handle = async (event: Event) => {
    for (const suspicion of await counter.handle(event)) banned.push(await bans.ban(suspicion));
  };
  await readUntil(`fraud-${randomUUID()}`, campaign, handle, () => banned.length === 2);
  expect(banned).toEqual([true, false]);
  await until('the ban is enforced', async () => {
    const { status, body } = await new Shopper(service.url, product, user).checkout();
    return status === 403 && body.code === 'blocked';
  });
});

const withChdb = process.env.DOORBUSTER_TEST_CHDB ? test : test.skip;
withChdb('the warehouse has each event once, and the queries of the dashboard', async () => {
  const client = createClient({ url: await startClickHouse() });
  atEnd('the client of ClickHouse', () => client.close());
  await expectWarehouse(new Warehouse(client));
});

const withServer = process.env.DOORBUSTER_TEST_CLICKHOUSE ? test : test.skip;
withServer('a server of ClickHouse that is killed has each event once', async () => {
  const { client, kill, start } = await startServerOf2018();
  await expectWarehouse(new Warehouse(client), async () => {
    await kill();
    return start;
  });
});

/**
 * Sells, and compares what the warehouse answers.
 * @param goAway ends the server between two events, and returns how it comes back
 */
async function expectWarehouse(warehouse: Warehouse, goAway?: () => Promise<() => Promise<void>>): Promise<void> {
  await warehouse.createTable();
  await warehouse.createTable();
  const product = await openCampaign();
  const campaign = await campaignOf(product);
  const paid = await sell(product, 'ann', 'pay-first');
  await payments.confirm(paid, 'pay-second');
  const held = await new Shopper(service.url, product, 'bob').checkout();
  await payments.release(held.data.reservation_id, 'changed their mind');
  const refunded = await sell(product, 'cid');
  await payments.refund(refunded);
  const group = `analytics-${randomUUID()}`;
  const written: Event[] = [];
  const write = async (event: Event) => {
    await warehouse.write([event]);
    written.push(event);
  };
  if (goAway) {
    let comeBack: (() => Promise<void>) | undefined;
    const untilItFails = async (event: Event) => {
      if (written.length === 2) comeBack = await goAway();
      await write(event);
    };
    await expect(readUntil(group, campaign, untilItFails, () => false)).rejects.toThrow('ECONNREFUSED');
    await comeBack?.();
  }
  const events: Event[] = [];
  const writeAll = async (event: Event) => {
    events.push(event);
    await write(event);
  };
  const has = (type: string) => events.some((event) => event.type.includes(type));
  await readUntil(group, campaign, writeAll, () => has('.refunded.') && has('.duplicated.'));
  // All of them come again.
  await warehouse.write(events);
  const ask = (name: string) => warehouse.ask(name, campaign);
  const numbers = (row: Record<string, unknown> | undefined) =>
    Object.fromEntries(Object.entries(row ?? {}).map(([name, value]) => [name, Number(value)]));
  expect(numbers((await ask('funnel'))[0])).toEqual({
    reserved: 3,
    redeemed: 2,
    given_back: 1,
    refunded: 1,
    voided: 0,
  });
  const perMinute = (await ask('units_per_minute')).map(numbers);
  const sum = (name: string) => perMinute.reduce((all, row) => all + (row[name] ?? 0), 0);
  expect([sum('reserved'), sum('redeemed'), sum('expired')]).toEqual([3, 2, 0]);
  const [waits] = await ask('seconds_to_pay');
  expect(waits?.seconds).toEqual([expect.any(Number), expect.any(Number), expect.any(Number)]);
  expect(await ask('paid_twice')).toEqual([
    expect.objectContaining({ user_id: 'ann', payment_ref: 'pay-second', already_paid_by: 'pay-first' }),
  ]);
  const devices = await ask('devices_with_most_redemptions');
  expect(devices.map(({ redemptions, users }) => [Number(redemptions), Number(users)])).toEqual([
    [1, 1],
    [1, 1],
  ]);
}

test('the finance report names what differs between redemptions, events and the export', async () => {
  const product = await openCampaign();
  const campaign = await campaignOf(product);
  await sell(product, 'ann', 'p-ann');
  await sell(product, 'bob', 'p-bob');
  const refunded = await sell(product, 'cid', 'p-cid');
  await payments.refund(refunded);
  await until('Kafka has the events', async () => {
    const seen: string[] = [];
    for await (const event of readKafkaOnce({ ...kafka, group: `finance-${randomUUID()}` }))
      if (event.data.campaign_id === campaign) seen.push(event.type);
    return (
      seen.filter((type) => type.includes('.redeemed.')).length === 3 &&
      seen.some((type) => type.includes('.refunded.'))
    );
  });
  const directory = await mkdtemp(join(tmpdir(), 'doorbuster-finance-'));
  atEnd('the export', () => rm(directory, { recursive: true, force: true }));
  const file = join(directory, 'export.csv');
  await writeFile(file, 'payment_ref,status,amount\np-bob,paid,9.90\np-cid,paid,9.90\np-dan,paid,4.00\n');
  const report = await run(['--campaign', campaign, '--export', file]);
  const [header, ...lines] = report.stdout.trim().split('\n');
  expect(header).toBe('kind,payment_ref,redemption_id,order_id,user_id,amount,what_to_do');
  expect(lines.map((line) => line.split(',').slice(0, 2))).toEqual([
    ['missing_at_provider', 'p-ann'],
    ['missing_here', 'p-dan'],
    ['not_refunded', 'p-cid'],
  ]);
  expect(report.stderr).toContain('3 redemptions, 3 payments of the provider, ');
  expect(report.code).toBe(1);
  expect(await run([])).toMatchObject({ code: 2, stderr: expect.stringContaining('--campaign ID') });
});

/** Runs the finance report as its README says. */
function run(args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const program = join(projectRoot(), 'dist/examples/finance-report/main.js');
  const env = { ...process.env, API_URL: service.url, ADMIN_KEY: ADMIN_SECRET, KAFKA_BROKERS: broker.brokers };
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [program, ...args], { env }, (_, stdout, stderr) =>
      resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    );
  });
}
