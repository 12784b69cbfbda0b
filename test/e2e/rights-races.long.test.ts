import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { expectProblem } from '../harness/checks.js';
import { Operator, PaymentService, send } from '../harness/clients.js';
import { askToErase, type ErasureData, erase as eraseUser } from '../harness/erasure.js';
import { startService } from '../harness/service.js';
import { arrive, forEachAtMost } from '../harness/shoppers.js';
import { keptWith, keysWith, tablesWith } from '../harness/stored-text.js';
import { until } from '../harness/until.js';
import { ledger } from '../harness/verdict.js';

/** Erasures of users who act meanwhile, and erasures that are interrupted. */
const service = await startService({
  CHECKOUTS_PER_MINUTE_PER_ADDRESS: '1000000',
  TOKENS_PER_MINUTE: '1000000',
  FREE_TOKENS_PER_MINUTE: '1000000',
});
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const { client: sql } = service.database;
const redis = service.redis.client;
const erase = (user: string, orWaits = false) => eraseUser(operator, user, orWaits);
const written = (id: string) =>
  until('the reservation is written', async () => {
    const { data } = await operator.call('GET', `/admin/redemptions?reservation_id=${id}`);
    return data[0]?.written === true && data[0];
  });

/** A user with a paid unit of a campaign that allows one. */
async function paid(product: string) {
  const user = `buyer-${randomUUID()}`;
  const id = String((await arrive(service.url, product, user).checkout()).data.reservation_id);
  expect((await payments.confirm(id, `pay-${randomUUID()}`)).status).toBe(200);
  await written(id);
  return { user, id };
}

/** An erasure that cannot change the row of a reservation in time. */
async function interrupt(user: string, id: string): Promise<void> {
  await sql.query('begin');
  await sql.query('select 1 from redemptions where redemption_id = $1 for update', [id]);
  await askToErase(operator, user);
  await until('the run has given up', async () =>
    service.worker.log.some((line) => line.includes('a user could not be erased')),
  );
  await sql.query('rollback');
}

/** Keys of Redis that have the user, but for those of idempotency, which expire. */
const recordsOf = async (user: string) => (await keysWith(redis, user)).filter((key) => !/^db1:[ir]:/.test(key));

async function expectClean(product: string): Promise<void> {
  const { verdict } = await ledger(service.env, product);
  expect(verdict).toMatchObject({ lost: 0, duplicated: 0, over_cap: 0, drift: 0, voided: 0, differences: [] });
}

test('a user who buys during the erasure keeps the unit', async () => {
  const product = await operator.openCampaign({ total_limit: 500, hold_seconds: 900 });
  let kept = 0;
  await forEachAtMost(
    4,
    Array.from({ length: 24 }, (_, i) => i),
    async () => {
      const { user } = await paid(product);
      let erased: ErasureData | null = null;
      const erasing = erase(user, true).then((data) => {
        erased = data;
      });
      while (erased === null) {
        const { status, data } = await arrive(service.url, product, user).checkout();
        if (status !== 200) continue;
        kept += 1;
        expect((await written(data.reservation_id)).status).toBe('reserved');
        break;
      }
      await erasing;
    },
  );
  expect(kept).toBeGreaterThan(0);
  await expectClean(product);
});

test('an interrupted erasure frees no allowance before its row, and goes on under one pseudonym', async () => {
  const product = await operator.openCampaign({ total_limit: 9, hold_seconds: 900 });
  const { user, id } = await paid(product);
  await interrupt(user, id);
  expectProblem(await arrive(service.url, product, user).checkout(), 409, 'already_redeemed');
  const other = await operator.openCampaign({ total_limit: 9, hold_seconds: 900 });
  const held = String((await arrive(service.url, other, user).checkout()).data.reservation_id);
  await payments.release(held);
  await erase(user);
  const { user_id: pseudonym } = await written(id);
  expect(pseudonym).toMatch(/^erased-/);
  expect(await recordsOf(user)).toEqual([]);
  expect(await recordsOf(pseudonym)).not.toEqual([]);
  await expectClean(product);
  await expectClean(other);
});

