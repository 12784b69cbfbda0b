import { afterEach, expect, test } from '@jest/globals';
import type { IdempotencyKey, UserId } from '../../shared/domain/ids.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import { campaignKeys, keys } from '../../shared/redis/keys.js';
import { decided } from '../../shared/sale/recall.js';
import { IdempotencyKeys } from '../../worker/archive/idempotency-keys.js';
import { restoreCampaign } from '../../worker/recovery/restore-campaign.js';
import { TestArchive } from '../harness/archive.js';
import { newKey, type TestCampaign } from '../harness/campaign.js';
import { keyNames } from '../harness/key-names.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale, TEST_LIMITS } from '../harness/sale.js';

/** Campaigns that are over, through the worker's archive and back. */
const sale = await startSale();
const store = await startPersistence(sale);
const archive = new TestArchive(sale, store);
afterEach(() => sale.expectConsistent());

const left = async (campaign: TestCampaign) => (await keyNames(sale.redis, `*${campaign.product}*`)).sort();
const keyOf = (campaign: TestCampaign, name: string) => `${campaign.product}-${name}`;

async function verdictOf(campaign: TestCampaign) {
  await store.persist();
  return store.verdictOf(campaign);
}
const CLEAN = { lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] };

/** Users with every possible outcome. @returns their reservations */
async function manyFates(campaign: TestCampaign): Promise<Record<string, string>> {
  const ids: Record<string, string> = {};
  for (const name of ['paid', 'given', 'expired', 'refunded', 'again']) {
    ids[name] = await campaign.take(name, { key: keyOf(campaign, name) });
  }
  const of = (name: string) => String(ids[name]);
  for (const name of ['paid', 'refunded']) await campaign.confirm(of(name), `pay-${name}`);
  await campaign.release(of('given'));
  await campaign.release(of('again'));
  ids.again2 = await campaign.take('again', { key: keyOf(campaign, 'again2') });
  await campaign.confirm(of('again2'));
  await campaign.refund(of('refunded'));
  await campaign.letDeadlinePass(of('expired'));
  await campaign.expire();
  // What was moved in Redis only.
  const { dueMs } = (await campaign.reservation(of('expired'))) ?? { dueMs: 0 };
  await store.persist();
  await store.sql.query('update redemptions set pay_before = ms($2) where redemption_id = $1', [ids.expired, dueMs]);
  ids.filler = await campaign.take('filler', { qty: 3 });
  ids.last = await campaign.take('last');
  for (const name of ['gone', 'served', 'stays']) await campaign.join(name, { key: keyOf(campaign, name) });
  await campaign.checkout('stays', { key: keyOf(campaign, 'waits still') });
  await campaign.leave('gone');
  await campaign.release(of('last'));
  ids.served = String((await campaign.person('served'))?.reservation);
  for (const name of ['served', 'filler']) await campaign.confirm(of(name));
  return ids;
}

const PEOPLE = ['paid', 'given', 'expired', 'refunded', 'again', 'filler', 'last', 'gone', 'served', 'stays', 'nobody'];

/**
 * What repetitions are answered; nothing of it changes anything.
 * @param before each of them; so each can be the first that comes back
 */
async function repetitions(
  campaign: TestCampaign,
  ids: Record<string, string>,
  before: () => Promise<unknown> = async () => {},
): Promise<unknown[]> {
  const of = (name: string) => String(ids[name]);
  const checkout = (user: string, key: string, qty = 1) =>
    [`${user} ${key} ${qty}`, () => campaign.checkout(user, { key: keyOf(campaign, key), qty })] as const;
  const questions: (readonly [string, () => Promise<unknown>])[] = [
    ...PEOPLE.map((who) => [`standing ${who}`, () => campaign.standing(who)] as const),
    ...['gone', 'stays', 'paid', 'nobody'].map((who) => [`leave ${who}`, () => campaign.leave(who)] as const),
    ...Object.keys(ids).map((name) => [`confirm ${name}`, () => campaign.confirm(of(name))] as const),
    ...Object.keys(ids).map((name) => [`release ${name}`, () => campaign.release(of(name))] as const),
    ...['given', 'expired', 'refunded'].map((name) => [`refund ${name}`, () => campaign.refund(of(name))] as const),
    ['void', () => campaign.void(of('given'), 'returns')],
    ['release of another', () => campaign.release(of('given'), 'somebody else')],
    ...(['confirm', 'release', 'refund'] as const).map((call) => [call, () => campaign[call](NOBODYS)] as const),
    ...['paid', 'given', 'again', 'gone', 'served', 'stays'].map((name) => checkout(name, name)),
    checkout('again', 'again2'),
    checkout('stays', 'waits still'),
    checkout('paid', 'paid', 2),
    checkout('nobody', 'nobody'),
    checkout('paid', 'new'),
    ['restock', () => campaign.restock(1, { key: keyOf(campaign, 'restock') })],
  ];
  const answers: unknown[] = [];
  for (const [question, ask] of questions) {
    await before();
    answers.push([question, await ask()]);
  }
  return answers;
}
const NOBODYS = '01890a5d-ac96-774b-bcce-b302099a8057';

