import { expect, test } from '@jest/globals';
import { RedemptionPartitions } from '../../commands/partitions/redemption-partitions.js';
import { SaleMinutes } from '../../shared/postgres/sale-minutes.js';
import { EventStream } from '../../shared/redis/event-stream.js';
import { fillSaleMinutes } from '../../worker/sale-minutes/fill-sale-minutes.js';
import { TestArchive } from '../harness/archive.js';
import { createTestDatabase } from '../harness/engines.js';
import { expectMinutesOfRows, totalsOf } from '../harness/minutes.js';
import { connectDatabase, startPersistence } from '../harness/persistence.js';
import { goBack, takeBackup } from '../harness/postgres-back.js';
import { restorePostgres } from '../harness/restore-postgres.js';
import { startSale } from '../harness/sale.js';

/** Campaigns whose minutes the worker counts, because a repair has changed them. */
const sale = await startSale();
const store = await startPersistence(sale);
const minutes = new SaleMinutes(store.database);
const [FROM, TO] = [new Date('2020-01-01T00:00:00Z'), new Date('2100-01-01T00:00:00Z')];
const LINE = { enabled: true, maxSize: 100, presenceSeconds: null };

/** Has the worker count what is pending. */
const fill = () =>
  fillSaleMinutes({
    minutes,
    lock: async (client) => void (await store.cursor.lock(client)),
    log: store.log,
    limits: { minutesBatch: 5_000, minutesRunMs: Number.POSITIVE_INFINITY },
  });

test('campaigns are counted step by step, while they are sold, and read whole meanwhile', async () => {
  const { url, client } = await createTestDatabase();
  await client.query(
    `insert into campaigns (campaign_id, product_id, name, type, total_limit, per_user_limit, max_qty, starts_at, time_zone,
       hold_seconds, waiting_room, confirmation, late_payment, refund_policy, require_attestation, rules, status)
     select gen_random_uuid(), 'old-' || n, 'a', 'shared', 900, 900, 9, now(), 'UTC', 60, '{}', 'fast', 'refuse', 'burn', false,
       '{}', 'open' from generate_series(1, 2) n`,
  );
  let line = 0;
  const sell = async (count: number) => {
    const places = await client.query(
      `insert into waiting_tickets (campaign_id, line_no, user_id, qty, status, reservation_id, joined_at)
       select campaign_id, $1::int + n, ($1 + n)::text, 1, 'promoted', gen_random_uuid(), now() - ($1 + n) * interval '7 s'
       from campaigns, generate_series(1, $2::int) n returning campaign_id, line_no, reservation_id`,
      [line, count],
    );
    line += count;
    // Ids in any order, as if those of later users were lower.
    for (const { campaign_id, line_no, reservation_id } of places.rows)
      await client.query(
        `insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, reserved_at, line_no)
         values ($1, $2, $3::int::text, $3::int::text, 1, 1, 'reserved', now() - $3::int * interval '3 s', $3::int)`,
        [reservation_id, campaign_id, line_no],
      );
  };
  const change = () =>
    client.query(
      `update redemptions set status = 'redeemed', redeemed_at = now() where redemption_id in (
         select redemption_id from redemptions where status = 'reserved' order by md5(redemption_id::text) limit 5)`,
    );
  await sell(20);
  await client.query('select recount_sale_minutes(array_agg(campaign_id)) from campaigns');
  expect(await expectMinutesOfRows(client)).toBe(0);
  const database = connectDatabase(url);
  const reads = new SaleMinutes(database);
  const { rows: campaigns } = await client.query('select campaign_id from campaigns');
  const pending = async () => Number((await client.query('select count(*) from sale_minutes_pending')).rows[0].count);
  let steps = 0;
  for (let more = true; more; steps += 1) {
    if (steps < 6) await sell(2);
    await change();
    for (const { campaign_id } of campaigns)
      expect(await reads.read(campaign_id, FROM, TO)).toEqual(await reads.readRows(campaign_id, FROM, TO));
    await expectMinutesOfRows(client);
    more = await reads.fill(7, async () => {});
  }
  expect(steps).toBeGreaterThan(6);
  expect(await pending()).toBe(0);
  expect(await expectMinutesOfRows(client)).toBeGreaterThan(2);
});

test('a repair of Postgres has the minutes counted again', async () => {
  const campaign = await store.openCampaign({ totalLimit: 2, holdSeconds: 900, waitingRoom: LINE });
  const id = await campaign.take('ann');
  await campaign.take('bob');
  await store.persist();
  const backup = await takeBackup(store.sql);
  await campaign.join('cid');
  await campaign.release(id);
  await campaign.promote();
  await store.persist();
  const read = async () => totalsOf(await minutes.read(campaign.terms.id, FROM, TO));
  const whole = await read();
  expect(whole).toMatchObject({ reserved: 2, promoted: 1, released: 1 });
  await goBack(store.sql, backup);
  await restorePostgres(
    {
      ...{ redis: sale.redis, journal: sale.journal, database: store.database, cursor: store.cursor, has: () => true },
      stream: new EventStream(sale.store.scripts, 100_000),
    },
    { dryRun: false, settleMs: 50 },
  );
  const { rows } = await store.sql.query('select 1 from sale_minutes_pending where campaign_id = $1', [
    campaign.terms.id,
  ]);
  expect(rows).toHaveLength(1);
  expect(await read()).toEqual(whole);
  await fill();
  expect(await read()).toEqual(whole);
  await expectMinutesOfRows(store.sql);
});

test('the minutes of a campaign stay when its reservations are dropped, once they are counted', async () => {
  const archive = new TestArchive(sale, store);
  const partitions = new RedemptionPartitions(store.database);
  const campaign = await store.storeCampaign({ totalLimit: 2 });
  const storedOf = async () => {
    const stored = await store.campaigns.find(campaign.product);
    if (!stored) throw new Error('the campaign is not in Postgres');
    return stored;
  };
  await partitions.add(await storedOf());
  await sale.load(campaign);
  await campaign.confirm(await campaign.take('ann'));
  await store.persist();
  await archive.closeAndArchive(campaign);
  const before = await minutes.read(campaign.terms.id, FROM, TO);
  expect(totalsOf(before)).toMatchObject({ reserved: 1, paid: 1 });
  await store.sql.query('select recount_sale_minutes(array[$1::uuid])', [campaign.terms.id]);
  await expect(partitions.drop(await storedOf(), 'tester')).rejects.toThrow('still counts the minutes');
  await fill();
  await partitions.drop(await storedOf(), 'tester');
  expect(await minutes.read(campaign.terms.id, FROM, TO)).toEqual(before);
});
