import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import { keys } from '../../shared/redis/keys.js';
import type { TestCampaign } from '../harness/campaign.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale } from '../harness/sale.js';

const sale = await startSale();
const store = await startPersistence(sale);

const RESERVATIONS = 60_000;
/** The records of all reservations would not fit. */
const HEAP_MB = 48;

/** Reservations that are paid, in Redis alone, as if Postgres had lost them. */
async function fill(campaign: TestCampaign): Promise<void> {
  const { product, terms } = campaign;
  const suffix = `-0000-7000-8000-0000${terms.no.toString(16).padStart(8, '0')}`;
  await sale.redis.eval(
    `for i = 1, ${RESERVATIONS} do
       redis.call('HSET', KEYS[1], string.format('%08x', i) .. ARGV[1], 'redeemed|user-' .. i .. '|1|1|0|0|order-' .. i .. '|')
     end`,
    1,
    keys.reservations(product),
    suffix,
  );
  await campaign.set({ redeemed: RESERVATIONS, free: Number(terms.totalLimit) - RESERVATIONS });
}

test('the repair of many reservations needs no more memory than that of a few', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1_000_000 });
  const before = await sale.journal.lastId();
  await campaign.setStatus('pause');
  await store.persist();
  await fill(campaign);
  await store.sql.query('update journal_cursor set last_id = $1', [before]);
  const main = join(projectRoot(), 'dist/shared/restore-postgres/main.js');
  const env = { PATH: process.env.PATH, REDIS_URL: sale.engine.url, DATABASE_URL: store.url };
  const output = await new Promise<string>((resolve, reject) => {
    const args = [`--max-old-space-size=${HEAP_MB}`, main, '--after-restore'];
    execFile(process.execPath, args, { env }, (error, stdout) => (error ? reject(error) : resolve(stdout)));
  });
  expect(output).toContain(`reservations missing in Postgres: ${RESERVATIONS}`);
  expect(output).toContain(`ok     ${campaign.product}: ${RESERVATIONS} of ${RESERVATIONS} reservations in Postgres`);
});