async function lifeOfMany(terms: Parameters<typeof store.openCampaign>[0] = {}) {
  const campaign = await store.openCampaign({ totalLimit: 6, ...terms });
  await campaign.restock(0, { key: keyOf(campaign, 'restock') });
  const ids = await manyFates(campaign);
  await campaign.setStatus('close');
  await store.persist();
  return { campaign, ids };
}

test('an archived campaign returns the same responses to returning users as before, and archives them again later', async () => {
  const { campaign, ids } = await lifeOfMany();
  const before = await repetitions(campaign, ids);
  const archived = await archive.closeAndArchive(campaign);
  const bare = [`db1:i:|${keyOf(campaign, 'restock')}`, keys.campaign(campaign.product)].sort();
  expect(await left(campaign)).toEqual(bare);
  const last = await sale.journal.lastId();
  expect(await repetitions(archived, ids)).toEqual(before);
  // Only those, and none of the strangers.
  expect([...(await campaign.inRedis()).people.keys()].sort()).toEqual(PEOPLE.filter((who) => who !== 'nobody').sort());
  expect(await sale.journal.lastId()).toBe(last);
  expect(await verdictOf(campaign)).toMatchObject({ confirmed: 9, persisted: 9, ...CLEAN });
  await archive.worker().run();
  expect((await left(campaign)).filter((key) => !key.startsWith('db1:i:'))).toEqual([keys.campaign(campaign.product)]);
  const empty = async () => {
    await archive.worker().run();
    const answers = (await left(campaign)).filter((key) => key.startsWith('db1:i:') && !key.endsWith('restock'));
    if (answers.length > 0) await sale.redis.del(...answers);
    expect(await left(campaign)).toEqual(bare);
  };
  expect(await repetitions(archived, ids, empty)).toEqual(before);
  expect(await verdictOf(campaign)).toMatchObject({ confirmed: 9, persisted: 9, ...CLEAN });
});

for (const refundPolicy of ['return', 'burn'] as const) {
  test(`a refund after the end is decided and written as ever: ${refundPolicy}`, async () => {
    const { campaign, ids } = await lifeOfMany({ refundPolicy, totalLimit: refundPolicy === 'burn' ? 7 : 6 });
    const archived = await archive.closeAndArchive(campaign);
    const before = await campaign.stock();
    const outcome = { kind: 'refunded', returned: refundPolicy === 'return' };
    expect(await archived.refund(String(ids.paid))).toMatchObject(outcome);
    expect(await archived.refund(String(ids.paid))).toMatchObject(outcome);
    await store.persist();
    const burned = refundPolicy === 'burn';
    expect(await store.redemption(String(ids.paid))).toMatchObject({ status: 'refunded', burned });
    expect(await campaign.stock()).toMatchObject({
      redeemed: Number(before?.redeemed) - 1,
      burned: burned ? Number(before?.burned) + 1 : before?.burned,
    });
    await archive.worker().run();
    expect(await left(campaign)).not.toContain(keys.people(campaign.product));
    expect(await archived.refund(String(ids.paid))).toMatchObject(outcome);
    expect(await archived.standing('paid')).toMatchObject({ status: 'released' });
    expect(await verdictOf(campaign)).toMatchObject(CLEAN);
  });
}