test('an erasure that stopped between Postgres and Redis is completed by the next call', async () => {
  const product = await operator.openCampaign({ total_limit: 9, hold_seconds: 900 });
  const { user, id } = await paid(product);
  const pseudonym = `erased-${randomUUID()}`;
  await sql.query(
    `insert into erasures (erasure_id, user_id, pseudonym, actor, rows) values (gen_random_uuid(), $1, $2, 'tester', '{"redemptions": 1}')`,
    [user, pseudonym],
  );
  await sql.query(
    `update redemptions set user_id = $2, device_fp = null, idempotency_key = null, idempotency_answer = null
     where redemption_id = $1`,
    [id, pseudonym],
  );
  await erase(user);
  expect(await recordsOf(user)).toEqual([]);
  expect(await recordsOf(pseudonym)).not.toEqual([]);
  expect(await tablesWith(sql, user)).toEqual({});
  await expectClean(product);
});

test('an interrupted erasure is completed also in campaigns to which the user has not come back', async () => {
  const [stopped, back] = [
    await operator.openCampaign({ total_limit: 9 }),
    await operator.openCampaign({ total_limit: 9 }),
  ];
  const user = `buyer-${randomUUID()}`;
  const pseudonym = `erased-${randomUUID()}`;
  const buy = async (product: string) => {
    const id = String((await arrive(service.url, product, user).checkout()).data.reservation_id);
    await written(id);
    return id;
  };
  const [id] = [await buy(stopped), await buy(back)];
  await sql.query(
    `insert into erasures (erasure_id, user_id, pseudonym, actor, rows) values (gen_random_uuid(), $1, $2, 'tester', '{"redemptions": 1}')`,
    [user, pseudonym],
  );
  await sql.query(
    `update redemptions set user_id = $2, device_fp = null, idempotency_key = null, idempotency_answer = null
     where redemption_id = $1`,
    [id, pseudonym],
  );
  const people = `db1:{${back}}:people`;
  await redis.hset(people, pseudonym, String(await redis.hget(people, user)));
  await erase(user);
  expect(await recordsOf(user)).toEqual([]);
  expect((await recordsOf(pseudonym)).sort()).toContain(`db1:{${stopped}}:people`);
});

test('attempts that the API has not written yet do not bring the id back', async () => {
  const user = `visitor-${randomUUID()}`;
  const json = { code: 'NO-SUCH-CODE', user_id: user };
  await send(`${service.url}/coupons/validate`, { method: 'POST', json });
  expect((await erase(user)).rows.redemption_attempts).toBe(1);
  expect(await tablesWith(sql, user)).toEqual({});
});

test('an erasure among traffic loses and doubles nothing', async () => {
  const product = await operator.openCampaign({
    total_limit: 24,
    hold_seconds: 900,
    waiting_room: { enabled: true },
  });
  const shoppers = Array.from({ length: 48 }, () => arrive(service.url, product));
  const gone: string[] = [];
  await forEachAtMost(8, shoppers, async (shopper) => {
    const { data, status } = await shopper.checkout();
    if (status !== 200) return;
    const id = String(data.reservation_id);
    await (gone.length % 3 === 0 ? payments.release(id) : payments.confirm(id));
    await askToErase(operator, shopper.user);
    gone.push(shopper.user);
  });
  expect(gone.length).toBeGreaterThan(8);
  await until(
    'all are erased',
    async () => {
      const { rows } = await sql.query('select 1 from erasures where user_id = any($1)', [gone]);
      return rows.length === 0;
    },
    120_000,
  );
  await expectClean(product);
  const stats = await operator.stats(product);
  expect(stats.free + stats.held + stats.redeemed + stats.burned).toBe(24);
  for (const user of gone)
    expect([user, await tablesWith(sql, user), await keptWith(redis, user)]).toEqual([user, {}, []]);
});
