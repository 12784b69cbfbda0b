import { afterEach, expect, test } from '@jest/globals';
import type { IdempotencyKey, OrderId, UserId } from '../../shared/domain/ids.js';
import { CampaignSnapshot, type UserRows } from '../../shared/postgres/snapshot.js';
import { JOURNAL_START } from '../../shared/redis/journal-ids.js';
import { campaignKeys, keys, type RefilledKey } from '../../shared/redis/keys.js';
import { SaleStore } from '../../shared/sale/sale-store.js';
import { UnpersistedPromises } from '../../shared/sale/unpersisted-promises.js';
import { restoreCampaign } from '../../worker/recovery/restore-campaign.js';
import { newKey, type TestCampaign } from '../harness/campaign.js';
import { keyNames } from '../harness/key-names.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale, TEST_LIMITS } from '../harness/sale.js';

/** A campaign that Redis has lost and gets back from Postgres. */
const sale = await startSale();
const store = await startPersistence(sale);
afterEach(() => sale.expectConsistent());

/**
 * Writes what is journaled, loses everything that Redis had of the campaign, the answers to these keys and the used
 * one-time tokens too, and fills it again.
 */
async function loseAndRestore(campaign: TestCampaign, answers: readonly string[] = []): Promise<void> {
  const { product } = campaign;
  await store.persist();
  const patterns = answers.map((key) => keys.idempotency('*' as UserId, key as IdempotencyKey));
  const others = [...patterns, keys.once(product, '*')].map((pattern) => keyNames(sale.redis, pattern));
  await sale.redis.del(...campaignKeys(product), ...(await Promise.all(others)).flat());
  const stored = await store.campaigns.find(product);
  if (!stored) throw new Error('the campaign is not in Postgres');
  const parts = { database: store.database, cursor: store.cursor, sale: sale.store, log: store.log };
  await sale.fill(async (token) =>
    restoreCampaign({ ...parts, idempotencyTtlMs: TEST_LIMITS.idempotencyTtlMs }, stored, await sale.nowMs(), token),
  );
}

const kept = (promises: UnpersistedPromises) => promises.after(JOURNAL_START, Number.POSITIVE_INFINITY, 100);
/** What is in Redis only: former terms, the pace of the line, and the counts of velocity. */
const ONLY_THERE = ['restored_at', 'former', 'pace', 'counted_since', 'rate', 'usual', 'calm_until', 'alerted'];
const withoutCounts = (fields: Record<string, string>) =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => !ONLY_THERE.includes(name)));

test('all users in the line count as seen again, also those who had stepped back, and a closed line stays closed', async () => {
  const waitingRoom = { enabled: true, maxSize: 9, presenceSeconds: 60 };
  const campaign = await store.openCampaign({ totalLimit: 1, waitingRoom, type: 'pool' });
  await store.issueCodes(campaign, 9);
  const held = await campaign.use('ann', 1);
  await campaign.join('bob');
  await campaign.join('cid');
  await campaign.letPresenceLapse('bob');
  await campaign.tend();
  await loseAndRestore(campaign);
  const { line, presence } = await campaign.inRedis();
  expect(line).toEqual([
    { user: 'bob', lineNo: 1, away: false },
    { user: 'cid', lineNo: 2, away: false },
  ]);
  expect([...presence.keys()].sort()).toEqual(['bob', 'cid']);
  await campaign.redeem('dan', 5);
  await campaign.confirm(held);
  expect(await campaign.tend({ settled: true })).toMatchObject({ closed: 3 });
  await loseAndRestore(campaign);
  expect(await campaign.stock()).toMatchObject({ free: 0, redeemed: 1, waiting: 0 });
  expect(await campaign.standing('dan')).toMatchObject({ status: 'closed' });
  // Any user may use the code of the left place again.
  expect(await campaign.usedCodes()).toEqual([1]);
  expect((await store.tickets(campaign)).map(({ status }) => status)).toEqual(['closed', 'closed', 'closed']);
});

