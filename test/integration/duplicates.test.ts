import { expect, test } from '@jest/globals';
import { compareCampaign } from '../../shared/image/compare-campaign.js';
import { CampaignsTable } from '../../shared/postgres/campaigns.js';
import { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import { createTestDatabase } from '../harness/engines.js';
import { connectDatabase, startPersistence } from '../harness/persistence.js';
import { describeCampaign, startSale } from '../harness/sale.js';
import { until } from '../harness/until.js';

const ROWS = 20_000;

test('no user is a duplicate when the limit is raised during the comparison', async () => {
  const sale = await startSale();
  const store = await startPersistence(sale);
  const campaign = await store.openCampaign({ perUserLimit: 1 });
  await campaign.take('ann');
  const before = await store.campaigns.find(campaign.product);
  await store.sql.query('update campaigns set terms_version = 2, per_user_limit = 2 where campaign_id = $1', [
    campaign.terms.id,
  ]);
  await campaign.amend({ perUserLimit: 2 });
  await campaign.take('ann');
  await store.persist();
  const deps = { parts: [store.part], redemptions: new RedemptionsTable(store.database) };
  expect(before && (await compareCampaign(deps, before))).toMatchObject({ confirmed: 2, duplicated: 0, drift: 0 });
});

test('rows beyond the limit of their user are found without a sort of all rows', async () => {
  const { url, client } = await createTestDatabase();
  await client.query(`do $$ begin execute format('alter database %I set work_mem = 64', current_database()); end $$`);
  const database = connectDatabase(url);
  const terms = { totalLimit: null, perUserLimit: 2 };
  const campaign = await new CampaignsTable(database).insert({ ...describeCampaign(terms), rules: {} });
  const id = campaign?.id ?? '';
  await client.query(
    `insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, reserved_at)
     select ('00000000-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid, $1, 'user-' || greatest(i, 2), 'order-' || i, 1,
       case i when 1 then 2 else 1 end, 'redeemed', now()
     from generate_series(1, ${ROWS}) i`,
    [id],
  );
  const redemptions = new RedemptionsTable(database);
  expect(await redemptions.duplicates(id)).toEqual([]);
  await client.query('update campaigns set per_user_limit = 1 where campaign_id = $1', [id]);
  expect(await redemptions.duplicates(id)).toEqual([
    { redemption_id: '00000000-0000-0000-0000-000000000002', why: 'the user has more than the limit' },
  ]);
  // A connection reports its statistics at the latest when it ends.
  const others = 'from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()';
  await client.query(`select pg_terminate_backend(pid) ${others}`);
  await until('its connections have ended', async () => (await client.query(`select 1 ${others}`)).rowCount === 0);
  const { rows } = await client.query(
    'select temp_files::int from pg_stat_database where datname = current_database()',
  );
  expect(rows).toEqual([{ temp_files: 0 }]);
});
