import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { campaignKeys, keys } from '../../shared/redis/keys.js';
import { expectProblem } from '../harness/checks.js';
import { type Answer, Operator, PaymentService, Shopper, sendOnce } from '../harness/clients.js';
import { SERVICE_SECRET } from '../harness/service.js';
import { until } from '../harness/until.js';
import { ledger, verdictAtRest } from '../harness/verdict.js';
import { copyFolder, Stage } from './stage.js';

const stage = await Stage.set();
const folder = join(stage.folder, 'postgres');
const backup = join(stage.folder, 'backup');

/** Runs the command as an operator does. @param killAfterMs null = it may end by itself */
async function reconcile(
  args: string[],
  killAfterMs: number | null = null,
): Promise<{ code: number | null; out: string }> {
  const main = join(projectRoot(), 'dist/commands/reconcile.js');
  const child = spawn(process.execPath, [main, '--after-restore', ...args], {
    env: stage.env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let out = '';
  for (const output of [child.stdout, child.stderr]) output.on('data', (chunk) => (out += String(chunk)));
  if (killAfterMs !== null) setTimeout(() => child.kill('SIGKILL'), killAfterMs);
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, out };
}

const redeemOnce = (url: string, code: string, user: string) =>
  sendOnce(`${url}/coupons/redeem`, {
    method: 'POST',
    headers: { 'idempotency-key': `key-of-${user}` },
    json: { code, user_id: user, order_id: `order-of-${user}` },
  });

/** What /readyz says of the journal. */
async function journalCheck(): Promise<string> {
  const { body } = await sendOnce(`${stage.url}/readyz`);
  return body.data.checks.journal.detail;
}

/** The first answer for which an engine is not away. */
async function answered(ask: () => Promise<Answer>): Promise<Answer> {
  let answer: Answer | null = null;
  await until('it is answered', async () => {
    answer = await ask().catch(() => null);
    return answer !== null && answer.status !== 503;
  });
  return answer as unknown as Answer;
}

test('a Postgres whose data directory was set back is made whole while the sale goes on', async () => {
  const operator = new Operator(stage.url);
  const payments = new PaymentService(stage.url);
  const product = await stage.openCampaign({
    total_limit: 1_000_000,
    hold_seconds: 600,
    waiting_room: { enabled: true },
  });
  const small = await stage.openCampaign({ total_limit: 3, hold_seconds: 600, waiting_room: { enabled: true } });
  const buy = async (count: number) => {
    const answers = [];
    while (answers.length < count) {
      const { status, data } = await new Shopper(stage.url, small).checkout();
      // A busy machine may reject a checkout with 503.
      if (status < 300) answers.push(data);
    }
    return answers.map(({ reservation_id, status }) => ({ id: String(reservation_id), status }));
  };
  const crowd = stage.crowd(product, 50);
  crowd.start();
  await buy(3);
  const committed = async () => (await stage.query('select last_id from journal_cursor'))[0]?.last_id;
  await until('the sale runs', () => crowd.completed.length >= 100);
  await stage.withoutPostgres(() => copyFolder(folder, backup));
  const at = await committed();
  const once = { 'idempotency-key': 'four-more-of-the-small' };
  const restock = () => operator.call('POST', `/admin/campaigns/${small}/stock`, { delta: 4 }, once);
  await until('Postgres is back', async () => (await restock()).status === 200);
  const sold = await buy(7);
  expect(sold.map(({ status }) => status)).toEqual([...Array(4).fill('completed'), ...Array(3).fill('queued')]);
  for (const { id } of sold.slice(0, 2)) {
    await until('it is paid', async () => (await payments.confirm(id)).status === 200);
  }
  const sales = crowd.completed.length;
  await until('the sale goes on', () => crowd.completed.length >= sales + 100);
  await until('Postgres has it', async () => (await committed()) !== at);
  await until('the payments are written', async () => {
    const rows = await stage.query("select 1 from redemptions where status = 'redeemed'");
    return rows.length >= 2;
  });
  await stage.withoutPostgres(() => copyFolder(backup, folder));
  const met = crowd.completed.length;
  await until('people buy while Postgres lacks the past', () => crowd.completed.length >= met + 50);
  await until('/readyz says so', async () => (await journalCheck()).includes('Postgres was set back'));

  const dry = await reconcile(['--dry-run']);
  expect(dry.out).toContain(`campaign ${small}`);
  expect(dry.out).toContain('total: 7 in Redis, 3 in Postgres');
  expect(dry.out).toContain('places in line missing in Postgres: 3');
  expect(dry.out).toContain('Dry run: nothing was written.');
  expect(dry.code).toBe(1);
  for (const ms of [150, 300, 500, 700]) await reconcile([], ms);
  const written = await reconcile([]);
  expect(written.out).toContain(`ok     ${small}`);
  expect(written.out).toContain(`ok     ${product}`);
  expect(written.code).toBe(0);
  expect((await reconcile(['--dry-run'])).out).toContain('Postgres lacks nothing');
  await until('/readyz says it no longer', async () => !(await journalCheck()).includes('set back'));
  await crowd.finish();
  // Not how fast the crowd was served, since the command and three engines share the machine with it.
  const { verdict } = await ledger(stage.env, product);
  expect(verdict).toMatchObject({ lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] });
  const rows = await stage.query<{ id: string }>('select redemption_id as id from redemptions');
  const saved = new Set(rows.map(({ id }) => id));
  expect(crowd.completed.filter(({ body }) => !saved.has(body.data.reservation_id))).toEqual([]);
  expect(await stage.query("select redemption_id from redemptions where status = 'voided'")).toEqual([]);
  const paid = await stage.query<{ id: string }>(
    "select redemption_id as id from redemptions where status = 'redeemed' order by redemption_id",
  );
  expect(paid.map(({ id }) => id)).toEqual(sold.slice(0, 2).map(({ id }) => id));
});