test('a filled Redis has the stock, the promises, the deadlines, the line and the allowances that it had', async () => {
  const campaign = await store.openCampaign({ totalLimit: 5, perUserLimit: 2, refundPolicy: 'burn' });
  await campaign.take('ann', { qty: 2, order: 'cart-1' });
  const burned = await campaign.take('bob');
  await campaign.confirm(burned);
  await campaign.refund(burned);
  await campaign.confirm(await campaign.take('bob'));
  const released = await campaign.take('cid');
  await campaign.join('dan', { qty: 2, order: 'cart-2' });
  await campaign.join('eve');
  await campaign.join('fay');
  await campaign.leave('eve');
  await campaign.release(released);
  const before = await campaign.inRedis();
  const users = ['ann', 'bob', 'cid', 'dan', 'eve', 'fay', 'nobody'];
  const standings = await Promise.all(users.map((user) => campaign.standing(user)));
  await loseAndRestore(campaign);
  const { people: _, ...after } = await campaign.inRedis();
  const { people: __, ...expected } = before;
  // The pace of the line is in Redis only, so there is no estimate until it is known again.
  expect({ ...after, fields: withoutCounts(after.fields) }).toEqual({
    ...expected,
    fields: withoutCounts(expected.fields),
  });
  expect(await Promise.all(users.map((user) => campaign.standing(user)))).toEqual(standings);
  expect(await campaign.join('gus')).toBe(3);
  expect(await campaign.restock(1)).toMatchObject({ total: 6 });
  expect(await campaign.standing('dan')).toMatchObject({ status: 'promoted', orderId: 'cart-2' });
});

test('a filled Redis refuses a used one-time token, and the older ones of users with a promise', async () => {
  const terms = { type: 'unique', totalLimit: 9, perUserLimit: 3 } as const;
  const campaign = await store.openCampaign(terms, { require_token: true });
  await store.issueCodes(campaign, 9);
  const { oneTimeTokenMs } = TEST_LIMITS;
  const issue = async (nonce: string) => ({ once: { nonce, expiresAtMs: (await sale.nowMs()) + oneTimeTokenMs } });
  const [used, releasedSince, unused] = [await issue('used'), await issue('released'), await issue('unused')];
  const key = newKey();
  await campaign.use('ann', 1, { ...used, key });
  await campaign.release(await campaign.use('bob', 2, releasedSince));
  await loseAndRestore(campaign);
  expect(await campaign.redeem('ann', 1, { ...used, key })).toMatchObject({ kind: 'replayed' });
  expect((await campaign.redeem('ann', 3, used)).kind).toBe('token_expired');
  expect((await campaign.redeem('bob', 2, releasedSince)).kind).toBe('token_expired');
  expect((await campaign.redeem('cid', 4, unused)).kind).toBe('reserved');
  expect((await campaign.redeem('dan', 5, unused)).kind).toBe('token_used');
  const fresh = await issue('fresh');
  expect((await campaign.redeem('ann', 6, fresh)).kind).toBe('reserved');
  expect((await campaign.redeem('ann', 7, fresh)).kind).toBe('token_used');
});

test('a filled Redis knows which codes are used, by promises and by those who wait, and hands out the lowest that is not', async () => {
  const campaign = await store.openCampaign({ type: 'pool', totalLimit: 9, perUserLimit: 9, refundPolicy: 'burn' });
  await store.issueCodes(campaign, 20);
  const first = await campaign.take('ann');
  const second = await campaign.take('ann');
  const third = await campaign.take('bob');
  await campaign.confirm(third);
  await campaign.use('cid', 18);
  await campaign.take('dan', { qty: 3 });
  await campaign.confirm(first);
  await campaign.refund(first);
  await campaign.release(second);
  await campaign.take('eve', { qty: 2 });
  await campaign.take('eve');
  expect((await campaign.redeem('fay', 11)).kind).toBe('queued');
  expect((await campaign.redeem('gus', 12)).kind).toBe('queued');
  await campaign.leave('gus');
  await campaign.join('hal');
  const { fields: known, reservations, line, usedCodes } = await campaign.inRedis();
  const fields = withoutCounts(known);
  expect(usedCodes).toEqual([1, 2, 3, 4, 5, 11, 18]);
  await loseAndRestore(campaign);
  const after = await campaign.inRedis();
  expect(after).toMatchObject({ fields, reservations, line, usedCodes });
  expect([after.people.get('fay')?.code, after.people.get('hal')?.code]).toEqual(['11', '']);
  expect(await campaign.redeem('ida', 11)).toEqual({ kind: 'code_used' });
  await campaign.restock(2);
  expect(await campaign.standing('fay')).toMatchObject({ status: 'promoted', code: 11 });
  expect(await campaign.standing('hal')).toMatchObject({ status: 'promoted', code: 6 });
});

