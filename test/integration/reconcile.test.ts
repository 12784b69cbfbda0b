import { expect, test } from '@jest/globals';
import pg from 'pg';
import type { ProductId } from '../../shared/domain/ids.js';
import { newPseudonym } from '../../shared/postgres/erasures.js';
import { auditCampaign } from '../harness/audit.js';
import { atEnd } from '../harness/cleanup.js';
import { Operator, PaymentService, Shopper } from '../harness/clients.js';
import { metricsText } from '../harness/metrics.js';
import { startService } from '../harness/service.js';
import { until } from '../harness/until.js';
import { ledger, ledgerCommand } from '../harness/verdict.js';

const service = await startService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const { client: redis } = service.redis;
const { client: postgres } = service.database;
await until('it serves', async () => (await fetch(`${service.url}/readyz`)).ok);

const CLEAN = { lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] };
const key = (product: string, what: string) => `db1:{${product}}:${what}`;
const status = async (id: string) =>
  (await postgres.query('select status from redemptions where redemption_id = $1', [id])).rows[0]?.status;
const settled = () => until('the journal is written', async () => (await redis.xlen('db1:journal')) === 0);

/** A campaign of ten units of which three are held, all of it in Postgres. @returns ids of the reservations */
async function threeHeld(): Promise<{ product: string; ids: [string, string, string] }> {
  const product = await operator.openCampaign({ total_limit: 10, hold_seconds: 600, require_attestation: false });
  const answers = await Promise.all([1, 2, 3].map(() => new Shopper(service.url, product).checkout()));
  await settled();
  return { product, ids: answers.map(({ data }) => data.reservation_id) as [string, string, string] };
}

async function reconcile(product: string): Promise<Record<string, any>> {
  const answer = await operator.call('POST', `/admin/campaigns/${product}/reconcile`);
  expect(answer.status).toBe(200);
  return answer.data;
}

const logged = (product: string, message: string) =>
  until(`the worker logs: ${message}`, async () =>
    service.worker.log.some((line) => line.includes(product) && line.includes(message)),
  );

/** After a repair nothing is left: for the ledger, and in Redis itself. */
async function expectWhole(product: string): Promise<void> {
  expect(await ledger(service.env, product)).toMatchObject({ code: 0, verdict: CLEAN });
  expect(await auditCampaign(redis, product as ProductId)).toEqual([]);
}

test('Reconcile finds nothing where nothing differs', async () => {
  const { product } = await threeHeld();
  expect(await reconcile(product)).toMatchObject({
    confirmed: 3,
    persisted: 3,
    ...CLEAN,
    repaired: { written: 0, refilled: false },
  });
  await expectWhole(product);
});

test('a row that is gone from Postgres is written again from the promise in Redis', async () => {
  const { product, ids } = await threeHeld();
  await postgres.query('delete from redemptions where redemption_id = $1', [ids[1]]);
  const difference = {
    reservation: ids[1],
    side: 'redis',
    why: 'promised in Redis without a row in Postgres',
    redis: 'reserved',
    postgres: null,
  };
  const said = await ledgerCommand(service.env, product);
  expect([said.code, said.verdict.lost, said.verdict.differences[0]]).toEqual([1, 1, difference]);
  const result = await reconcile(product);
  expect(result.before).toMatchObject({ confirmed: 3, persisted: 2, lost: 1 });
  expect(result.before.differences[0]).toEqual(difference);
  expect(result).toMatchObject({ ...CLEAN, repaired: { written: 1, refilled: false } });
  expect(await status(ids[1])).toBe('reserved');
  await expectWhole(product);
});

test('a reservation that ended in Redis and is reserved in Postgres is ended there', async () => {
  const { product, ids } = await threeHeld();
  await payments.release(ids[0]);
  await settled();
  await postgres.query("update redemptions set status = 'reserved', released_at = null where redemption_id = $1", [
    ids[0],
  ]);
  const result = await reconcile(product);
  expect(result.before.differences).toContainEqual({
    reservation: ids[0],
    side: 'postgres',
    why: 'Redis and Postgres have different states',
    redis: 'released',
    postgres: 'reserved',
  });
  expect(result).toMatchObject({ ...CLEAN, repaired: { written: 1, refilled: false } });
  expect(await status(ids[0])).toBe('released');
  await expectWhole(product);
});

