import { afterEach, expect, test } from '@jest/globals';
import { Journal } from '../../shared/redis/journal.js';
import { JOURNAL_START, journalPlace } from '../../shared/redis/journal-ids.js';
import { keys } from '../../shared/redis/keys.js';

import { startPersistence } from '../harness/persistence.js';
import { startSale } from '../harness/sale.js';

/** Journal entries that hold all promises of one call: how they are numbered, read, written in part and trimmed. */
const sale = await startSale();
const store = await startPersistence(sale);
afterEach(() => sale.expectConsistent());

const users = (count: number) => Array.from({ length: count }, (_, i) => `user-${i}`);
const journalRows = () => sale.redis.xlen(keys.journal);

test('the promises of a call are one entry, and their numbers have no gap', async () => {
  const campaign = await store.openCampaign({ totalLimit: 5 });
  await campaign.take('first');
  await store.persist();
  const before = journalPlace(await sale.journal.lastId())[1];
  const outcomes = await Promise.all(users(6).map((user) => campaign.checkout(user)));
  await campaign.join('alone');
  expect(await journalRows()).toBe(2);
  const ids = (await sale.journal.read(JOURNAL_START, 100)).map(({ journalId }) => journalPlace(journalId)[1]);
  expect(ids).toEqual([1, 2, 3, 4, 5, 6, 7].map((n) => before + n));
  expect(outcomes.map((one) => 'journalId' in one && journalPlace(one.journalId)[1])).toEqual(ids.slice(0, 6));
  expect(await sale.journal.backlog()).toMatchObject({ entries: 7 });
  await store.persist();
  expect(await sale.journal.backlog()).toEqual({ entries: 0, oldestMs: null });
});

test('more promises than one entry holds are several entries', async () => {
  const campaign = await store.openCampaign({ totalLimit: 200 });
  await Promise.all(users(150).map((user) => campaign.take(user)));
  expect(await journalRows()).toBe(3);
  await store.persist();
  expect(await store.isCaughtUp()).toBe(true);
  expect(await store.campaignRow(campaign)).toMatchObject({ taken: 150 });
});

test('the next batch is urgent when this one is full or responses wait for commits of its campaign', async () => {
  const fast = await store.openCampaign({ totalLimit: 10 });
  const durable = await store.openCampaign({ totalLimit: 10, confirmation: 'durable' });
  const persist = store.persistWith({ batchEntries: 2 });
  const isUrgent = async () => (await persist.upTo(await sale.journal.lastId())).isUrgent;
  await fast.take('ann');
  expect(await isUrgent()).toBe(false);
  await fast.take('bob');
  await fast.take('cid');
  expect(await isUrgent()).toBe(true);
  const id = await durable.take('ann');
  expect(await isUrgent()).toBe(true);
  // A payment does not say it, so it is remembered.
  await durable.confirm(id);
  expect(await isUrgent()).toBe(true);
  await durable.amend({ confirmation: 'fast' });
  await durable.take('bob');
  expect(await isUrgent()).toBe(false);
});

test('an entry stays until all of its promises are committed, and is continued where Postgres is', async () => {
  const campaign = await store.openCampaign({ totalLimit: 10 });
  await Promise.all(users(10).map((user) => campaign.take(user)));
  const ids = (await sale.journal.read(await store.cursor.read(), 100)).map(({ journalId }) => journalId);
  const small = store.persistWith({ batchEntries: 4 });
  await small.upTo(String(ids[3]));
  expect(await store.cursor.read()).toBe(ids[3]);
  expect(await store.campaignRow(campaign)).toMatchObject({ taken: 4 });
  expect(await journalRows()).toBe(1);
  // Another worker, which has not read it before.
  const rest = await new Journal(sale.redis).read(String(ids[3]), 100);
  expect(rest.map(({ journalId }) => journalId)).toEqual(ids.slice(4));
  await store.persist();
  expect(await store.campaignRow(campaign)).toMatchObject({ taken: 10 });
  expect(await journalRows()).toBe(0);
});

test('a reader gets as many entries as it asks for, however they are packed', async () => {
  const campaign = await store.openCampaign({ totalLimit: 500 });
  await Promise.all(users(100).map((user) => campaign.take(user)));
  for (const user of users(40)) await campaign.checkout(`late-${user}`);
  const after = await store.cursor.read();
  const journal = new Journal(sale.redis);
  const read: string[] = [];
  for (const limit of [1, 70, 3, 20, 20, 60]) {
    const some = await journal.read(read.at(-1) ?? after, limit);
    expect(some.length).toBe(Math.min(limit, 140 - read.length));
    read.push(...some.map(({ journalId }) => journalId));
  }
  expect(read.length).toBe(140);
  await store.persist();
});

test('one promise that Postgres refuses is voided alone, inside an entry of many', async () => {
  const campaign = await store.openCampaign({ totalLimit: 40 });
  await store.insertByHand(campaign, { user: 'user-17' });
  await store.sql.query('update campaigns set total_limit = 41 where campaign_id = $1', [campaign.terms.id]);
  const ids = await Promise.all(users(40).map((user) => campaign.take(user)));
  expect(await journalRows()).toBe(1);
  await store.persist();
  await store.persist();
  const states = await store.bothSides(campaign, ids);
  expect(states.filter(([, status]) => status === 'voided')).toEqual([
    ['voided', 'voided', 'redemptions_one_per_allowance'],
  ]);
  expect(states[17]).toEqual(['voided', 'voided', 'redemptions_one_per_allowance']);
  expect(await store.rejects()).toEqual([]);
});

test('promises that cannot be decoded are kept for a person, and what is beside them is saved', async () => {
  const campaign = await store.openCampaign({ totalLimit: 9 });
  await Promise.all(users(2).map((user) => campaign.take(user)));
  const [generation, last] = journalPlace(await sale.journal.lastId());
  await sale.redis.xadd(keys.journal, `${generation}-${last + 3}`, 'no', 1, 'count', 3, 'promises', 'x\na\tb\nc');
  await Promise.all(users(2).map((user) => campaign.take(`later-${user}`)));
  await store.persist();
  expect(await store.campaignRow(campaign)).toMatchObject({ taken: 4 });
  expect((await store.rejects()).length).toBe(3);
  await store.sql.query('delete from journal_rejects');
});

test('the journal holds exactly as many promises as it may, however they are packed', async () => {
  await store.persist();
  const campaign = await store.openCampaign({ totalLimit: 500 });
  const limited = campaign.through(sale.storeWith({ journalLimitEntries: 81 }));
  await Promise.all(users(41).map((user) => limited.take(user)));
  const outcomes = await Promise.all(users(46).map((user) => limited.checkout(`later-${user}`)));
  expect(outcomes.map(({ kind }) => kind)).toEqual([
    ...Array.from({ length: 40 }, () => 'reserved'),
    ...Array.from({ length: 6 }, () => 'journal_full'),
  ]);
  expect(await sale.journal.backlog()).toMatchObject({ entries: 81 });
  await store.persist();
});