test('a filled Redis knows the codes that the people of a closed line came with', async () => {
  const campaign = await store.openCampaign({ type: 'pool', totalLimit: 0 });
  await store.issueCodes(campaign, 9);
  await campaign.redeem('ann', 5);
  await campaign.setStatus('close');
  await loseAndRestore(campaign);
  expect(await campaign.usedCodes()).toEqual([5]);
});

test('a filled Redis replays the responses to redemptions, and distinguishes them from checkouts', async () => {
  const campaign = await store.openCampaign({ type: 'pool', totalLimit: 2, perUserLimit: 2 });
  await store.issueCodes(campaign, 9);
  const requests: [string, string, number | null][] = [
    [newKey(), 'ann', 3],
    [newKey(), 'bob', null],
    [newKey(), 'cid', 4],
  ];
  const askAll = async () => {
    const outcomes = [];
    for (const [key, user, code] of requests) {
      const order = `cart-of-${user}`;
      outcomes.push(
        await (code ? campaign.redeem(user, code, { key, order }) : campaign.checkout(user, { key, order })),
      );
    }
    return outcomes;
  };
  expect((await askAll()).map(({ kind }) => kind)).toEqual(['reserved', 'reserved', 'queued']);
  const replies = await askAll();
  expect(replies.map(({ kind }) => kind)).toEqual(['replayed', 'replayed', 'replayed']);
  await loseAndRestore(
    campaign,
    requests.map(([key]) => key),
  );
  expect(await askAll()).toEqual(replies);
  const [annsKey = '', bobsKey = ''] = requests.map(([key]) => key);
  expect(await campaign.checkout('ann', { key: annsKey })).toEqual({ kind: 'key_reused' });
  expect(await campaign.redeem('bob', 3, { key: bobsKey })).toEqual({ kind: 'key_reused' });
  expect(await campaign.usedCodes()).toEqual([1, 3, 4]);
});

test.each(['first', 'again'] as const)(
  'promises that only an API kept that acknowledged them %s are in the rows with codes and terms, and the responses are the same',
  async (which) => {
    const memories = { first: new UnpersistedPromises(100), again: new UnpersistedPromises(100) };
    const plain = await store.openCampaign({ type: 'pool', totalLimit: 2, perUserLimit: 2 });
    await store.issueCodes(plain, 9);
    await store.persist();
    const through = (memory: UnpersistedPromises) =>
      plain.through(new SaleStore(sale.store.scripts, TEST_LIMITS, memory));
    const [annsKey, bobsKey, cidsKey] = [newKey(), newKey(), newKey()];
    const ask = async (campaign: TestCampaign) => [
      await campaign.redeem('ann', 7, { key: annsKey, order: 'cart-1' }),
      await campaign.checkout('bob', { key: bobsKey }),
      await campaign.redeem('cid', 4, { key: cidsKey, order: 'cart-3' }),
    ];
    await ask(through(memories.first));
    const replies = await ask(through(memories.again));
    expect(memories[which].size).toBe(3);
    expect(await store.loseJournal(kept(memories[which]))).toMatchObject({ applied: 3, rejected: 0 });
    await loseAndRestore(plain, [annsKey, bobsKey, cidsKey]);
    expect(
      (await store.redemptions(plain)).map(({ user_id, code_no, terms_version }) => [user_id, code_no, terms_version]),
    ).toEqual([
      ['ann', 7, 1],
      ['bob', 1, 1],
    ]);
    const { rows } = await store.sql.query('select user_id, code_no from waiting_tickets where campaign_id = $1', [
      plain.terms.id,
    ]);
    expect(rows).toEqual([{ user_id: 'cid', code_no: 4 }]);
    expect(await plain.usedCodes()).toEqual([1, 4, 7]);
    expect(await ask(plain)).toEqual(replies);
  },
);

