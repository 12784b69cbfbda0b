import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { userExport } from '../../api/support/rights.contract.js';
import { expectProblem } from '../harness/checks.js';
import { Operator, PaymentService, type Shopper, send } from '../harness/clients.js';
import { askToErase, erase as eraseUser, erasureOf } from '../harness/erasure.js';
import { startService } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { keptWith, keysWith, tablesWith } from '../harness/stored-text.js';
import { until } from '../harness/until.js';
import { ledger } from '../harness/verdict.js';

const DEADLOCK = '40P01';

/** Export and erasure of a user. */
const service = await startService({ LOG_LEVEL: 'info' });
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const { client: redis } = service.redis;
const { client: sql } = service.database;
const CLEAN = { lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] };

const erase = (user: string) => eraseUser(operator, user);
/** Returns the export of a user, after it was compared with its schema. */
async function exported(user: string) {
  const all = JSON.parse((await operator.call('GET', `/admin/users/${user}/export`)).text);
  const { error } = userExport.strict().safeParse(all);
  expect(error?.issues ?? []).toEqual([]);
  return all;
}
const written = (id: string) =>
  until('it is written', async () => {
    const { data } = await operator.call('GET', `/admin/redemptions?reservation_id=${id}`);
    return data[0]?.written === true && data[0];
  });
const keptOf = (text: string) => keptWith(redis, text);
const clean = async (product: string) =>
  expect(await ledger(service.env, product)).toMatchObject({ code: 0, verdict: CLEAN });

async function buy(shopper: Shopper, fields: Record<string, unknown> = {}): Promise<string> {
  const { data, status } = await shopper.checkout(fields);
  expect(status).toBe(200);
  expect((await payments.confirm(String(data.reservation_id), `pay-${randomUUID()}`)).status).toBe(200);
  return String(data.reservation_id);
}

/** A user with rows in every table: bought, released, left a line, was banned, tried a code, in a closed sale too. */
async function livedUser() {
  const user = `gone-${randomUUID()}`;
  const product = await operator.openCampaign({
    total_limit: 3,
    hold_seconds: 900,
    per_user_limit: 2,
    waiting_room: { enabled: true },
  });
  const shopper = arrive(service.url, product, user);
  const bought = await buy(shopper);
  const released = String((await shopper.checkout()).data.reservation_id);
  await operator.call('POST', `/admin/reservations/${released}/release`, { reason: `asked by ${user}` });
  const full = await operator.openCampaign({ total_limit: 1, hold_seconds: 900, waiting_room: { enabled: true } });
  await arrive(service.url, full).checkout();
  const waiting = arrive(service.url, full, user);
  expect((await waiting.checkout()).status).toBe(202);
  // A second key of a waiting user makes a record of its own.
  await waiting.checkout();
  await waiting.leave();
  const over = await operator.openCampaign({ total_limit: 5, hold_seconds: 900 });
  const last = await buy(arrive(service.url, over, user));
  await operator.call('POST', `/admin/campaigns/${over}/close`);
  await redis.hset(`db1:{${over}}:campaign`, 'closed_at', Date.now() - 60_000);
  await until('it is archived', async () => (await redis.hget(`db1:{${over}}:campaign`, 'forgotten')) === 'done');
  // Recalled into Redis.
  await arrive(service.url, over, user).queueStatus();
  await send(`${service.url}/coupons/validate`, { method: 'POST', json: { code: 'NO-SUCH-CODE', user_id: user } });
  const ban = await operator.call('POST', '/admin/bans', { kind: 'user', subject: user, reason: `${user} cheats` });
  expect(ban.status).toBe(201);
  for (const id of [bought, released, last]) await written(id);
  await until('the attempt is written', async () => (await tablesWith(sql, user)).redemption_attempts);
  return { user, shopper, product, full, over, bought, released, last };
}

