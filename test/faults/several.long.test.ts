import { expect, test } from '@jest/globals';
import { until } from '../harness/until.js';
import { Stage } from './stage.js';

const stage = await Stage.set();
await stage.startApi({ ...stage.env, PORT: '0' });
await stage.startWorker();

test('two APIs and two workers sell every unit once and write it once', async () => {
  const product = await stage.openCampaign({ hold_seconds: 1, total_limit: 200 });
  // More than the 200 units that expire in a second.
  const crowd = stage.crowd(product, 1_000);
  crowd.start();
  await until('everything is sold', () => crowd.completed.length >= 200);
  await until('people wait', () => crowd.queued.length >= 500);
  await crowd.finish();
  // Nobody pays: each unit goes on from one to the next, in the order of the line.
  await until('three hundred were promoted', async () => {
    const [row] = await stage.query<{ n: string }>(
      "select count(*) as n from waiting_tickets t join campaigns using (campaign_id) where product_id = $1 and t.status <> 'waiting'",
      [product],
    );
    return Number(row?.n) >= 300;
  });
  const promoted = await stage.query<{ line_no: string }>(
    `select line_no from redemptions join campaigns using (campaign_id)
     where product_id = $1 and line_no is not null order by reserved_at, line_no`,
    [product],
  );
  const order = promoted.map(({ line_no }) => Number(line_no));
  expect(order).toEqual([...order].sort((a, b) => a - b));
  expect(order.slice(0, 300)).toEqual(Array.from({ length: 300 }, (_, i) => i + 1));
  await stage.expectNothingLost(crowd, product);
});

test('one of two workers and one of two APIs killed with -9 are not missed', async () => {
  const product = await stage.openCampaign({ total_limit: 1_000_000 });
  const crowd = stage.crowd(product);
  crowd.start();
  await until('the sale runs', () => crowd.completed.length >= 300);
  await stage.workers[0]!.kill();
  await stage.apis[1]!.kill();
  stage.leaveOut(stage.url);
  await until('the sale goes on', () => crowd.completed.length >= 600);
  await crowd.finish();
  await stage.expectNothingLost(crowd, product);
});