test('a campaign that Postgres lost still sells, and operators get 503 about it until the repair', async () => {
  const operator = new Operator(stage.url);
  const unknown = 'no-such-campaign';
  await stage.withoutPostgres(() => copyFolder(folder, backup));
  const opened = async () => {
    try {
      return await stage.openCampaign({ total_limit: 5, hold_seconds: 600 });
    } catch {
      return null;
    }
  };
  let product = '';
  await until('a campaign is opened', async () => {
    product = (await opened()) ?? '';
    return product !== '';
  });
  const restock = () => operator.call('POST', `/admin/campaigns/${product}/stock`, { delta: 1 });
  const read = (name: string) => operator.call('GET', `/admin/campaigns/${name}`);
  await stage.withoutPostgres(() => copyFolder(backup, folder));
  await until('Postgres is back', async () => (await read(unknown)).status === 404);
  for (const answer of [await read(product), await restock()]) expectProblem(answer, 503, 'temporarily_unavailable');
  // Neither the product nor the number of the lost campaign is used again.
  const create = (product_id: string) =>
    operator.call('POST', '/admin/campaigns', { product_id, total_limit: 1, require_attestation: false });
  expectProblem(await create(product), 503, 'temporarily_unavailable');
  await until('another campaign is created', async () => (await create('another')).status === 201);
  await until('it sells', async () => (await new Shopper(stage.url, product).checkout()).status === 200);
  expect((await new Shopper(stage.url, 'another').checkout()).status).toBe(200);
  const { out, code } = await reconcile([]);
  expect([code, out]).toEqual([0, expect.stringContaining(`ok     ${product}`)]);
  const numbers = await stage.query('select distinct no from campaigns where product_id = any($1)', [
    [product, 'another'],
  ]);
  expect(numbers).toHaveLength(2);
  expect((await read(product)).status).toBe(200);
  expect((await restock()).data).toMatchObject({ product_id: product, total_limit: 6 });
});

/** Opens a campaign with a shared code, as soon as Postgres is back. */
const openWithCode = (code: string): Promise<string> =>
  until('a campaign is opened', () =>
    stage.openCampaign({ total_limit: 50, type: 'shared', code, hold_seconds: 600 }).catch(() => ''),
  );