const dueAfter = async (campaign: TestCampaign, reservation: string) => {
  const outcome = await campaign.extend(reservation);
  return outcome.kind === 'extended' ? outcome.dueMs : outcome.kind;
};

test.each(['first', 'again'] as const)(
  'a reservation is extended once, also if only an API kept it that said so %s',
  async (which) => {
    const memories = { first: new UnpersistedPromises(100), again: new UnpersistedPromises(100) };
    const plain = await store.openCampaign({ totalLimit: 2 });
    await store.persist();
    const id = await plain.take('ann');
    const extend = (memory: UnpersistedPromises) =>
      dueAfter(plain.through(new SaleStore(sale.store.scripts, TEST_LIMITS, memory)), id);
    const due = await extend(memories.first);
    expect(await extend(memories.again)).toBe(due);
    expect(await store.loseJournal(kept(memories[which]))).toMatchObject({ applied: 1, rejected: 0 });
    await loseAndRestore(plain);
    expect(await dueAfter(plain, id)).toBe(due);
  },
);

test('a saved promise whose code Postgres knows to be used is refused and named, and the others are kept', async () => {
  const memory = new UnpersistedPromises(100);
  const plain = await store.openCampaign({ type: 'pool', totalLimit: 3 });
  await store.issueCodes(plain, 9);
  await store.insertByHand(plain, { user: 'somebody', code: 2 });
  const campaign = plain.through(new SaleStore(sale.store.scripts, TEST_LIMITS, memory));
  await campaign.use('ann', 2);
  await campaign.use('bob', 3);
  expect(await store.loseJournal(kept(memory))).toMatchObject({ applied: 1, rejected: 1 });
  const rows = await store.redemptions(plain);
  expect(rows.filter(({ user_id }) => user_id === 'ann')).toMatchObject([
    { status: 'voided', reason: 'redemptions_one_per_code' },
  ]);
  await loseAndRestore(plain);
  expect(await plain.usedCodes()).toEqual([2, 3]);
  expect(await plain.stock()).toMatchObject({ free: 1, held: 1, redeemed: 1 });
});

test('of many saved promises those are kept that Postgres accepts, and each refused one is named', async () => {
  const memory = new UnpersistedPromises(1_000);
  const plain = await store.openCampaign({ type: 'pool', totalLimit: 100 });
  await store.issueCodes(plain, 99);
  const campaign = plain.through(new SaleStore(sale.store.scripts, TEST_LIMITS, memory));
  const refused = [3, 4, 5, 40, 60];
  for (let code = 1; code <= 60; code += 1) await campaign.use(`user-${code}`, code);
  // Another server has sold these since.
  for (const code of refused) await store.insertByHand(plain, { user: `other-${code}`, code });
  expect(await store.loseJournal(kept(memory))).toMatchObject({ applied: 55, rejected: 5 });
  const rows = await store.redemptions(plain);
  const voided = rows.filter(({ status }) => status === 'voided');
  expect(voided.map(({ code_no }) => Number(code_no)).sort((a, b) => a - b)).toEqual(refused);
  expect(rows).toHaveLength(65);
  const { rows: events } = await store.sql.query(
    `select count(*)::int as n from outbox_events where campaign_id = $1 and type = 'dev.doorbuster.redemption.voided.v1'`,
    [plain.terms.id],
  );
  expect(events).toEqual([{ n: 5 }]);
  const { rows: rejects } = await store.sql.query(`select * from journal_rejects where fields->>'no' = $1`, [
    String(plain.terms.no),
  ]);
  expect(rejects).toEqual([]);
  await loseAndRestore(plain);
});

