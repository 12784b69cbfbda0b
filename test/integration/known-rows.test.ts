import { expect, test } from '@jest/globals';
import { RecoveredEntries } from '../../shared/postgres/recovered-entries.js';
import { JOURNAL_START } from '../../shared/redis/journal-ids.js';
import { decodeRecovered, readKnownRows } from '../../worker/recovery/known-rows.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale } from '../harness/sale.js';

const ROWS = 20_000;

test('a recovery reads the rows of its campaigns only', async () => {
  const sale = await startSale();
  const store = await startPersistence(sale);
  const waitingRoom = { enabled: true, maxSize: 9, presenceSeconds: null };
  const [large, small] = [await store.openCampaign(), await store.openCampaign({ totalLimit: 1, waitingRoom })];
  await store.sql.query("set session_replication_role = 'replica'");
  for (const sql of [
    `insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, reserved_at)
     select gen_random_uuid(), $1, 'user-' || i, 'order-' || i, 1, 1, 'redeemed', now() from generate_series(1, ${ROWS}) i`,
    `insert into waiting_tickets (campaign_id, line_no, user_id, qty, status, reservation_id, joined_at)
     select $1, i, 'user-' || i, 1, 'waiting', gen_random_uuid(), now() from generate_series(1, ${ROWS}) i`,
  ])
    await store.sql.query(sql, [large.terms.id]);
  await store.sql.query('analyze redemptions, waiting_tickets, campaigns');
  const held = await small.take('ann');
  await small.join('bob');
  await store.persist();
  await small.release(held);
  const entries = (await sale.journal.read(JOURNAL_START, 100)).map(decodeRecovered);
  await store.database.transaction(async (client) => {
    const known = await readKnownRows(client, entries, new RecoveredEntries(store.database));
    expect([known.reservations.get(held)?.status, known.tickets[0]?.user]).toEqual(['reserved', 'bob']);
    const { rows } = await client.query(
      `select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::int as read from pg_stat_xact_user_tables
       where relname like 'redemptions%' or relname = 'waiting_tickets'`,
    );
    expect(rows[0]?.read).toBeLessThan(100);
  });
});
