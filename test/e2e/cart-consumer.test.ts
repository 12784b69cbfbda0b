import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import { Operator, PaymentService, Shopper } from '../harness/clients.js';
import { startCarts } from '../harness/example-carts.js';
import { startProgram } from '../harness/programs.js';
import { sharedService } from '../harness/service.js';
import { until } from '../harness/until.js';

const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const { carts, url: database } = await startCarts();

/** Runs examples/cart-consumer as its README says. */
function startConsumer() {
  const { host, port } = service.redis.client.options;
  return startProgram(process.execPath, ['dist/examples/cart-consumer/main.js'], projectRoot(), {
    CART_DATABASE_URL: database,
    REDIS_URL: `redis://${host}:${port}`,
    EVENTS: `${service.redis.prefix}db1:events`,
  });
}

test('the total of a cart follows a sale and its refund, also after a consumer that was killed', async () => {
  const product = await operator.openCampaign({ discount: { kind: 'percent', percent: 20 } });
  const answer = await new Shopper(service.url, product, `user-${randomUUID()}`).checkout();
  const [order, reservation] = [String(answer.data.order_id), String(answer.data.reservation_id)];
  await carts.setSubtotal(order, 5_000, 'EUR');
  const total = async () => (await carts.read(order))?.total;
  const first = startConsumer();
  await payments.confirm(reservation, `pay-${randomUUID()}`);
  await until('the discount is applied', async () => (await total()) === 4_000);
  await first.stop();
  await payments.refund(reservation);
  const second = startConsumer();
  await until('the discount is taken back', async () => (await total()) === 5_000);
  second.child.kill('SIGTERM');
  await until('the consumer has ended', () => second.child.exitCode !== null);
  expect([second.child.exitCode, second.output()]).toEqual([0, expect.stringContaining('redemption.refunded')]);
});