test('a refill writes every key of a campaign that is a fact or follows from facts', async () => {
  const presence = { enabled: true, maxSize: 9, presenceSeconds: 60 };
  const campaign = await store.openCampaign({ totalLimit: 2, waitingRoom: presence, type: 'pool' });
  await store.issueCodes(campaign, 9);
  const [key, order] = [newKey(), 'cart-1' as OrderId];
  await campaign.confirm(await campaign.take('ann', { key, order }), 'pay-1');
  await campaign.take('bob');
  await campaign.join('cid', { device: 'phone', holderDevice: 'phone' });
  const { product } = campaign;
  const patternOf = {
    campaign: keys.campaign(product),
    people: keys.people(product),
    reservations: keys.reservations(product),
    payments: keys.payments(product),
    deadlines: keys.deadlines(product),
    line: keys.line(product),
    presence: keys.presence(product),
    usedCodes: keys.usedCodes(product),
    holders: keys.holders(product),
    idempotency: keys.idempotency('ann' as UserId, key as IdempotencyKey),
    requests: keys.requests(campaign.terms.no, 0).replace(/0$/, '*'),
    order: keys.order('ann' as UserId, order),
  } satisfies Record<RefilledKey, string>;
  const missing = async () => {
    const found = await Promise.all(Object.values(patternOf).map((pattern) => keyNames(sale.redis, pattern)));
    return Object.keys(patternOf).filter((_, i) => found[i]?.length === 0);
  };
  await store.persist();
  const names = await Promise.all(Object.values(patternOf).map((pattern) => keyNames(sale.redis, pattern)));
  await sale.redis.del(...names.flat());
  expect(await missing()).toEqual(Object.keys(patternOf));
  await loseAndRestore(campaign);
  expect(await missing()).toEqual([]);
});

test('users come page by page, each once and with all rows, however large a page is', async () => {
  const campaign = await store.openCampaign({ totalLimit: 9, perUserLimit: 4 });
  for (const user of ['bob', 'Ann', 'ann', 'cid', 'dan']) await campaign.take(user);
  for (let i = 0; i < 3; i += 1) await campaign.release(await campaign.take('cid'));
  await campaign.confirm(await campaign.take('ann'));
  await campaign.take('dan', { qty: 3 });
  await campaign.join('cid');
  await campaign.join('eve');
  await campaign.leave('eve');
  await campaign.join('eve');
  await store.persist();
  const snapshot = new CampaignSnapshot(store.database, campaign.terms.id);
  const pagesOf = async (batch: number) => {
    const pages: UserRows[][] = [];
    for await (const page of snapshot.users(batch)) pages.push(page);
    return pages;
  };
  const byName = (pages: UserRows[][]) =>
    pages.flat().sort((one, other) => (one.user < other.user ? -1 : Number(one.user > other.user)));
  const [all, ...others] = await pagesOf(100);
  expect(others).toEqual([]);
  expect(all?.map(({ user, reservations, tickets }) => [user, reservations.length, tickets.length]).sort()).toEqual([
    ...[
      ['Ann', 1, 0],
      ['ann', 2, 0],
      ['bob', 1, 0],
      ['cid', 4, 1],
      ['dan', 2, 0],
      ['eve', 0, 2],
    ],
  ]);
  for (const batch of [1, 2, 3, 5, 13]) {
    const pages = await pagesOf(batch);
    expect(pages.length).toBeGreaterThan(1);
    expect(byName(pages)).toEqual(byName([all ?? []]));
  }
});

test('a filled Redis returns the first responses again', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1, perUserLimit: 2 });
  const [annsKey, bobsKey] = [newKey(), newKey()];
  await campaign.take('ann', { key: annsKey });
  await campaign.join('bob', { key: bobsKey });
  const first = [await campaign.checkout('ann', { key: annsKey }), await campaign.checkout('bob', { key: bobsKey })];
  await loseAndRestore(campaign, [annsKey, bobsKey]);
  expect([await campaign.checkout('ann', { key: annsKey }), await campaign.checkout('bob', { key: bobsKey })]).toEqual(
    first,
  );
  expect(await campaign.stock()).toMatchObject({ held: 1, waiting: 1 });
});

