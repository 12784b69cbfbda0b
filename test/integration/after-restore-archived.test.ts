import { expect, test } from '@jest/globals';
import { isWhole, reportOf } from '../../commands/reconcile/report.js';
import type { IdempotencyKey, UserId } from '../../shared/domain/ids.js';
import type { ArchivedPeople } from '../../shared/postgres/archived-people.js';
import { newPseudonym } from '../../shared/postgres/erasures.js';
import { EventStream } from '../../shared/redis/event-stream.js';
import { keys } from '../../shared/redis/keys.js';
import { UserRecords } from '../../shared/sale/user-records.js';
import { TestArchive } from '../harness/archive.js';
import type { TestCampaign } from '../harness/campaign.js';
import { startPersistence } from '../harness/persistence.js';
import { goBack, takeBackup } from '../harness/postgres-back.js';
import { fillAgain, restorePostgres } from '../harness/restore-postgres.js';
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

test('a checkout of an archived campaign that Postgres has lost is not answered as if there was none', async () => {
  const campaign = await store.openCampaign({ totalLimit: 5 });
  const [early, late] = [{ key: 'key-of-ann' }, { key: 'key-of-ben' }];
  const ann = await campaign.checkout('ann', early);
  await store.persist();
  const backup = await takeBackup(store.sql);
  const ben = await campaign.checkout('ben', late);
  for (const one of [ann, ben]) await campaign.confirm('reservationId' in one ? one.reservationId : '');
  const archived = await archive.closeAndArchive(campaign);
  await archive.worker().run();
  expect(await archived.checkout('ben', late)).toMatchObject({ kind: 'replayed' });
  expect(await archived.checkout('cid', { key: 'key-of-cid' })).toMatchObject({ kind: 'ended' });
  await sale.redis.del(keys.idempotency('ben' as UserId, late.key as IdempotencyKey));
  await goBack(store.sql, backup);
  for (const isRepaired of [false, true]) {
    if (isRepaired) await repair();
    expect(await archived.checkout('ann', early)).toMatchObject({ kind: 'replayed' });
    await expect(archived.checkout('ben', late)).rejects.toMatchObject(UNAVAILABLE);
  }
});

test('no call is decided by rows that were read while Postgres was set back for a moment', async () => {
  const campaign = await store.openCampaign({ totalLimit: 5 });
  const ann = await sellTo(campaign, 'ann');
  const older = await takeBackup(store.sql);
  await campaign.refund(ann);
  const key = 'key-of-ben';
  const made = await campaign.checkout('ben', { key });
  const ben = 'reservationId' in made ? made.reservationId : '';
  await campaign.confirm(ben);
  await archive.closeAndArchive(campaign);
  await sale.redis.del(keys.idempotency('ben' as UserId, key as IdempotencyKey));
  const whole = await takeBackup(store.sql);
  const { people } = archive;
  const through = (reader: Partial<ArchivedPeople>) =>
    campaign.through(archive.storeWith(Object.assign(Object.create(people), reader)));
  const back = () => goBack(store.sql, older);
  const usersOf: ArchivedPeople['usersOf'] = (ids) => back().then(() => people.usersOf(ids));
  const read: ArchivedPeople['read'] = (asked) => back().then(() => people.read(asked));
  await expect(through({ usersOf }).refund(ben)).rejects.toMatchObject(UNAVAILABLE);
  await goBack(store.sql, whole);
  await expect(through({ read }).refund(ann)).rejects.toMatchObject(UNAVAILABLE);
  const readBefore: typeof read = async (asked) => {
    const rows = await people.read(asked);
    await goBack(store.sql, whole);
    return rows;
  };
  await expect(through({ read: readBefore }).checkout('ben', { key })).rejects.toMatchObject(UNAVAILABLE);
});