test('a late payment takes a free unit again, once, with the code if no other user has used it', async () => {
  const campaign = await store.openCampaign({ type: 'pool', totalLimit: 9, latePayment: 'reacquire' });
  await store.issueCodes(campaign, 9);
  const [anns, bobs] = [await campaign.use('ann', 3), await campaign.use('bob', 4)];
  for (const id of [anns, bobs]) await campaign.release(id);
  await campaign.confirm(await campaign.use('cid', 4));
  const archived = await archive.closeAndArchive(campaign);
  expect(await campaign.usedCodes()).toEqual([4]);
  expect(await archived.confirm(bobs)).toMatchObject({ kind: 'ended', state: 'released' });
  const late = { kind: 'redeemed', reacquired: true };
  expect(await archived.confirm(anns)).toMatchObject(late);
  expect(await archived.standing('ann')).toMatchObject({ status: 'redeemed', code: 3 });
  expect(await campaign.usedCodes()).toEqual([3, 4]);
  await store.persist();
  expect(await store.redemption(anns)).toMatchObject({ status: 'redeemed', reacquired: true, code_no: 3 });
  await archive.worker().run();
  expect(await campaign.usedCodes()).toEqual([3, 4]);
  expect(await archived.confirm(anns)).toMatchObject(late);
  expect(await verdictOf(campaign)).toMatchObject(CLEAN);
  await loseAndRestore(campaign);
  expect(await campaign.usedCodes()).toEqual([3, 4]);
  expect(await archived.confirm(bobs)).toMatchObject({ kind: 'ended', state: 'released' });
});

test('a user who reacquired an old reservation has the status that they had', async () => {
  const campaign = await store.openCampaign({ latePayment: 'reacquire', perUserLimit: 2 });
  const [first, second] = [await campaign.take('ann'), await campaign.take('ann')];
  await campaign.release(first);
  await campaign.confirm(second);
  await campaign.confirm(first);
  const before = await campaign.standing('ann');
  expect(before).toMatchObject({ reservationId: first });
  const archived = await archive.closeAndArchive(campaign);
  expect(await archived.standing('ann')).toEqual(before);
});

test('an archived campaign is left alone until Postgres has all of it, and while Postgres has other rows', async () => {
  const { campaign } = await lifeOfMany();
  const isThere = async () => (await campaign.store.reader.archived(campaign.product)) === null;
  const another = await store.openCampaign();
  await another.setStatus('close');
  await archive.worker().run();
  expect(await another.store.reader.archived(another.product)).toBeNull();
  // The other campaign is complete in Postgres, where another program has removed a unit.
  const { campaign: cut } = await lifeOfMany();
  const [row] = await store.redemptions(cut);
  await store.sql.query('delete from redemptions where redemption_id = $1', [row?.redemption_id]);
  await archive.worker().run();
  expect(await isThere()).toBe(false);
  expect(await cut.store.reader.archived(cut.product)).toBeNull();
  expect(store.log.lines.filter(({ fields }) => fields.campaign === cut.product)).toMatchObject([{ level: 'warn' }]);
  expect(await verdictOf(cut)).toMatchObject({ lost: 1 });
});

test('a worker that dies while it forgets answers is followed by one that goes on there', async () => {
  const campaign = await store.openCampaign({ totalLimit: 9 });
  const users = ['ann', 'bob', 'cid', 'dan', 'eve'];
  for (const user of users) await campaign.confirm(await campaign.take(user, { key: keyOf(campaign, user) }));
  await campaign.setStatus('close');
  await store.persist();
  const pages: string[] = [];
  const dying = {
    page: async (id: string, after: string, limit: number) => {
      pages.push(after);
      if (pages.length === 2) throw new EngineUnavailable('postgres', 'the worker is killed here');
      return new IdempotencyKeys(store.database).page(id, after, limit);
    },
  };
  const answers = async () => (await left(campaign)).filter((key) => key.startsWith('db1:i:'));
  await expect(archive.worker({ forgetBatch: 2 }, { idempotencyKeys: dying }).run()).rejects.toThrow('killed');
  expect(await answers()).toHaveLength(3);
  pages.push('died');
  await archive.worker({ forgetBatch: 2 }, { idempotencyKeys: dying }).run();
  expect(await answers()).toEqual([]);
  expect(pages.slice(3)[0]).toBe(pages[1]);
  expect((await campaign.inRedis()).fields.forgotten).toBe('done');
  const replay = await campaign.through(archive.store).checkout('ann', { key: keyOf(campaign, 'ann') });
  expect(replay).toMatchObject({ kind: 'replayed' });
});

test('the names of its idempotency records go with the records of a campaign', async () => {
  const [campaign, other] = [await store.openCampaign(), await store.openCampaign()];
  for (const one of [campaign, other]) await one.confirm(await one.take('ann', { key: keyOf(one, 'ann') }));
  await store.persist();
  const lists = (one: TestCampaign) => keyNames(sale.redis, `db1:r:${one.terms.no}:*`);
  expect(await lists(campaign)).toHaveLength(1);
  await archive.closeAndArchive(campaign);
  expect(await lists(campaign)).toEqual([]);
  expect(await lists(other)).toHaveLength(1);
});