test('units that were given back in Redis are given back in Postgres, and the other way round Redis is filled again', async () => {
  const terms = { total_limit: 10, max_qty: 3, hold_seconds: 600, require_attestation: false };
  const product = await operator.openCampaign(terms);
  const take = async () => String((await new Shopper(service.url, product).checkout({ qty: 3 })).data.reservation_id);
  const [held, paid] = [await take(), await take()];
  await payments.confirm(paid);
  await payments.say('release', { reservation_id: held, keep: 2 });
  await payments.say('refund', { reservation_id: paid, keep: 1 });
  await settled();
  const qty = async () =>
    (
      await postgres.query(
        'select qty, released_qty, refunded_qty from redemptions where redemption_id = any($1) order by qty',
        [[held, paid]],
      )
    ).rows;
  const rows = await qty();
  await postgres.query(
    'update redemptions set qty = 3, released_qty = 0, refunded_qty = 0 where redemption_id = any($1)',
    [[held, paid]],
  );
  const result = await reconcile(product);
  const why = 'Postgres has more units of the reservation than Redis';
  expect(result.before.differences).toContainEqual({
    reservation: held,
    side: 'postgres',
    why,
    redis: '2',
    postgres: '3',
  });
  expect(result).toMatchObject({ ...CLEAN, repaired: { written: 2, refilled: false } });
  expect(await qty()).toEqual(rows);
  await expectWhole(product);

  await postgres.query('update redemptions set qty = 1, released_qty = 2 where redemption_id = $1', [held]);
  expect(await reconcile(product)).toMatchObject({ ...CLEAN, repaired: { written: 0, refilled: true } });
  expect(await operator.stats(product)).toMatchObject({ free: 8, held: 1, redeemed: 1 });
  await expectWhole(product);
});

test('rows that Redis lacks are filled in from Postgres', async () => {
  const { product, ids } = await threeHeld();
  await redis.hdel(key(product, 'reservations'), ids[2]);
  await redis.zrem(key(product, 'deadlines'), ids[2]);
  await postgres.query("update redemptions set status = 'redeemed', redeemed_at = now() where redemption_id = $1", [
    ids[0],
  ]);
  const result = await reconcile(product);
  // Two reservations, and the units held and redeemed in the counters.
  expect(result.before).toMatchObject({ lost: 0, drift: 4 });
  expect(result.before.differences).toEqual(
    expect.arrayContaining([
      {
        reservation: ids[2],
        side: 'postgres',
        why: 'a row in Postgres that is not in Redis',
        redis: null,
        postgres: 'reserved',
      },
      {
        reservation: ids[0],
        side: 'postgres',
        why: 'Redis and Postgres have different states',
        redis: 'reserved',
        postgres: 'redeemed',
      },
    ]),
  );
  expect(result).toMatchObject({ ...CLEAN, repaired: { written: 0, refilled: true } });
  await expectWhole(product);
  expect((await payments.confirm(ids[2])).data.status).toBe('redeemed');
  expect((await payments.release(ids[0])).body.code).toBe('reservation_redeemed');
});

test('counters that lie are counted again', async () => {
  const { product } = await threeHeld();
  await redis.hset(key(product, 'campaign'), { free: 6, held: 4 });
  const result = await reconcile(product);
  expect(result.before).toMatchObject({ lost: 0, drift: 1 });
  expect(result.before.differences).toEqual([
    {
      reservation: null,
      side: 'counters',
      why: 'the counter of held units in Redis differs from the rows in Postgres',
      redis: '4',
      postgres: '3',
    },
  ]);
  expect(result).toMatchObject({ ...CLEAN, repaired: { written: 0, refilled: true } });
  expect(await operator.stats(product)).toMatchObject({ free: 7, held: 3 });
  await expectWhole(product);
});

