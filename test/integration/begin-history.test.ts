import { expect, test } from '@jest/globals';
import { JournalHistories } from '../../shared/postgres/journal-histories.js';
import { beginHistory } from '../../worker/recovery/begin-history.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale } from '../harness/sale.js';

/** A worker registers a history after its diagnosis, and Postgres may have changed since. */
const sale = await startSale();
const store = await startPersistence(sale);
const INTACT = { kind: 'recover', reason: 'Redis restarted or failed over', intact: true, behind: false } as const;

async function begin(generation: number, seen: string) {
  const { database, cursor } = store;
  const histories = new JournalHistories(database);
  const deps = { database, cursor, histories, journal: sale.journal };
  return beginHistory(deps, { epoch: { generation, server: 'promoted' }, seen }, INTACT, () => {});
}
const later = async () => {
  const { rows } = await store.sql.query('select (max(generation) + 1)::float8 as next from journal_histories');
  return Number(rows[0].next);
};

test('a history begins where the journal ends when the server has everything that Postgres has', async () => {
  const campaign = await store.openCampaign({ totalLimit: 2 });
  await campaign.take('amy');
  await store.persist();
  const seen = await store.cursor.read();
  await campaign.take('ben');
  const lastId = await sale.journal.lastId();
  expect(await begin(await later(), seen)).toEqual({ afterId: lastId, lastId, drainable: true });
});

test('no history begins on a server that lacks what another server got into Postgres since the diagnosis', async () => {
  const seen = await store.cursor.read();
  const [generation, number] = (await sale.journal.lastId()).split('-');
  // What a worker persists that has stayed on the server before.
  await store.sql.query('update journal_cursor set last_id = $1', [`${generation}-${Number(number) + 3}`]);
  const next = await later();
  await expect(begin(next, seen)).rejects.toMatchObject({ name: 'LockLost' });
  expect(await later()).toBe(next);
});