test('a key that belongs to another campaign by now is not forgotten', async () => {
  const [campaign, other] = [await store.openCampaign(), await store.openCampaign()];
  const key = newKey();
  await campaign.confirm(await campaign.take('ann', { key }));
  await campaign.setStatus('close');
  await sale.redis.del(keys.idempotency('ann' as UserId, key as IdempotencyKey));
  await other.take('ann', { key });
  await archive.closeAndArchive(campaign);
  expect(await other.checkout('ann', { key })).toMatchObject({ kind: 'replayed' });
});

test('an answer whose time is over is not recalled', async () => {
  const campaign = await store.openCampaign();
  const key = newKey();
  await campaign.confirm(await campaign.take('ann', { key }));
  await archive.closeAndArchive(campaign);
  const later = campaign.through(archive.storeWith(archive.people, 1));
  expect(await later.checkout('ann', { key })).toMatchObject({ kind: 'ended' });
  expect(await campaign.through(archive.store).checkout('ann', { key })).toMatchObject({ kind: 'replayed' });
  expect(await sale.redis.pttl(keys.idempotency('ann' as UserId, key as IdempotencyKey))).toBeLessThanOrEqual(10_000);
});

/** Redis loses everything of a campaign, its answers too. */
async function loseAndRestore(campaign: TestCampaign): Promise<void> {
  await store.persist();
  const answers = (await left(campaign)).filter((key) => key.startsWith('db1:i:'));
  await sale.redis.del(...campaignKeys(campaign.product), ...answers);
  const stored = await store.campaigns.find(campaign.product);
  if (!stored) throw new Error('the campaign is not in Postgres');
  const parts = { database: store.database, cursor: store.cursor, sale: sale.store, log: store.log };
  await sale.fill(async (token) =>
    restoreCampaign({ ...parts, idempotencyTtlMs: TEST_LIMITS.idempotencyTtlMs }, stored, await sale.nowMs(), token),
  );
}

test('a Redis that lost an archived campaign gets only its hash, and every user gets the same responses', async () => {
  const { campaign, ids } = await lifeOfMany();
  const before = await repetitions(campaign, ids);
  const stock = await campaign.stock();
  const archived = await archive.closeAndArchive(campaign);
  await loseAndRestore(campaign);
  expect(await left(campaign)).toEqual(
    [`db1:i:|${keyOf(campaign, 'restock')}`, keys.campaign(campaign.product)].sort(),
  );
  expect(await campaign.stock()).toEqual(stock);
  expect(await repetitions(archived, ids)).toEqual(before);
  expect(await verdictOf(campaign)).toMatchObject(CLEAN);
});

test('a closed campaign with a held unit is restored whole, and archived after the payment', async () => {
  const campaign = await store.openCampaign();
  const held = await campaign.take('ann');
  await campaign.setStatus('close');
  await loseAndRestore(campaign);
  expect((await campaign.inRedis()).deadlines.size).toBe(1);
  expect(await campaign.confirm(held)).toMatchObject({ kind: 'redeemed' });
  const archived = await archive.closeAndArchive(campaign);
  expect(await archived.confirm(held)).toMatchObject({ kind: 'redeemed' });
});

test('the ledger finds a row that is gone or was made up, and counters that lie', async () => {
  const { campaign } = await lifeOfMany();
  await archive.closeAndArchive(campaign);
  const row = (await store.redemptions(campaign)).find(({ status }) => status === 'released');
  await store.sql.query('delete from redemptions where redemption_id = $1', [row?.redemption_id]);
  expect(await verdictOf(campaign)).toMatchObject({ confirmed: 9, persisted: 8, lost: 1, drift: 0 });
  await store.insertByHand(campaign, { user: 'made up', status: 'released' });
  expect(await verdictOf(campaign)).toMatchObject(CLEAN);
  await store.insertByHand(campaign, { user: 'made up too', status: 'released' });
  expect(await verdictOf(campaign)).toMatchObject({ lost: 0, drift: 1 });
  const redeemed = Number((await campaign.inRedis()).fields.redeemed);
  await campaign.set({ redeemed: redeemed - 1, free: 1 });
  expect(await verdictOf(campaign)).toMatchObject({ lost: 0, drift: 2 });
  await campaign.set({ redeemed, free: 0 });
});

