import { expect, test } from '@jest/globals';
import { Operator, PaymentService, Shopper } from '../harness/clients.js';
import { until } from '../harness/until.js';
import { untilWhole } from '../harness/verdict.js';
import { Stage } from './stage.js';

const stage = await Stage.set({}, { onServer: true });
const operator = new Operator(stage.url);
const payments = new PaymentService(stage.url);
const redis = stage.connectToRedis();

/** A user was promoted, and Postgres refuses it: Redis had forgotten that the user has a unit already. */
async function refusePromotion() {
  const product = await stage.openCampaign({ total_limit: 2, per_user_limit: 2, hold_seconds: 900 });
  const [first, second, user] = [1, 2, 3].map(() => new Shopper(stage.url, product)) as [Shopper, Shopper, Shopper];
  const released = String((await first.checkout()).data.reservation_id);
  const held = String((await second.checkout()).data.reservation_id);
  expect((await user.checkout()).status).toBe(202);
  await untilWhole(stage.env, product);
  await stage.workers.at(-1)?.stop();
  expect((await payments.release(released)).status).toBe(200);
  expect((await user.queueStatus()).data.status).toBe('promoted');
  await stage.query("update redemptions set status = 'released', released_at = now() where redemption_id = $1", [
    released,
  ]);
  await stage.query(
    `insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, reserved_at, redeemed_at, terms_version)
     select gen_random_uuid(), campaign_id, $2, 'an-older-order', 1, 1, 'redeemed', now(), now(), 1
     from campaigns where product_id = $1`,
    [product, user.user],
  );
  await stage.startWorker();
  await until('the promotion is voided', async () => {
    const rows = await stage.query(
      "select from redemptions join campaigns using (campaign_id) where product_id = $1 and redemptions.status = 'voided'",
      [product],
    );
    return rows.length === 1;
  });
  return { product, user, held };
}

const repairs = {
  'Redis has lost its data': () => redis.flushall(),
  'the campaign is reconciled': async (product: string) => {
    expect((await operator.call('POST', `/admin/campaigns/${product}/reconcile`)).status).toBe(200);
  },
};

test.each(Object.entries(repairs))(
  'a user whose promotion was voided is not in line again when %s',
  async (_, repair) => {
    const { product, user, held } = await refusePromotion();
    expect(
      await stage.query(
        'select t.status, t.line_no = r.line_no as linked from waiting_tickets t join redemptions r on r.redemption_id = t.reservation_id',
      ),
    ).toContainEqual({ status: 'promoted', linked: true });
    await repair(product);
    await until('the next unit is free', async () => {
      await payments.release(held);
      return (await operator.stats(product)).free === 1;
    });
    expect((await operator.stats(product)).waiting).toBe(0);
    expect(['queued', 'promoted']).not.toContain((await user.queueStatus()).data.status);
    await untilWhole(stage.env, product);
  },
);
