import { expect, test } from '@jest/globals';
import { Operator, PaymentService, Shopper, send } from '../harness/clients.js';
import { until } from '../harness/until.js';
import { ledger, untilWhole } from '../harness/verdict.js';
import { Stage } from './stage.js';

const stage = await Stage.set();
const redis = stage.connectToRedis();
const CLEAN = { lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] };
const TERMS = {
  total_limit: 30,
  max_qty: 3,
  hold_seconds: 900,
  require_attestation: false,
  waiting_room: { enabled: true },
};

type Row = Record<'status' | 'user_id', string> &
  Record<'qty' | 'released_qty' | 'refunded_qty' | 'burned_qty', number>;
const rowsOf = (product: string) =>
  stage.query<Row>(
    `select user_id, r.status, qty, released_qty, refunded_qty, burned_qty
     from redemptions r join campaigns using (campaign_id) where product_id = $1`,
    [product],
  );

/**
 * Parts are released and refunded while no worker runs, and users in line get the units. Then Redis is emptied: only the
 * APIs know of them until a new worker has written them.
 */
for (const policy of ['return', 'burn'] as const) {
  test(`units given back (${policy}) survive a killed worker and an emptied Redis, and so do the users who got them`, async () => {
    const operator = new Operator(stage.url);
    const payments = new PaymentService(stage.url);
    const product = await operator.openCampaign({ ...TERMS, refund_policy: policy });
    const buyers = Array.from({ length: 10 }, (_, i) => new Shopper(stage.url, product, `buyer-${i}`));
    const ids = await Promise.all(
      buyers.map(async (one) => String((await one.checkout({ qty: 3 })).data.reservation_id)),
    );
    const waiting = Array.from({ length: 12 }, (_, i) => new Shopper(stage.url, product, `waiting-${i}`));
    for (const one of waiting) expect((await one.checkout()).status).toBe(202);
    const [held, paid, late] = [ids.slice(0, 4), ids.slice(4, 8), ids.slice(8)];
    for (const id of paid) expect((await payments.confirm(id)).status).toBe(200);
    await until('everything is persisted', async () => (await redis.xlen('db1:journal')) === 0);

    await stage.workers.at(-1)?.kill();
    const keep = (call: 'release' | 'refund', id: string, units: number) =>
      payments.say(call, { reservation_id: id, keep: units });
    for (const id of held) expect((await keep('release', id, 2)).data.qty).toBe(2);
    for (const id of paid) expect((await keep('refund', id, 1)).data.qty).toBe(1);
    // Made, reduced and paid after the last commit.
    await operator.call('POST', `/admin/campaigns/${product}/stock`, { delta: 40 });
    const newcomer = new Shopper(stage.url, product, 'newcomer');
    const newest = String((await newcomer.checkout({ qty: 3 })).data.reservation_id);
    await keep('release', newest, 2);
    await payments.confirm(newest);
    await keep('refund', newest, 1);
    for (const id of late) expect((await payments.release(id)).status).toBe(200);
    const before = await operator.stats(product);
    const served = await Promise.all(waiting.map(async (one) => (await one.queueStatus()).data.status));
    await redis.flushall();
    await stage.startWorker();
    await stage.ready();

    await untilWhole(stage.env, product);
    expect((await ledger(stage.env, product)).verdict).toMatchObject(CLEAN);
    const rows = new Map((await rowsOf(product)).map((row) => [row.user_id, row]));
    const burned = policy === 'burn';
    for (let i = 0; i < 4; i += 1)
      expect(rows.get(`buyer-${i}`)).toMatchObject({ status: 'reserved', qty: 2, released_qty: 1 });
    for (let i = 4; i < 8; i += 1)
      expect(rows.get(`buyer-${i}`)).toMatchObject({
        status: 'redeemed',
        qty: 1,
        refunded_qty: 2,
        burned_qty: burned ? 2 : 0,
      });
    const parts = { qty: 1, released_qty: 1, refunded_qty: 1, burned_qty: burned ? 1 : 0 };
    expect(rows.get('newcomer')).toMatchObject({ status: 'redeemed', ...parts });
    expect(served).toEqual(waiting.map(() => 'promoted'));
    for (const one of waiting) expect(rows.get(one.user)).toMatchObject({ status: 'reserved', qty: 1 });
    const { total, free, held: units, redeemed, burned: lost } = await operator.stats(product);
    expect({ total, free, units, redeemed, lost }).toEqual({
      ...{ total: before.total, free: before.free, units: before.held, redeemed: before.redeemed, lost: before.burned },
    });
    for (const id of [...held, newest]) {
      const call = id === newest ? 'refund' : 'release';
      expect((await keep(call, id, 3)).data.qty).toBe(id === newest ? 1 : 2);
    }
    expect((await send(`${stage.url}/readyz`)).status).toBe(200);
  });
}
