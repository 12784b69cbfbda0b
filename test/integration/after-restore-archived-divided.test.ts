import { expect, it } from '@jest/globals';
import { isWhole } from '../../commands/reconcile/report.js';
import { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import { RequestNames } from '../../shared/redis/request-names.js';
import { CampaignArchive } from '../../shared/sale/campaign-archive.js';
import { ArchiveClosed } from '../../worker/archive/archive-closed.js';
import { IdempotencyKeys } from '../../worker/archive/idempotency-keys.js';
import { AT_ONCE } from '../harness/archive.js';
import { DividedRestore } from '../harness/divided-restore.js';
import { type DividedCampaign, DividedSale } from '../harness/divided-sale.js';
import { goBack, takeBackup } from '../harness/postgres-back.js';

/** Postgres is set back while Redis has only the counters of a divided campaign, by bucket. */
const sale = await DividedSale.start();
const stage = new DividedRestore(sale);

async function archiveAll(): Promise<void> {
  for (const { index, store, cursor, redis } of sale.shards)
    await new ArchiveClosed({
      redemptions: new RedemptionsTable(sale.database),
      campaigns: sale.campaigns,
      cursor,
      sale: store.reader,
      bucketIn: (product) => sale.map.bucketIn(product, index),
      archive: new CampaignArchive(store.scripts),
      idempotencyKeys: new IdempotencyKeys(sale.database),
      requests: new RequestNames(redis),
      log: sale.log,
      limits: AT_ONCE,
    }).run();
}
const passes = ({ product }: DividedCampaign) =>
  Promise.all([0, 1, 2, 3].map(async (b) => (await sale.sales.of(product, b).reader.archived(product))?.pass));

async function sell(campaign: DividedCampaign, each: number) {
  for (const bucket of [0, 1, 2, 3])
    for (let i = 0; i < each; i += 1) await campaign.checkout(stage.userOf(campaign, bucket));
}
async function payAndClose(campaign: DividedCampaign) {
  for (const { id, bucket } of await campaign.reservations())
    await campaign.storeOf(bucket).reservations.confirm(campaign.product, id, `pay-${id}`, { actor: '', trace: '' });
  for (const bucket of [0, 1, 2, 3])
    await campaign.storeOf(bucket).campaigns.setStatus(campaign.product, 'close', 'operator', '');
  await sale.persistAll();
  await archiveAll();
}

it('an archived divided campaign that lost nothing is left as it is', async () => {
  const archived = await sale.open(20, true);
  await sell(archived, 2);
  await payAndClose(archived);
  const before = await passes(archived);
  expect(before.every((pass) => pass !== undefined)).toBe(true);
  const live = await sale.open(20, true);
  const backup = await takeBackup(sale.sql);
  await sell(live, 2);
  await sale.persistAll();
  await goBack(sale.sql, backup);
  await stage.repair();
  await stage.expectWhole(live);
  await stage.expectWhole(archived);
  expect(await passes(archived)).toEqual(before);
  expect((await stage.repair(true)).every(isWhole)).toBe(true);
});

it('a bucket that lost something is reported, and the others are left as they are', async () => {
  const archived = await sale.open(20, true);
  await sell(archived, 2);
  for (const { id, bucket } of await archived.reservations())
    await archived.storeOf(bucket).reservations.confirm(archived.product, id, `pay-${id}`, { actor: '', trace: '' });
  await sale.persistAll();
  const backup = await takeBackup(sale.sql);
  const lost = stage.userOf(archived, 2);
  await archived.checkout(lost);
  await payAndClose(archived);
  const before = await passes(archived);
  await goBack(sale.sql, backup);
  const found = (await stage.repair()).flatMap(({ campaigns }) =>
    campaigns.filter(({ product }) => product === archived.product),
  );
  expect(
    found.filter(({ archivedLoss }) => archivedLoss.units + archivedLoss.reservations > 0).map(({ bucket }) => bucket),
  ).toEqual([2]);
  expect(await passes(archived)).toEqual([before[0], before[1], 'lost', before[3]]);
});