test('a code that Postgres lost is never refused as unknown, and can be used after the repair in every process', async () => {
  const [live, redis, code] = [stage.url, stage.connectToRedis(), 'LATECODE'];
  const redeem = (url: string, user: string) => redeemOnce(url, code, user);
  const validate = (url: string, typed = code) =>
    sendOnce(`${url}/coupons/validate`, { method: 'POST', json: { code: typed, user_id: 'someone' } });
  await stage.withoutPostgres(() => copyFolder(folder, backup));
  const product = await openWithCode(code);
  const first = await answered(() => redeem(live, 'dee'));
  expect(first.status).toBe(201);
  await until('it is in Postgres alone', async () => (await redis.xlen(keys.journal)) === 0);
  await stage.withoutPostgres(() => copyFolder(backup, folder));

  await stage.startApi({ ...stage.env, PORT: '0' });
  const second = stage.url;
  stage.url = live;
  await redis.publish(keys.termsNotifications, product);
  await until('the first process has forgotten the terms', async () => (await validate(live)).status !== 200);
  for (const url of [live, second]) {
    for (const answer of [await validate(url), await redeem(url, 'dee'), await redeem(url, 'eve')])
      expectProblem(answer, 503, 'temporarily_unavailable');
    expectProblem(await validate(url, 'NEVERISSUED'), 503, 'temporarily_unavailable');
  }

  expect(await reconcile([])).toMatchObject({ code: 0, out: expect.stringContaining(`ok     ${product}`) });
  for (const [url, user] of [
    [live, 'fay'],
    [second, 'gus'],
  ] as const) {
    expect((await answered(() => validate(url))).status).toBe(200);
    const replay = await answered(() => redeem(url, 'dee'));
    expect([replay.status, replay.data.reservation_id]).toEqual([201, first.data.reservation_id]);
    expect((await answered(() => redeem(url, user))).status).toBe(201);
    expectProblem(await answered(() => validate(url, 'NEVERISSUED')), 404, 'code_not_found');
  }
  await stage.apis.pop()?.stop();
});

test('no order is said to have no reservations while Postgres is set back', async () => {
  const [redis, code, user] = [stage.connectToRedis(), 'ORDERCODE', 'hal'];
  const order = `order-of-${user}`;
  await stage.withoutPostgres(() => copyFolder(folder, backup));
  const product = await openWithCode(code);
  const { data } = await answered(() => redeemOnce(stage.url, code, user));
  await until('it is in Postgres alone', async () => (await redis.xlen(keys.journal)) === 0);
  const headers = { authorization: `Bearer ${SERVICE_SECRET}` };
  const call = (path: string, json?: unknown) =>
    sendOnce(`${stage.url}/flash-sale/${path}`, { headers, ...(json ? { method: 'POST', json } : {}) });
  const [list, one] = [`reservations?order_id=${order}`, `reservations/${data.reservation_id}`];
  await stage.withoutPostgres(() => copyFolder(backup, folder));
  // It may be away for a moment, and then be known to be set back.
  expect((await answered(() => call(one))).status).toBe(200);
  await until('the process knows it', async () => (await call(list)).status === 503);
  for (const path of [list, `${list}&product_id=${product}`, `${list}&user_id=${user}`])
    expectProblem(await call(path), 503, 'temporarily_unavailable');
  for (const path of ['confirm', 'refund', 'extend', 'release'])
    expectProblem(await call(path, { order_id: order }), 503, 'temporarily_unavailable');
  expect((await call(one)).data).toMatchObject({ reservation_id: data.reservation_id, status: 'reserved' });
  expect((await reconcile([])).code).toBe(0);
  const { body } = await answered(() => call(list));
  expect(body.data).toMatchObject([{ reservation_id: data.reservation_id, status: 'reserved' }]);
  expect((await answered(() => call('confirm', { order_id: order }))).status).toBe(200);
});

test('a campaign that a worker was filling when Postgres was set back comes back as the backup has it', async () => {
  const redis = stage.connectToRedis();
  const open = async () => (await stage.openCampaign({ total_limit: 50, hold_seconds: 600 })) as ProductId;
  const [removed, kept] = [await open(), await open()];
  const buy = async (product: string) => {
    await until('it sells', async () => (await new Shopper(stage.url, product).checkout()).status === 200);
    await until('it is in Postgres alone', async () => (await redis.xlen(keys.journal)) === 0);
  };
  await buy(removed);
  await stage.withoutPostgres(() => copyFolder(folder, backup));
  for (const product of [removed, kept]) await buy(product);
  await Promise.all(stage.workers.splice(0).map((worker) => worker.kill()));
  // As a worker leaves Redis that has removed a campaign, to fill it again, when Postgres ends.
  await redis.unlink(keys.epoch, ...campaignKeys(removed), keys.payments(removed));
  await stage.withoutPostgres(() => copyFolder(backup, folder));
  await stage.startWorker();
  for (const product of [removed, kept])
    await until('it sells again', async () => (await new Shopper(stage.url, product).checkout()).status === 200);
  expect((await reconcile([])).code).toBe(0);
  for (const product of [removed, kept])
    expect(await verdictAtRest(stage.env, product)).toMatchObject({
      persisted: 2,
      lost: 0,
      duplicated: 0,
      over_cap: 0,
      drift: 0,
      differences: [],
    });
});