test('a replica of Redis that lacks the mark of lost records decides no late call', async () => {
  const { campaign, ann, late } = await archivedWithoutRefund();
  const pass = String(await passOf(campaign));
  await repair();
  expect(await passOf(campaign)).toBe('lost');
  // A failover right after the repair.
  await sale.redis.hset(keys.campaign(campaign.product), 'archived', pass);
  await expect(late.refund(ann)).rejects.toMatchObject(UNAVAILABLE);
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

/** Sells to these users, who pay. @returns the reservation of the first one */
async function sellTo(campaign: TestCampaign, ...users: string[]): Promise<string> {
  const ids: string[] = [];
  for (const user of users) {
    const id = await campaign.take(user);
    await campaign.confirm(id);
    ids.push(id);
  }
  await store.persist();
  return String(ids[0]);
}

const erase = ({ product }: TestCampaign, user: string) =>
  new UserRecords(sale.store.scripts).erase(product, user as UserId, newPseudonym(), []);

test('no late call is decided by older rows when Redis was filled with an archived campaign before the restore', async () => {
  const campaign = await store.openCampaign({ totalLimit: 5 });
  const ann = await sellTo(campaign, 'ann', 'ben');
  await campaign.setStatus('close');
  await store.persist();
  const backup = await takeBackup(store.sql);
  await campaign.refund(ann);
  await store.persist();
  await fillAgain(sale, store, campaign);
  const late = campaign.through(archive.store);
  await goBack(store.sql, backup);
  await expect(late.refund(ann)).rejects.toMatchObject(UNAVAILABLE);
  await repair();
  expect(await passOf(campaign)).toBe('lost');
  await expect(late.refund(ann)).rejects.toMatchObject(UNAVAILABLE);
});

test('no late call is decided by older rows after a user of the archived campaign was erased', async () => {
  const campaign = await store.openCampaign({ totalLimit: 5 });
  const ann = await sellTo(campaign, 'ann', 'ben', 'cid');
  const backup = await takeBackup(store.sql);
  await campaign.refund(ann);
  const late = await archive.closeAndArchive(campaign);
  await erase(campaign, 'ben');
  await goBack(store.sql, backup);
  await expect(late.refund(ann)).rejects.toMatchObject(UNAVAILABLE);
  await repair();
  await erase(campaign, 'cid');
  expect(await passOf(campaign)).toBe('lost');
  await expect(late.refund(ann)).rejects.toMatchObject(UNAVAILABLE);
});

test('a late refund between a restore and its repair does not count as a loss of the archived campaign', async () => {
  const campaign = await store.openCampaign({ totalLimit: 5 });
  const ann = await sellTo(campaign, 'ann', 'ben');
  const late = await archive.closeAndArchive(campaign);
  const other = await store.openCampaign({ totalLimit: 5 });
  await store.persist();
  const backup = await takeBackup(store.sql);
  await sellTo(other, 'cid');
  await goBack(store.sql, backup);
  expect(await late.refund(ann)).toMatchObject({ kind: 'refunded' });
  const found = (await repair()).campaigns.find(({ product }) => product === campaign.product);
  expect(found?.archivedLoss).toEqual({ units: 0, reservations: 0 });
  expect(await passOf(campaign)).not.toBe('lost');
  await store.persist();
  expect(await store.verdictOf(campaign)).toMatchObject({ lost: 0, drift: 0, differences: [] });
});

/** An archived campaign; Postgres lacks a refund of it. */
async function archivedWithoutRefund() {
  const campaign = await store.openCampaign({ totalLimit: 5 });
  const ann = await sellTo(campaign, 'ann', 'ben');
  const backup = await takeBackup(store.sql);
  await campaign.refund(ann);
  const late = await archive.closeAndArchive(campaign);
  await goBack(store.sql, backup);
  return { campaign, ann, late };
}

test('no late call is decided by older rows when Redis is filled again after the repair, until an operator decides so', async () => {
  const { campaign, ann, late } = await archivedWithoutRefund();
  await repair();
  await store.persist();
  await fillAgain(sale, store, campaign);
  expect(await passOf(campaign)).toBe('lost');
  await expect(late.refund(ann)).rejects.toMatchObject(UNAVAILABLE);
});

test('no late call is decided by older rows when the repair fails before it has marked the campaign', async () => {
  const { ann, late } = await archivedWithoutRefund();
  const redis = Object.create(sale.redis, { hset: { value: () => Promise.reject(new Error('Redis is away')) } });
  const failing = restorePostgres({ ...parts, redis }, { dryRun: false, settleMs: 50 });
  await expect(failing).rejects.toThrow('Redis is away');
  await expect(late.refund(ann)).rejects.toMatchObject(UNAVAILABLE);
  await repair();
  await expect(late.refund(ann)).rejects.toMatchObject(UNAVAILABLE);
});

test('equal counters prove nothing if a refund and a late payment cancel each other', async () => {
  const quiet = await archive.closeAndArchive(await store.openCampaign({ totalLimit: 5, latePayment: 'reacquire' }));
  const campaign = await store.openCampaign({ totalLimit: 5, latePayment: 'reacquire' });
  const closed = await store.openCampaign({ totalLimit: 5, latePayment: 'reacquire' });
  const sold: { one: TestCampaign; ann: string; ben: string }[] = [];
  for (const one of [campaign, closed]) {
    const [ann, ben] = [await sellTo(one, 'ann'), await one.take('ben')];
    await one.release(ben);
    sold.push({ one, ann, ben });
  }
  await closed.setStatus('close');
  await store.persist();
  const backup = await takeBackup(store.sql);
  for (const { one, ann, ben } of sold) {
    await one.refund(ann);
    await one.confirm(ben);
  }
  const late = new Map<TestCampaign, TestCampaign>();
  for (const { one } of sold) {
    await one.setStatus('close');
    await store.persist();
    late.set(one, one.through(archive.store));
  }
  await archive.worker().run();
  await goBack(store.sql, backup);
  for (const dryRun of [true, false]) {
    const findings = await repair(dryRun);
    for (const { one } of sold) {
      const found = findings.campaigns.find(({ product }) => product === one.product);
      expect(found?.archivedLoss).toEqual({ units: 0, reservations: 0, hidden: true });
    }
    expect(reportOf(findings, dryRun).join('\n')).toContain('archived: Postgres may lack a refund');
  }
  for (const { one, ann } of sold) {
    expect(await passOf(one)).toBe('lost');
    await expect(late.get(one)?.refund(ann)).rejects.toMatchObject(UNAVAILABLE);
  }
  expect(await passOf(quiet)).not.toBe('lost');
});