test('differences that no repair may decide are reported: in the response, the log, a metric, and one event', async () => {
  const { product, ids } = await threeHeld();
  const others = ids.slice(1);
  // Postgres refuses such rows, so its triggers must not see them.
  await postgres.query(
    `begin; set local session_replication_role = replica;
     update redemptions r set user_id = o.user_id, slot = r.slot + array_position('{${others.join()}}'::uuid[], r.redemption_id)
     from redemptions o where o.redemption_id = '${ids[0]}' and r.redemption_id = any('{${others.join()}}'); commit`,
  );
  const records = key(product, 'reservations');
  const userOf = async (id: string) => String(await redis.hget(records, id)).split('|')[1] ?? '';
  for (const id of others) {
    const record = String(await redis.hget(records, id));
    await redis.hset(records, id, record.replace(await userOf(id), await userOf(ids[0])));
  }
  const differences = others.map((reservation) => ({
    reservation,
    side: 'postgres',
    why: 'the user has more than the limit',
    redis: null,
    postgres: null,
  }));
  for (let times = 0; times < 2; times += 1) {
    const result = await reconcile(product);
    expect(result).toMatchObject({ lost: 0, duplicated: 2, repaired: { written: 0, refilled: false } });
    expect(result.differences).toEqual(expect.arrayContaining(differences));
  }
  expect((await ledger(service.env, product)).code).toBe(1);
  const reports = () =>
    service.worker.log.filter((line) => line.includes('Redis and Postgres differ') && line.includes(product));
  await until('the log has both reports', () => reports().length >= 4);
  expect(reports()).toHaveLength(4);
  const { rows } = await postgres.query(
    "select data from outbox_events where type = 'dev.doorbuster.campaign.drifted.v1' and product_id = $1",
    [product],
  );
  expect(rows.map(({ data }) => data)).toMatchObject([{ lost: 0, duplicated: 2, over_cap: 0, drift: 0 }]);
  const counted = /doorbuster_differences_total\{side="postgres"\} (\d+)/;
  await until('the metric is set', async () => {
    const text = await metricsText(service.url);
    return Number(counted.exec(text)?.[1] ?? 0) >= 4;
  });
});

test('another user of a reservation and other units of a place are differences, a pseudonym is none', async () => {
  const terms = { hold_seconds: 600, require_attestation: false, max_qty: 2, waiting_room: { enabled: true } };
  const product = await operator.openCampaign({ ...terms, total_limit: 2 });
  const inRedis = new Shopper(service.url, product);
  const first = (await new Shopper(service.url, product).checkout()).data.reservation_id;
  const second = String((await inRedis.checkout()).data.reservation_id);
  const waiting = new Shopper(service.url, product);
  await waiting.checkout({ qty: 2 });
  await settled();
  const rename = (user: string) =>
    postgres.query('update redemptions set user_id = $2 where redemption_id = $1', [first, user]);
  await rename('another-user');
  const record = String(await redis.hget(key(product, 'reservations'), second));
  await redis.hset(key(product, 'reservations'), second, record.replace(inRedis.user, 'another-user'));
  await postgres.query('update waiting_tickets set qty = 1 where user_id = $1', [waiting.user]);
  const { verdict } = await ledger(service.env, product);
  expect(verdict).toMatchObject({ lost: 0, duplicated: 0, over_cap: 0, drift: 3 });
  const why = 'Redis and Postgres have different users';
  expect(verdict.differences).toMatchObject([
    { reservation: first, why, redis: 'reserved', postgres: 'reserved' },
    { reservation: second, why },
    { redis: 'waiting, line number 1 for 2 units', postgres: 'waiting, line number 1' },
  ]);
  await rename(newPseudonym());
  expect((await ledger(service.env, product)).verdict).toMatchObject({ drift: 2 });
});

test('another order or code of a reservation, and another deadline of held units, are differences', async () => {
  const product = await operator.openCampaign({ total_limit: 4, hold_seconds: 600, require_attestation: false });
  const shoppers = Array.from({ length: 4 }, () => new Shopper(service.url, product));
  const ids: string[] = [];
  for (const shopper of shoppers) ids.push(String((await shopper.checkout()).data.reservation_id));
  await payments.confirm(String(ids[3]));
  await settled();
  const changes = ["order_id = 'another-order'", 'code_no = 7', "pay_before = pay_before + interval '1 ms'"];
  for (const [i, change] of [...changes, changes[2]].entries())
    await postgres.query(`update redemptions set ${change} where redemption_id = $1`, [ids[i]]);
  const { verdict } = await ledger(service.env, product);
  expect(verdict).toMatchObject({ lost: 0, duplicated: 0, over_cap: 0, drift: 3 });
  expect(verdict.differences).toMatchObject([
    { reservation: ids[0], why: 'Redis and Postgres have different orders', postgres: 'another-order' },
    { reservation: ids[1], why: 'Redis and Postgres have different codes', redis: null, postgres: '7' },
    { reservation: ids[2], why: 'Redis and Postgres have different deadlines' },
  ]);
});

