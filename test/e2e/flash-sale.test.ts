import { expect, test } from '@jest/globals';
import { Operator, Shopper } from '../harness/clients.js';
import { sharedService } from '../harness/service.js';
import { until } from '../harness/until.js';

const service = await sharedService();
const operator = new Operator(service.url);

test('a shopper buys a unit, and Postgres has it', async () => {
  const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 60 });
  const answer = await new Shopper(service.url, product).checkout();
  expect(answer.status).toBe(200);
  await until('the row is in Postgres', async () => {
    const { rows } = await service.database.client.query('select status from redemptions where redemption_id = $1', [
      answer.data.reservation_id,
    ]);
    return rows[0]?.status === 'reserved';
  });
});
