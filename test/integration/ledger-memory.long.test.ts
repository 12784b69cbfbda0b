import { expect, test } from '@jest/globals';
import type { TestCampaign } from '../harness/campaign.js';
import { fillRedis, runWithin, suffixOf } from '../harness/many-reservations.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale } from '../harness/sale.js';

const sale = await startSale();
const store = await startPersistence(sale);

const RESERVATIONS = 300_000;
/** A list of all ids would not fit. */
const HEAP_MB = 48;

/** The rows of the reservations in Redis, as if they had been persisted. */
async function fillPostgres(campaign: TestCampaign): Promise<void> {
  const { terms } = campaign;
  await store.sql.query('begin');
  await store.sql.query("set local session_replication_role = 'replica'");
  await store.sql.query(
    `insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, reserved_at)
     select (lpad(to_hex(i), 8, '0') || $2)::uuid, $1, 'user-' || i, 'order-' || i, 1, 1, 'redeemed', now()
     from generate_series(1, ${RESERVATIONS}) i`,
    [terms.id, suffixOf(campaign)],
  );
  await store.sql.query('update campaigns set redeemed = $2, taken = $2, reservations = $2 where campaign_id = $1', [
    terms.id,
    RESERVATIONS,
  ]);
  await store.sql.query('commit');
}

test('the ledger of many reservations needs no more memory than that of a few', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1_000_000 });
  await fillPostgres(campaign);
  await fillRedis(sale, campaign, RESERVATIONS);
  const output = await runWithin(HEAP_MB, store, 'ledger', [campaign.product]);
  expect(JSON.parse(output)).toMatchObject({ confirmed: RESERVATIONS, persisted: RESERVATIONS, lost: 0, drift: 0 });
});
