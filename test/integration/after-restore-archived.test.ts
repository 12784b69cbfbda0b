import { expect, test } from '@jest/globals';
import { isWhole, reportOf } from '../../commands/reconcile/report.js';
import { EventStream } from '../../shared/redis/event-stream.js';
import { TestArchive } from '../harness/archive.js';
import type { TestCampaign } from '../harness/campaign.js';
import { startPersistence } from '../harness/persistence.js';
import { goBack, takeBackup } from '../harness/postgres-back.js';
import { restorePostgres } from '../harness/restore-postgres.js';
import { startSale } from '../harness/sale.js';

/** Postgres is set back to before a campaign was archived: nothing has the lost records any more. */
const sale = await startSale();
const store = await startPersistence(sale);
const archive = new TestArchive(sale, store);
const parts = {
  ...{ redis: sale.redis, journal: sale.journal, stream: new EventStream(sale.store.scripts, 100_000) },
  ...{ database: store.database, cursor: store.cursor },
};

const repair = (dryRun = false) => restorePostgres(parts, { dryRun, settleMs: 50 });
const passOf = async ({ product }: TestCampaign) => (await sale.store.reader.archived(product))?.pass;
const UNAVAILABLE = { name: 'EngineUnavailable', engine: 'postgres' };

test('reconcile --after-restore reports what an archived campaign has lost, and no late call is decided by older rows', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1 });
  const ann = await campaign.take('ann');
  await campaign.confirm(ann);
  await store.persist();
  const backup = await takeBackup(store.sql);
  // The counters are the same afterwards.
  await campaign.refund(ann);
  const ben = await campaign.take('ben');
  await campaign.confirm(ben);
  const late = await archive.closeAndArchive(campaign);
  expect(await late.refund(ann)).toMatchObject({ kind: 'refunded' });
  await archive.worker().run();
  await goBack(store.sql, backup);

  await expect(late.refund(ann)).rejects.toMatchObject(UNAVAILABLE);
  await expect(late.confirm(ben)).rejects.toMatchObject(UNAVAILABLE);
  for (const dryRun of [true, false]) {
    const findings = await repair(dryRun);
    expect(isWhole(findings)).toBe(false);
    expect(findings.campaigns[0]).toMatchObject({ archivedLoss: { units: 0, reservations: 1 } });
    expect(reportOf(findings, dryRun).join('\n')).toContain('archived: Postgres lacks 1 reservations');
  }
  expect(await passOf(campaign)).toBe('lost');
  await expect(late.refund(ann)).rejects.toMatchObject(UNAVAILABLE);
  await expect(late.confirm(ben)).rejects.toMatchObject(UNAVAILABLE);
  await archive.worker().run();
  expect(await passOf(campaign)).toBe('lost');
  expect(await store.verdictOf(campaign)).toMatchObject({ lost: 1 });
});

test('reconcile --after-restore reports an archived campaign that Postgres lacks entirely, and leaves others alone', async () => {
  const before = await archive.closeAndArchive(await store.openCampaign({ totalLimit: 1 }));
  const pass = await passOf(before);
  const backup = await takeBackup(store.sql);
  const campaign = await store.openCampaign({ totalLimit: 5 });
  for (const user of ['ann', 'ben', 'cid']) await campaign.confirm(await campaign.take(user));
  await archive.closeAndArchive(campaign);
  await goBack(store.sql, backup);

  const found = (await repair()).campaigns.find(({ product }) => product === campaign.product);
  expect(found).toMatchObject({ unknown: true, archivedLoss: { units: 3, reservations: 3 } });
  expect(await store.verdictOf(campaign)).toMatchObject({ lost: 3 });
  expect([await passOf(campaign), await passOf(before)]).toEqual(['lost', pass]);
});