test('places in line, statuses and totals are compared, and nothing that Postgres lacks is lost by a repair', async () => {
  const product = await operator.openCampaign({
    total_limit: 1,
    hold_seconds: 600,
    require_attestation: false,
    waiting_room: { enabled: true },
  });
  const people = Array.from({ length: 3 }, () => new Shopper(service.url, product));
  for (const shopper of people) await shopper.checkout();
  await settled();
  await expectWhole(product);
  const [, second, third] = people as [Shopper, Shopper, Shopper];
  const ticketOf = 'where user_id = $1 and campaign_id = (select campaign_id from campaigns where product_id = $2)';
  await postgres.query(`delete from waiting_tickets ${ticketOf}`, [second.user, product]);
  await postgres.query(`update waiting_tickets set status = 'left' ${ticketOf}`, [third.user, product]);
  await postgres.query("update campaigns set status = 'paused', total_limit = 3 where product_id = $1", [product]);
  const { verdict } = await ledger(service.env, product);
  const places = verdict.differences.filter(({ reservation }: { reservation: string | null }) => reservation);
  expect(places).toEqual(
    [2, 3].map((line) => ({
      reservation: expect.any(String),
      side: 'redis',
      why: 'a user waits in Redis without a place in Postgres',
      redis: `waiting, line number ${line - 1}`,
      postgres: null,
    })),
  );
  const counters = verdict.differences.filter(({ side }: { side: string }) => side === 'counters');
  expect(counters.map(({ redis, postgres: row }: Record<string, string>) => [redis, row])).toEqual([
    ['2', '0'],
    ['1', '3'],
    ['open', 'paused'],
  ]);
  expect(verdict).toMatchObject({ lost: 0, drift: 2 + 2 + 2 + 1 });
  // Filling Redis from Postgres would remove the two from the line.
  expect((await reconcile(product)).repaired).toEqual({ written: 0, refilled: false });
  expect(await redis.zcard(key(product, 'line'))).toBe(2);
  await logged(product, 'Postgres lacks a promise; run npm run reconcile -- --after-restore');
  await operator.call('POST', `/admin/campaigns/${product}/close`);
});

test('reservations are not written before the units they need', async () => {
  const { product, ids } = await threeHeld();
  expect((await operator.call('POST', `/admin/campaigns/${product}/stock`, { delta: 5 })).status).toBe(200);
  await settled();
  await postgres.query('delete from redemptions where redemption_id = $1', [ids[0]]);
  await postgres.query('update campaigns set total_limit = 2 where product_id = $1', [product]);
  const result = await reconcile(product);
  expect(result).toMatchObject({ lost: 1, repaired: { written: 0, refilled: false } });
  expect(result.differences).toContainEqual({
    reservation: null,
    side: 'counters',
    why: 'the totals of Redis and Postgres differ',
    redis: '15',
    postgres: '2',
  });
  expect(await redis.hget(key(product, 'reservations'), ids[0])).toMatch(/^reserved/);
  expect(await redis.hget(key(product, 'campaign'), 'total')).toBe('15');
  await logged(product, 'Postgres lacks a restock; run npm run reconcile -- --after-restore');
  await postgres.query('update campaigns set total_limit = 15 where product_id = $1', [product]);
  // Or the schedule has written it first.
  expect(await reconcile(product)).toMatchObject(CLEAN);
  expect(await status(ids[0])).toBe('reserved');
  await expectWhole(product);
});

test('an entry under way is no difference, however long Postgres takes', async () => {
  const { product, ids } = await threeHeld();
  const holder = new pg.Client(service.database.url);
  await holder.connect();
  atEnd('a client', () => holder.end());
  await holder.query('begin');
  await holder.query('select * from journal_cursor for update');
  const late = await new Shopper(service.url, product).checkout();
  await payments.confirm(ids[0]);
  const lag = await redis.xlen('db1:journal');
  // Its state and the counters are compared all the same, without a wait for Postgres.
  expect(await reconcile(product)).toMatchObject({ ...CLEAN, repaired: { written: 0, refilled: false } });
  await redis.hincrby(key(product, 'campaign'), 'held', 1);
  expect((await ledger(service.env, product)).verdict).toMatchObject({ lost: 0, drift: 1 });
  await redis.hincrby(key(product, 'campaign'), 'held', -1);
  expect(await redis.xlen('db1:journal')).toBe(lag);
  expect(service.worker.log.filter((line) => line.includes(late.data.reservation_id))).toEqual([]);
  await holder.query('rollback');
  await settled();
  await expectWhole(product);
});

