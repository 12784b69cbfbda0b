import { expect, test } from '@jest/globals';
import { fillRedis, runWithin } from '../harness/many-reservations.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale } from '../harness/sale.js';

const sale = await startSale();
const store = await startPersistence(sale);

const RESERVATIONS = 60_000;
/** The records of all reservations would not fit. */
const HEAP_MB = 48;

test('the repair of many reservations needs no more memory than that of a few', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1_000_000 });
  const before = await sale.journal.lastId();
  await campaign.setStatus('pause');
  await store.persist();
  await fillRedis(sale, campaign, RESERVATIONS);
  await store.sql.query('update journal_cursor set last_id = $1', [before]);
  const output = await runWithin(HEAP_MB, store, 'reconcile', ['--after-restore']);
  expect(output).toContain(`reservations missing in Postgres: ${RESERVATIONS}`);
  expect(output).toContain(`ok     ${campaign.product}: ${RESERVATIONS} of ${RESERVATIONS} reservations in Postgres`);
});
