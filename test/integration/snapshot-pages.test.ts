import { expect, test } from '@jest/globals';
import { CampaignsTable } from '../../shared/postgres/campaigns.js';
import { CampaignSnapshot } from '../../shared/postgres/snapshot.js';
import { createTestDatabase } from '../harness/engines.js';
import { connectDatabase } from '../harness/persistence.js';
import { describeCampaign } from '../harness/sale.js';
import { until } from '../harness/until.js';

const USERS = 20_000;
const PAGE = 100;

test('the pages of a snapshot read each user once, also before Postgres has analyzed the table', async () => {
  const { url, client } = await createTestDatabase();
  const database = connectDatabase(url);
  const campaign = await new CampaignsTable(database).insert({ ...describeCampaign({ totalLimit: null }), rules: {} });
  const { rows: tables } = await client.query<{ name: string }>(
    "select relid::regclass::text as name from pg_partition_tree('redemptions') where isleaf",
  );
  for (const { name } of tables) await client.query(`alter table ${name} set (autovacuum_enabled = false)`);
  await client.query(
    `insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, reserved_at, pay_before, terms_version)
     select gen_random_uuid(), $1, 'shopper-' || md5(i::text), 'order-' || i, 1, 1, 'reserved', now(), now() + interval '1 hour', 1
     from generate_series(1, ${USERS}) i`,
    [campaign?.id],
  );
  const read = async () => {
    const { rows } = await client.query<{ n: number }>(
      "select sum(idx_tup_read)::int as n from pg_stat_user_indexes where relname like 'redemptions%'",
    );
    return rows[0]?.n ?? 0;
  };
  const before = await read();
  let users = 0;
  for await (const page of new CampaignSnapshot(database, campaign?.id ?? '').users(PAGE)) users += page.length;
  expect(users).toBe(USERS);
  // A connection reports its statistics at the latest when it ends.
  await client.query(
    'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
  );
  // Each user is read once to find the end of the page, and once with the rows.
  await until('the statistics are there', async () => (await read()) - before >= 2 * USERS);
  expect((await read()) - before).toBeLessThan(6 * USERS);
});