test('the ledger finds nothing in the middle of a sale', async () => {
  const terms = { total_limit: 30, hold_seconds: 600, per_user_limit: 1, require_attestation: false };
  const product = await operator.openCampaign({ ...terms, max_qty: 2, waiting_room: { enabled: true } });
  let isOver = false;
  const shop = async (nth: number) => {
    for (let times = nth; !isOver; times += 1) {
      const shopper = new Shopper(service.url, product);
      const { data } = await shopper.checkout({ qty: 1 + (times % 2) });
      const id = String(data?.reservation_id);
      // Places in line are not found here, and end when the line is served.
      if (times % 3 > 0) await payments.confirm(id);
      if (times % 3 > 0) await payments.say('refund', { reservation_id: id });
      else await payments.release(id);
    }
  };
  const shoppers = Promise.all([0, 1, 2, 3, 4, 5].map(shop));
  const verdicts: Awaited<ReturnType<typeof ledgerCommand>>[] = [];
  for (let times = 0; times < 5; times += 1) verdicts.push(await ledgerCommand(service.env, product));
  isOver = true;
  await shoppers;
  expect(verdicts.at(-1)?.verdict.confirmed - verdicts[0]?.verdict.confirmed).toBeGreaterThan(20);
  for (const verdict of verdicts) expect(verdict).toMatchObject({ code: 0, verdict: CLEAN });
  await expectWhole(product);
});

test('the ledger says when it cannot compare', async () => {
  expect(await ledgerCommand(service.env, 'no-such-product')).toMatchObject({ code: 2, verdict: {} });
  const away = { ...service.env, DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' };
  expect((await ledgerCommand(away, 'no-such-product')).code).toBe(2);
});

test('an archived campaign goes on with the rows that are left in Postgres, when an operator asks for that', async () => {
  const { product, ids } = await threeHeld();
  for (const id of ids) await payments.confirm(id);
  await operator.call('POST', `/admin/campaigns/${product}/close`);
  await settled();
  await redis.hset(key(product, 'campaign'), 'closed_at', 1);
  await until('it is archived', async () => (await redis.hget(key(product, 'campaign'), 'archived')) !== null);
  await postgres.query('delete from redemptions where redemption_id = $1', [ids[0]]);
  await redis.hset(key(product, 'campaign'), 'archived', 'lost');
  await postgres.query('update campaigns set records_lost_at = now() where product_id = $1', [product]);
  expect((await payments.refund(ids[1])).status).toBe(503);

  const result = await reconcile(product);
  expect(result).toMatchObject({ ...CLEAN, before: { lost: 1 }, repaired: { written: 0, refilled: true } });
  expect((await payments.refund(ids[1])).data.status).toBe('refunded');
  expect(await payments.refund(ids[0])).toMatchObject({ status: 404 });
  await settled();
  expect(await ledger(service.env, product)).toMatchObject({ code: 0, verdict: CLEAN });
});

test('it does so too when Redis was filled since with the rows that are left, so that nothing differs', async () => {
  const { product, ids } = await threeHeld();
  for (const id of ids) await payments.confirm(id);
  await operator.call('POST', `/admin/campaigns/${product}/close`);
  await settled();
  await postgres.query('update campaigns set records_lost_at = now() where product_id = $1', [product]);
  await redis.hset(key(product, 'campaign'), 'closed_at', 1);
  await until('it is archived', async () => (await redis.hget(key(product, 'campaign'), 'archived')) !== null);
  await redis.hset(key(product, 'campaign'), 'archived', 'lost');

  expect(await reconcile(product)).toMatchObject({ ...CLEAN, repaired: { written: 0, refilled: true } });
  expect((await payments.refund(ids[1])).data.status).toBe('refunded');
  const { rows } = await postgres.query('select records_lost_at from campaigns where product_id = $1', [product]);
  expect(rows).toEqual([{ records_lost_at: null }]);
});
