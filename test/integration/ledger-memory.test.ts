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

const RESERVATIONS = 300_000;
/** A list of all ids would not fit. */
const HEAP_MB = 48;

/** Reservations that are paid, on both sides, as if they had been made and persisted. */
async function fill(campaign: TestCampaign): Promise<void> {
  const { product, terms } = campaign;
  const suffix = `-0000-7000-8000-0000${terms.no.toString(16).padStart(8, '0')}`;
  await store.sql.query('begin');
  await store.sql.query("set local session_replication_role = 'replica'");
  await store.sql.query(
    `insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, reserved_at)
     select (lpad(to_hex(i), 8, '0') || $2)::uuid, $1, 'user-' || i, 'order-' || i, 1, 1, 'redeemed', now()
     from generate_series(1, ${RESERVATIONS}) i`,
    [terms.id, suffix],
  );
  await store.sql.query('update campaigns set redeemed = $2, taken = $2, reservations = $2 where campaign_id = $1', [
    terms.id,
    RESERVATIONS,
  ]);
  await store.sql.query('commit');
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

test('the ledger of many reservations needs no more memory than that of a few', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1_000_000 });
  await fill(campaign);
  const ledger = join(projectRoot(), 'dist/shared/ledger/main.js');
  const env = { PATH: process.env.PATH, REDIS_URL: sale.engine.url, DATABASE_URL: store.url };
  const output = await new Promise<string>((resolve, reject) => {
    const args = [`--max-old-space-size=${HEAP_MB}`, ledger, campaign.product];
    execFile(process.execPath, args, { env }, (error, stdout) => (error ? reject(error) : resolve(stdout)));
  });
  expect(JSON.parse(output)).toMatchObject({ confirmed: RESERVATIONS, persisted: RESERVATIONS, lost: 0, drift: 0 });
});
