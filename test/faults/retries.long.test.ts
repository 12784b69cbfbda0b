import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { Shopper } from '../harness/clients.js';
import { until } from '../harness/until.js';
import { Stage } from './stage.js';

const stage = await Stage.set();

test('twenty tries with one key, through deaths of the API and of Redis, make one reservation that all of them name', async () => {
  const product = await stage.openCampaign({ total_limit: 1_000_000 });
  const crowd = stage.crowd(product, 300);
  crowd.start();
  await until('the sale runs', () => crowd.completed.length >= 100);
  const shopper = new Shopper(stage.url, product);
  await shopper.getToken();
  const key = randomUUID();
  const answers: { status: number; text: string }[] = [];
  let [unanswered, deaths] = [0, 0];
  for (let tries = 0; tries < 20; tries += 1) {
    const asking = shopper.checkoutWithHeader(key).then(
      (answer) => answers.push(answer),
      () => {
        unanswered += 1;
      },
    );
    // Every fifth one is on its way when its API dies, every tenth when Redis does.
    if (tries % 5 === 0) {
      await stage.apis.at(-1)!.kill();
      if (tries % 10 === 0) {
        stage.redis.kill('SIGKILL');
        await stage.redis.exited;
        await stage.startRedis();
      }
      await stage.startApi();
      await stage.ready();
      deaths += 1;
    }
    await asking;
  }
  await crowd.finish();
  expect([deaths, answers.length + unanswered]).toEqual([4, 20]);
  const served = answers.filter(({ status }) => status === 200);
  expect(served.length).toBeGreaterThanOrEqual(16);
  expect(new Set(served.map(({ text }) => text)).size).toBe(1);
  const rows = await until('it is in Postgres', async () => {
    const found = await stage.query<{ redemption_id: string }>(
      'select redemption_id from redemptions r join campaigns using (campaign_id) where product_id = $1 and user_id = $2',
      [product, shopper.user],
    );
    return found.length > 0 && found;
  });
  expect(rows).toEqual([{ redemption_id: JSON.parse(served[0]!.text).data.reservation_id }]);
  await stage.expectNothingLost(crowd, product);
});