test('a crowd of latecomers is looked up in groups, one at a time', async () => {
  const campaign = await store.openCampaign();
  await campaign.confirm(await campaign.take('ann'));
  await archive.closeAndArchive(campaign);
  const groups: number[] = [];
  let [reading, most] = [0, 0];
  const counting = {
    committed: () => archive.people.committed(0),
    usersOf: (ids: readonly string[]) => archive.people.usersOf(ids),
    read: async (asked: Parameters<typeof archive.people.read>[0]) => {
      groups.push(asked.length);
      reading += 1;
      most = Math.max(most, reading);
      const found = await archive.people.read(asked);
      reading -= 1;
      return found;
    },
  };
  const late = campaign.through(archive.storeWith(counting));
  const outcomes = await Promise.all(Array.from({ length: 2_000 }, (_, i) => late.checkout(`late-${i}`)));
  expect(new Set(outcomes.map(({ kind }) => kind))).toEqual(new Set(['ended']));
  expect(most).toBe(1);
  expect(groups.reduce((sum, size) => sum + size, 0)).toBe(2_000);
  expect(Math.max(...groups)).toBeLessThanOrEqual(500);
  expect(groups.length).toBeLessThan(60);
  expect((await campaign.inRedis()).people.size).toBe(0);
});

test('without Postgres a late request gets Retry-After instead of campaign_ended', async () => {
  const campaign = await store.openCampaign();
  const paid = await campaign.take('ann');
  await campaign.confirm(paid);
  await archive.closeAndArchive(campaign);
  const away = () => Promise.reject(new EngineUnavailable('postgres', 'away'));
  const late = campaign.through(archive.storeWith({ read: away, usersOf: away, committed: away }));
  for (const call of [
    () => late.checkout('bob'),
    () => late.standing('ann'),
    () => late.confirm(paid),
    () => late.leave('ann'),
  ]) {
    await expect(call()).rejects.toThrow(EngineUnavailable);
  }
});

test('a user who is archived again after each recall gets Retry-After', async () => {
  const missed = { kind: 'archived', pass: '1-1@1' } as const;
  let brought = 0;
  const recall = { answer: async () => true, person: async () => true, reservation: async () => true };
  const call = decided(
    async () => missed,
    async () => {
      brought += 1;
      return true;
    },
    () => 'nobody' as never,
    recall,
  );
  await expect(call).rejects.toThrow('archived again');
  expect(brought).toBe(3);
});

test('a recall finds users by indexes', async () => {
  const campaign = await store.openCampaign({ totalLimit: 5_000, perUserLimit: 2 });
  await store.sql.query(
    `insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, reserved_at)
     select gen_random_uuid(), $1, 'u' || i, 'o' || i, 1, 1 + i % 2, case when i % 3 = 0 then 'released' else 'redeemed' end, now()
     from generate_series(1, 4000) i`,
    [campaign.terms.id],
  );
  await store.sql.query(
    `insert into waiting_tickets (campaign_id, line_no, user_id, qty, status, reservation_id, joined_at)
     select $1, i, 'u' || i, 1, 'closed', gen_random_uuid(), now() from generate_series(1, 4000) i`,
    [campaign.terms.id],
  );
  await store.sql.query(
    `insert into remembered_answers (idempotency_key, campaign_id, answer, made_at)
     select 'u' || i || '|plan-' || i, $1, '1|1|u' || i || '|Q|1|1|t1', now() from generate_series(1, 4000) i`,
    [campaign.terms.id],
  );
  await store.sql.query('vacuum analyze');
  const plans: string[] = [];
  const explaining = {
    query: async (sql: string, values: unknown[]) => {
      const { rows } = await store.database.query(`explain ${sql}`, values);
      plans.push(rows.map((row) => row['QUERY PLAN']).join('\n'));
      return { rows: [] };
    },
  };
  const { ArchivedPeople } = await import('../../shared/postgres/archived-people.js');
  const reader = new ArchivedPeople(explaining as never);
  await reader.read([{ product: campaign.product, user: 'u7' }]);
  await reader.usersOf([NOBODYS]);
  const all = plans.join('\n');
  for (const index of [
    'redemptions_one_per_allowance',
    'redemptions_ended_by_user',
    'waiting_tickets_ended_by_user',
    'remembered_answers_by_user',
    'redemptions_pkey',
  ]) {
    expect(all).toContain(index);
  }
  expect(all).not.toMatch(/Seq Scan on (redemptions|waiting_tickets|remembered_answers)/);
});