test('a filled Redis gives the ticket of a place to the device that took it again, and to no derived fingerprint', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1 });
  const derived = `fp-${'a1'.repeat(20)}`;
  await campaign.take('ann');
  await campaign.join('bob', { device: 'phone', holderDevice: 'phone' });
  await campaign.join('cid', { device: derived });
  await campaign.join('dan', { device: 'pad', holderDevice: 'pad' });
  await campaign.leave('dan');
  await campaign.join('dan');
  await loseAndRestore(campaign);
  const placeOf = async (user: string, holderDevice: string) => {
    const outcome = await campaign.checkout(user, { holderDevice });
    return outcome.kind === 'waiting' ? outcome.reservationId : outcome.kind;
  };
  expect(await placeOf('bob', 'phone')).toBe((await campaign.person('bob'))?.reservation);
  expect(await placeOf('bob', 'pad')).toBe('');
  expect(await placeOf('cid', derived)).toBe('');
  expect(await placeOf('dan', 'pad')).toBe('');
});

test('a filled Redis returns to each user the responses of their own keys, also where others have the same one', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1, perUserLimit: 2 });
  const key = newKey();
  await campaign.take('ann');
  for (const user of ['bob', 'cid', 'dan']) await campaign.join(user);
  const waiting = ['bob', 'cid', 'dan'];
  for (const user of waiting) expect((await campaign.checkout(user, { key })).kind).toBe('waiting');
  const first = await Promise.all(waiting.map((user) => campaign.checkout(user, { key })));
  expect(first.map(({ kind }) => kind)).toEqual(['replayed', 'replayed', 'replayed']);
  await loseAndRestore(campaign, [key]);
  expect(await Promise.all(waiting.map((user) => campaign.checkout(user, { key })))).toEqual(first);
});

test('a filled Redis returns the responses of two campaigns to one key, if they were in two shards before', async () => {
  const [one, other] = [await store.openCampaign({ totalLimit: 1 }), await store.openCampaign({ totalLimit: 1 })];
  const [annsKey, evesKey, restocked] = [newKey(), newKey(), newKey()];
  const records = (key: string) => keyNames(sale.redis, keys.idempotency('*' as UserId, key as IdempotencyKey));
  const first: unknown[] = [];
  const all = async (campaign: TestCampaign) => [
    await campaign.checkout('ann', { key: annsKey }),
    await campaign.checkout('eve', { key: evesKey }),
    await campaign.restock(2, { key: restocked }),
  ];
  for (const campaign of [one, other]) {
    await campaign.take('ann', { key: annsKey });
    await campaign.join('eve');
    await campaign.checkout('eve', { key: evesKey });
    await campaign.restock(2, { key: restocked });
    first.push(await all(campaign));
    // As if the campaign was in another shard.
    for (const key of [annsKey, evesKey, restocked]) await sale.redis.del(...(await records(key)));
  }
  await loseAndRestore(one);
  await loseAndRestore(other);
  expect([await all(one), await all(other)]).toEqual(first);
  // A refill of a Redis that has the records.
  await loseAndRestore(one);
  expect([await all(one), await all(other)]).toEqual(first);
  const third = await store.openCampaign({ totalLimit: 1 });
  expect(await third.checkout('ann', { key: annsKey })).toEqual({ kind: 'key_reused' });
});

test('a filled Redis does not repeat a restock that an operator asks for again', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1 });
  const key = newKey();
  await campaign.restock(2, { key });
  await loseAndRestore(campaign, [key]);
  expect(await campaign.restock(2, { key })).toMatchObject({ kind: 'restocked', total: 3 });
});

test('a restock that a process saves late is not added again to its repetition', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1 });
  await store.persist();
  const key = newKey();
  await campaign.restock(2, { key });
  const late = await sale.journal.read(await store.cursor.read(), 10);
  await store.loseJournal([]);
  await loseAndRestore(campaign, [key]);
  expect(await campaign.restock(2, { key })).toMatchObject({ kind: 'restocked', total: 3 });
  await store.persist();
  await store.recover(late);
  expect(await store.campaigns.find(campaign.product)).toMatchObject({ totalLimit: 3 });
});

test('a filled Redis gives no second unit to a user who repeats the request that returned the place', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1, perUserLimit: 2 });
  const [reservation, key] = [await campaign.take('ann'), newKey()];
  await campaign.join('bob');
  expect((await campaign.checkout('bob', { key })).kind).toBe('waiting');
  await campaign.release(reservation);
  await campaign.restock(1);
  await loseAndRestore(campaign, [key]);
  expect((await campaign.checkout('bob', { key })).kind).toBe('replayed');
});