describe('the erasure of a user', () => {
  test('leaves their id nowhere, also after Redis was lost, and every ledger clean', async () => {
    const lived = await livedUser();
    const { user, shopper, product, full, over, bought, released, last } = lived;
    expect(Object.keys(await tablesWith(sql, user))).toEqual(
      expect.arrayContaining(['redemptions', 'waiting_tickets', 'remembered_answers', 'audit_log', 'bans']),
    );
    const erased = await erase(user);
    expect(erased).toMatchObject({ waits_for: [], rows: { redemptions: 3, waiting_tickets: 1, bans: 1 } });
    expect(erased.rows.event_stream).toBeGreaterThanOrEqual(5);
    expect(await tablesWith(sql, user)).toEqual({});
    expect(await tablesWith(sql, shopper.device)).toEqual({});
    expect(await keptOf(user)).toEqual([]);
    for (const one of [product, full, over]) await clean(one);

    // The unit, the limit and the payment of the unknown user are as before.
    const row = await written(bought);
    expect(row).toMatchObject({ status: 'redeemed', user_id: expect.stringMatching(/^erased-/) });
    expect((await operator.stats(product)).redeemed).toBe(1);
    expect((await payments.refund(last)).data).toMatchObject({ status: 'refunded' });
    expect((await payments.release(bought)).body.code).toBe('reservation_redeemed');
    await written(last);

    await redis.flushall();
    await until('Redis is refilled', async () => (await operator.stats(product)).redeemed === 1);
    expect(await keysWith(redis, user)).toEqual([]);
    expect(await keysWith(redis, row.user_id)).not.toEqual([]);
    for (const one of [product, full, over]) await clean(one);
    expect((await payments.refund(bought)).data).toMatchObject({ status: 'refunded' });
    await clean(product);

    const told = await sql.query<{ data: { reservation_ids: string[] } }>(
      `select data from outbox_events where type = 'dev.doorbuster.user.erased.v1' and data ->> 'pseudonym' = $1`,
      [row.user_id],
    );
    const named = told.rows.map(({ data }) => data.reservation_ids.toSorted()).sort();
    expect(named).toEqual([[bought, released].sort(), [last]].sort());

    const { rows: audit } = await sql.query(`select actor, after from audit_log where action = 'user.erase'`);
    expect(audit).toEqual([{ actor: 'tester', after: { erasure_id: erased.erasure_id, rows: erased.rows } }]);
    expect((await erase(user)).rows).toEqual({});
  });

  test('removes free texts of its events and of entries that Postgres refused, and no event of another user', async () => {
    const user = `gone-${randomUUID()}`;
    const product = await operator.openCampaign({ total_limit: 9, max_qty: 4, hold_seconds: 900 });
    const id = String((await arrive(service.url, product, user).checkout({ qty: 3 })).data.reservation_id);
    const kept = { reason: 'asked by Mary Miller', keep: 1 };
    expect((await operator.call('POST', `/admin/reservations/${id}/release`, kept)).status).toBe(200);
    expect((await payments.confirm(id, `pay-${id}`)).status).toBe(200);
    const other = await buy(arrive(service.url, product), { metadata: { user_id: user } });
    const refused = { kind: 'reserved', user, key: 'k', reason: 'Mary Miller', metadata: '{"phone":"Mary Miller"}' };
    await sql.query(`insert into journal_rejects (journal_id, fields, reason) values ('1-1', $1, 'test')`, [refused]);
    await sql.query(`insert into code_staging values (gen_random_uuid(), 1, 'UPLOADED', $1)`, [user]);
    for (const one of [id, other]) await written(one);
    const inStream = async (subject: string) => {
      const entries = await redis.xrange('db1:events', '-', '+');
      return entries.some(([, fields]) => fields.some((text) => text.includes(`"subject":"${subject}"`)));
    };
    await until('their events are published', async () => (await inStream(id)) && (await inStream(other)));
    expect((await erase(user)).rows).toMatchObject({ journal_rejects: 1, code_staging: 1 });
    expect(await tablesWith(sql, 'Mary Miller')).toEqual({});
    expect([await inStream(id), await inStream(other)]).toEqual([false, true]);
    // The metadata of the other user stay theirs.
    expect(Object.keys(await tablesWith(sql, user))).toEqual(['redemptions']);
    await clean(product);
  });

  test('finds a user whose only reservation Postgres refused', async () => {
    const user = `gone-${randomUUID()}`;
    const product = await operator.openCampaign({ total_limit: 9, hold_seconds: 900 });
    await sql.query(`create function refuse() returns trigger language plpgsql as $$ begin
      if new.user_id = '${user}' then raise exception 'no' using errcode = 'check_violation'; end if; return new; end $$`);
    await sql.query('create trigger refuse before insert on redemptions for each row execute function refuse()');
    expect((await arrive(service.url, product, user).checkout()).status).toBe(200);
    await until('it is refused', async () => (await tablesWith(sql, user)).journal_rejects === 1);
    // The worker locks the tables in another order.
    await until('the trigger is gone', () =>
      sql.query('drop trigger refuse on redemptions').then(
        () => true,
        (error) => error.code !== DEADLOCK && Promise.reject(error),
      ),
    );
    expect(await keptOf(user)).not.toEqual([]);
    // An entry that cannot be read may name no reservation.
    const strange = { user, reservation: '-'.repeat(36) };
    await sql.query("insert into journal_rejects (journal_id, fields, reason) values ('99-1', $1, 'strange')", [
      strange,
    ]);
    await erase(user);
    expect(await tablesWith(sql, user)).toEqual({});
    expect(await keptOf(user)).toEqual([]);
  });

  test('waits while the user waits or holds an unpaid unit, and changes nothing before', async () => {
    const user = `busy-${randomUUID()}`;
    const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900, waiting_room: { enabled: true } });
    const sold = await operator.openCampaign({ total_limit: 9, hold_seconds: 900 });
    await written(await buy(arrive(service.url, sold, user)));
    const held = String((await arrive(service.url, product, user).checkout()).data.reservation_id);
    await written(held);
    const id = await askToErase(operator, user);
    expect(await askToErase(operator, user)).toBe(id);
    const waits = { erasure_id: id, status: 'waiting', waits_for: [{ product_id: product, state: 'held' }], rows: {} };
    expect(await erasureOf(operator, id)).toEqual(waits);

    const other = arrive(service.url, product);
    await other.checkout();
    const inLine = await eraseUser(operator, other.user, true);
    expect(inLine.waits_for).toEqual([{ product_id: product, state: 'waiting' }]);
    // Others are erased meanwhile.
    const third = arrive(service.url, sold);
    await written(await buy(third));
    await erase(third.user);
    expect(await erasureOf(operator, id)).toEqual(waits);
    expect((await exported(user)).redemptions).toHaveLength(2);

    const moved = { user_id: other.user };
    expect((await operator.call('POST', `/admin/campaigns/${product}/line/remove`, moved)).status).toBe(200);
    await payments.release(held);
    const done = async (one: string) => (await erasureOf(operator, one)).status === 'done';
    await until('both are erased', async () => (await done(id)) && (await done(inLine.erasure_id)));
    expect((await erasureOf(operator, id)).rows).toMatchObject({ redemptions: 2 });
    for (const gone of [user, other.user]) expect(await keptOf(gone)).toEqual([]);
    // What a process has logged stays, so no user is in it.
    const logged = [...service.api.log, ...service.worker.log];
    expect(logged.filter((line) => line.includes('line.remove'))).toHaveLength(1);
    expect(logged.filter((line) => line.includes(user) || line.includes(other.user))).toEqual([]);
    await clean(product);
    await clean(sold);
  });

  test('waits until the campaigns of which the user has a unit are closed, unless the operator decides otherwise', async () => {
    const product = await operator.openCampaign({ total_limit: 9, hold_seconds: 900 });
    const [first, second] = [arrive(service.url, product), arrive(service.url, product)];
    for (const one of [first, second]) await written(await buy(one));
    const id = await askToErase(operator, first.user, false);
    const waits = { status: 'waiting', waits_for: [{ product_id: product, state: 'open' }], rows: {} };
    expect(await erasureOf(operator, id)).toMatchObject(waits);
    // The allowance stays taken.
    const fresh = arrive(service.url, product, first.user);
    expect((await fresh.checkout({ idempotency_key: randomUUID() })).body.code).toBe('already_redeemed');
    const other = await askToErase(operator, second.user, false);
    expect(await askToErase(operator, second.user, true)).toBe(other);
    const done = async (one: string) => (await erasureOf(operator, one)).status === 'done';
    await until('one of them is erased', () => done(other));
    expect(await erasureOf(operator, id)).toMatchObject(waits);
    expect((await operator.call('POST', `/admin/campaigns/${product}/close`)).status).toBe(200);
    await until('nothing is waited for', async () => (await erasureOf(operator, id)).waits_for.length === 0);
    expect(await tablesWith(sql, second.user)).toEqual({});
    await clean(product);
  });

  test('is in the audit log when it is asked for, by each operator, and keeps the first one', async () => {
    const key = { name: `second-${randomUUID().slice(0, 8)}`, kind: 'admin', role: 'admin' };
    const { secret } = (await operator.call('POST', '/admin/keys', key)).data;
    const product = await operator.openCampaign({ total_limit: 9, hold_seconds: 900 });
    const shopper = arrive(service.url, product);
    const held = String((await shopper.checkout()).data.reservation_id);
    await written(held);
    const id = await askToErase(operator, shopper.user);
    const again = await send(`${service.url}/admin/users/${shopper.user}`, {
      method: 'DELETE',
      headers: { authorization: `Bearer ${secret}` },
    });
    expect([again.status, again.data.erasure_id]).toEqual([202, id]);
    const entries = async (action: string) => {
      const { data } = await operator.call('GET', `/admin/audit?action=${action}`);
      const found = data as { actor: string; action: string; after: Record<string, unknown>; request_id: string }[];
      return found
        .filter(({ after }) => after.erasure_id === id)
        .map(({ actor, action, after, request_id }) => [actor, action, after.unchanged ?? false, request_id]);
    };
    const asked = [
      [key.name, 'user.erase.request', true, expect.any(String)],
      ['tester', 'user.erase.request', false, expect.any(String)],
    ];
    expect(await entries('user.erase.request')).toEqual(asked);
    expect(JSON.stringify((await operator.call('GET', '/admin/audit?action=user.')).data)).not.toContain(shopper.user);
    await payments.release(held);
    await until('it is done', async () => (await erasureOf(operator, id)).status === 'done');
    expect(await entries('user.')).toEqual([['tester', 'user.erase', false, id], ...asked]);
    expect(await tablesWith(sql, shopper.user)).toEqual({});
  });

  test('needs an operator and an id, and is found by its own id alone', async () => {
    const path = `${service.url}/admin/users/ann`;
    expectProblem(await send(path, { method: 'DELETE' }), 401, 'unauthorized');
    expectProblem(await operator.call('DELETE', `/admin/users/${'a'.repeat(500)}`), 400, 'invalid_request');
    expectProblem(await operator.call('DELETE', '/admin/users/ann?in_open_campaigns=yes'), 400, 'invalid_request');
    expectProblem(await operator.call('GET', `/admin/erasures/${randomUUID()}`), 404, 'erasure_not_found');
    expectProblem(await operator.call('GET', '/admin/erasures/ann'), 400, 'invalid_request');
    expectProblem(await send(`${path}/export`), 401, 'unauthorized');
    expectProblem(await payments.say('confirm', {}), 400, 'invalid_request');
  });

  test('lets a user who comes back begin anew, and erases them again', async () => {
    const user = `back-${randomUUID()}`;
    const product = await operator.openCampaign({ total_limit: 9, hold_seconds: 900 });
    const ids: string[] = [];
    for (let visit = 0; visit < 2; visit += 1) {
      ids.push(await buy(arrive(service.url, product, user)));
      await written(String(ids.at(-1)));
      expect((await erase(user)).rows).toMatchObject({ redemptions: 1 });
    }
    const users = await Promise.all(ids.map(async (id) => (await written(id)).user_id));
    expect(new Set(users).size).toBe(2);
    expect(await tablesWith(sql, user)).toEqual({});
    await clean(product);
  });
});

