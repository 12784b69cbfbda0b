import { expect, test } from '@jest/globals';
import type { UserId } from '../../shared/domain/ids.js';
import { newPseudonym } from '../../shared/postgres/erasures.js';
import { EventStream } from '../../shared/redis/event-stream.js';
import { UserRecords } from '../../shared/sale/user-records.js';
import { startPersistence } from '../harness/persistence.js';
import { goBack, takeBackup } from '../harness/postgres-back.js';
import { restorePostgres } from '../harness/restore-postgres.js';
import { startSale } from '../harness/sale.js';

/** Postgres is set back to before users were erased who were in line. */
const sale = await startSale();
const store = await startPersistence(sale);
const parts = {
  ...{ redis: sale.redis, journal: sale.journal, stream: new EventStream(sale.store.scripts, 100_000) },
  ...{ database: store.database, cursor: store.cursor },
};

test('reconcile --after-restore keeps users erased who left the line before or after the backup, or were promoted', async () => {
  const campaign = await store.openCampaign({
    totalLimit: 1,
    waitingRoom: { enabled: true, maxSize: 10, presenceSeconds: null },
  });
  const { id } = campaign.terms;
  const ann = await campaign.take('ann');
  for (const user of ['ben', 'cid', 'dan', 'eve']) await campaign.join(user);
  await campaign.leave('ben');
  await store.persist();
  const users = async () =>
    (
      await store.sql.query<{ user: string }>(
        'select user_id as "user" from waiting_tickets where campaign_id = $1 order by line_no',
        [id],
      )
    ).rows.map(({ user }) => user);
  const backup = await takeBackup(store.sql);
  await campaign.leave('cid');
  await campaign.release(ann);
  await campaign.promote();
  const reservationId = (await campaign.person('dan'))?.reservation;
  await campaign.confirm(String(reservationId));
  await store.persist();
  const pseudonyms: UserId[] = [];
  for (const user of ['ben', 'cid', 'dan']) {
    const pseudonym = newPseudonym();
    pseudonyms.push(pseudonym);
    const erased = [id, pseudonym, user];
    await store.sql.query('update waiting_tickets set user_id = $2 where campaign_id = $1 and user_id = $3', erased);
    await store.sql.query('update redemptions set user_id = $2 where campaign_id = $1 and user_id = $3', erased);
    const own = user === 'dan' ? [String(reservationId)] : [];
    const records = new UserRecords(sale.store.scripts);
    expect((await records.erase(campaign.product, user as UserId, pseudonym, own)).kind).toBe('erased');
  }
  const truth = await users();
  expect(truth).toEqual([...pseudonyms, 'eve']);
  await goBack(store.sql, backup);
  const [found] = (await restorePostgres(parts, { dryRun: false, settleMs: 50 })).campaigns;
  await store.persist();
  expect(found?.erased).toBe(3);
  expect(await users()).toEqual(truth);
  expect(await store.verdictOf(campaign)).toMatchObject({ lost: 0, drift: 0, differences: [] });
});