describe('the export of a user', () => {
  test('has every row, what only Redis has, and nothing of others', async () => {
    const { user, bought, released, last, product } = await livedUser();
    const other = arrive(service.url, product);
    await other.checkout();
    const all = await exported(user);
    const ids = (rows: Record<string, string>[]) => rows.map(({ redemption_id }) => redemption_id).sort();
    expect(ids(all.redemptions)).toEqual([bought, released, last].sort());
    expect(all.redemptions.find((row: Record<string, string>) => row.redemption_id === bought)).toMatchObject({
      product_id: product,
      user_id: user,
      status: 'redeemed',
    });
    expect(all.waiting_tickets).toMatchObject([{ status: 'left', user_id: user }]);
    expect(all.idempotency_records.length).toBeGreaterThan(0);
    expect(all.attempts.length).toBeGreaterThan(0);
    expect(all.bans).toMatchObject([{ subject: user }]);
    expect(all.actions.map(({ action }: { action: string }) => action).sort()).toEqual([
      'ban.create',
      'reservation.release',
      'user.export',
    ]);
    expect(all.events.length).toBeGreaterThanOrEqual(5);
    expect(JSON.stringify(all)).not.toContain(other.user);

    await service.worker.stop();
    const { data } = await arrive(service.url, product, other.user).checkout();
    const { live, redemptions } = await exported(other.user);
    expect(live.reservations).toMatchObject([{ reservation_id: data.reservation_id, product_id: product, qty: 1 }]);
    expect(ids(redemptions)).not.toContain(data.reservation_id);
  });

  test('of an unknown user has empty lists', async () => {
    const answer = await operator.call('GET', '/admin/users/nobody-knows/export');
    expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8');
    const { user_id, exported_at, live, actions, ...lists } = JSON.parse(answer.text);
    expect([user_id, live]).toEqual(['nobody-knows', { complete: true, reservations: [], places: [] }]);
    expect(Object.values(lists).every((list) => Array.isArray(list) && list.length === 0)).toBe(true);
    // The export itself, which is in the audit log.
    expect(actions).toMatchObject([{ action: 'user.export', actor: 'tester', after: { user_id } }]);
    expect(Date.parse(exported_at)).toBeGreaterThan(0);
  });
});
