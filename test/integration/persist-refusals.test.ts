import { afterEach, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import type { RawEntry } from '../../shared/contracts/journal.js';
import { MAX_UNITS } from '../../shared/domain/campaign.js';
import { Database } from '../../shared/postgres/pool.js';
import { RecoveredEntries } from '../../shared/postgres/recovered-entries.js';
import { RefusedEntries } from '../../worker/persist/refused-entries.js';
import { decodeRecovered, readKnownRows } from '../../worker/recovery/known-rows.js';
import type { TestCampaign } from '../harness/campaign.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale } from '../harness/sale.js';
import { until } from '../harness/until.js';

/** Entries that Postgres does not take, in the middle of a batch that it should take. */
const sale = await startSale();
const store = await startPersistence(sale);

afterEach(async () => {
  await sale.expectConsistent();
  await store.sql.query('delete from journal_rejects');
});

async function voidedCount(constraint: string): Promise<number> {
  const { values } = await store.metrics.voided.get();
  return values.find(({ labels }) => labels.constraint === constraint)?.value ?? 0;
}

test('Persist voids the reservation that would break the cap, and saves all the others', async () => {
  const campaign = await store.openCampaign({ totalLimit: 5 });
  await store.insertByHand(campaign, { user: 'another-user', qty: 2 });
  const users = ['ann', 'bob', 'cid', 'dan', 'eve'];
  const ids = await Promise.all(users.map((user) => campaign.take(user)));
  await campaign.join('fay');
  const before = await voidedCount('campaigns_cap');
  // The ledger finds the row that was inserted, and its two units. Voided reservations are no difference, also while
  // the entries by which Redis voids them are not persisted.
  const verdict = { confirmed: 3, voided: 2, lost: 0, over_cap: 0, drift: 3, differences: { length: 2 } };
  await store.persist();
  expect(await store.isCaughtUp()).toBe(false);
  expect(await store.verdictOf(campaign)).toMatchObject(verdict);
  const saved = ['reserved', 'reserved', null];
  const voided = ['voided', 'voided', 'campaigns_cap'];
  expect(await store.bothSides(campaign, ids)).toEqual([saved, saved, saved, voided, voided]);
  expect(await campaign.stock()).toEqual({
    status: 'open',
    total: 3,
    free: 0,
    held: 3,
    redeemed: 0,
    burned: 0,
    waiting: 1,
  });
  await store.persist();
  expect(await store.isCaughtUp()).toBe(true);
  expect(await store.verdictOf(campaign)).toMatchObject(verdict);
  expect(await store.bothSides(campaign, ids)).toEqual([saved, saved, saved, voided, voided]);
  expect(await store.campaignRow(campaign)).toEqual({ status: 'open', total_limit: 5, taken: 5 });
  expect((await voidedCount('campaigns_cap')) - before).toBe(2);
  expect(await store.rejects()).toEqual([]);
});

test('Persist voids the reservation of a user who has used the allowance in Postgres, and the unit goes to the next', async () => {
  const campaign = await store.openCampaign({ totalLimit: 4 });
  await store.insertByHand(campaign, { user: 'cid' });
  await store.sql.query('update campaigns set total_limit = 5 where campaign_id = $1', [campaign.terms.id]);
  const ids = await Promise.all(['ann', 'bob', 'cid', 'dan'].map((user) => campaign.take(user)));
  await campaign.join('eve');
  await store.persist();
  await store.persist();
  expect(await store.isCaughtUp()).toBe(true);
  const saved = ['reserved', 'reserved', null];
  expect(await store.bothSides(campaign, ids)).toEqual([
    saved,
    saved,
    ['voided', 'voided', 'redemptions_one_per_allowance'],
    saved,
  ]);
  expect(await campaign.standing('eve')).toMatchObject({ status: 'promoted' });
  expect(await campaign.stock()).toMatchObject({ total: 4, free: 0, held: 4, waiting: 0 });
  expect(await store.rejects()).toEqual([]);
});

test('Persist counts no unit of a voided reservation as burned, also if a part was burned before', async () => {
  const campaign = await store.openCampaign({ totalLimit: 6, refundPolicy: 'burn' });
  await store.insertByHand(campaign, { user: 'ann' });
  const ids = [await campaign.take('ann', { qty: 3 }), await campaign.take('bob', { qty: 3 })];
  for (const id of ids) {
    await campaign.confirm(id);
    await campaign.refund(id, '', 1);
  }
  await store.persist();
  await store.persist();
  expect(await store.bothSides(campaign, ids)).toMatchObject([
    ['voided', 'voided', expect.any(String)],
    ['redeemed', 'redeemed', null],
  ]);
  expect(await campaign.stock()).toMatchObject({ free: 3, redeemed: 1, burned: 2 });
  expect((await store.campaignRow(campaign))?.taken).toBe(4);
  await campaign.void(String(ids[1]), 'returns');
  await store.persist();
  expect(await campaign.stock()).toMatchObject({ free: 6, redeemed: 0, burned: 0 });
  expect((await store.campaignRow(campaign))?.taken).toBe(1);
  expect(await store.redemption(String(ids[1]))).toMatchObject({ status: 'voided', refunded_qty: 2, burned_qty: 0 });
  expect(await store.rejects()).toEqual([]);
});

test('Persist voids an allowance that Postgres does not grant', async () => {
  const campaign = await store.openCampaign({ perUserLimit: 2 });
  await store.sql.query('update campaigns set per_user_limit = 1 where campaign_id = $1', [campaign.terms.id]);
  const ids = [await campaign.take('ann'), await campaign.take('ann'), await campaign.take('bob')];
  await store.persist();
  await store.persist();
  const saved = ['reserved', 'reserved', null];
  expect(await store.bothSides(campaign, ids)).toEqual([
    saved,
    ['voided', 'voided', 'redemptions_within_limit'],
    saved,
  ]);
  expect(await campaign.stock()).toMatchObject({ total: 10, free: 8, held: 2 });
});

test('whatever the journal says later of a voided reservation, it stays voided', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1, refundPolicy: 'burn' });
  await store.insertByHand(campaign, { user: 'zoe' });
  const id = await campaign.take('ann');
  await campaign.confirm(id, 'pay-1');
  await store.persist();
  await store.persist();
  expect(await store.isCaughtUp()).toBe(true);
  expect(await store.bothSides(campaign, [id])).toEqual([['voided', 'voided', 'campaigns_cap']]);
  expect(await campaign.refund(id)).toEqual({ kind: 'unpaid', state: 'voided' });
  expect(await campaign.stock()).toMatchObject({ total: 0, free: 0, redeemed: 0 });
});

test('Persist voids a late payment that took a unit which another user has in Postgres', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1, latePayment: 'reacquire' });
  const id = await campaign.take('ann');
  await campaign.letDeadlinePass(id);
  await campaign.expire();
  await store.persist();
  await store.insertByHand(campaign, { user: 'zoe' });
  expect(await campaign.confirm(id)).toMatchObject({ kind: 'redeemed', reacquired: true });
  await store.persist();
  expect(await store.bothSides(campaign, [id])).toEqual([['voided', 'voided', 'campaigns_cap']]);
  await store.persist();
  expect(await store.isCaughtUp()).toBe(true);
  expect(await store.bothSides(campaign, [id])).toEqual([['voided', 'voided', 'campaigns_cap']]);
  expect(await campaign.stock()).toMatchObject({ total: 0, free: 0, redeemed: 0 });
});

test('Persist voids once when it dies between Redis and Postgres', async () => {
  const campaign = await store.openCampaign({ totalLimit: 2 });
  await store.insertByHand(campaign, { user: 'zoe' });
  const ids = [await campaign.take('ann'), await campaign.take('bob')];
  class Dying extends RefusedEntries {
    override async settle(...args: Parameters<RefusedEntries['settle']>): Promise<void> {
      await super.settle(...args);
      throw new Error('killed');
    }
  }
  const dying = new Dying(store.refused.deps);
  await expect(store.persist(store.persistWith({ refused: dying }))).rejects.toThrow('killed');
  expect(await store.redemption(String(ids[1]))).toBeUndefined();
  await store.persist();
  await store.persist();
  expect(await store.isCaughtUp()).toBe(true);
  expect(await store.bothSides(campaign, ids)).toEqual([
    ['reserved', 'reserved', null],
    ['voided', 'voided', 'campaigns_cap'],
  ]);
  expect(await campaign.stock()).toMatchObject({ total: 1, free: 0, held: 1 });
});

test('Persist settles an entry once when another worker settles it first', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1 });
  await store.insertByHand(campaign, { user: 'zoe' });
  const id = await campaign.take('ann');
  const refused = await sale.journal.lastId();
  const other = store.persistWith({ batchEntries: 1 });
  /** The other worker comes before the transaction that settles the entry, which alone locks nothing first. */
  class Overtaken extends Database {
    override async transaction<Value>(...[work, first]: Parameters<Database['transaction']>): Promise<Value> {
      if (!first) await other.upTo(refused);
      return super.transaction(work, first) as Promise<Value>;
    }
  }
  const limits = { connections: 3, statementMs: 20_000, connectMs: 5_000 };
  const overtaken = new Overtaken({ url: store.url, name: 'tests', ...limits, onError: () => {} });
  const before = await voidedCount('campaigns_cap');
  await store.persistWith({ database: overtaken }).upTo(refused);
  await overtaken.close();
  expect((await voidedCount('campaigns_cap')) - before).toBe(1);
  const { rows } = await store.sql.query(
    `select count(*)::int as events from outbox_events where subject = $1 and type like '%.voided.%'`,
    [id],
  );
  expect(rows).toEqual([{ events: 1 }]);
  await store.persist();
  expect(await store.bothSides(campaign, [id])).toEqual([['voided', 'voided', 'campaigns_cap']]);
});

test('a restock after a voided reservation makes room in Postgres for what it added', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1 });
  await store.insertByHand(campaign, { user: 'zoe' });
  await campaign.take('ann');
  await store.persist();
  await campaign.restock(1);
  const id = await campaign.take('bob');
  await store.persist();
  await store.persist();
  expect(await store.bothSides(campaign, [id])).toEqual([['reserved', 'reserved', null]]);
});

test('a restock beyond what a campaign may have is refused, not promised', async () => {
  const campaign = await store.openCampaign({ totalLimit: MAX_UNITS - 1 });
  expect(await campaign.restock(2)).toEqual({ kind: 'too_many', maxTotal: MAX_UNITS });
  expect(await campaign.restock(1)).toMatchObject({ kind: 'restocked', total: MAX_UNITS });
  await store.persist();
  expect(await store.rejects()).toEqual([]);
  expect(await store.campaignRow(campaign)).toMatchObject({ total_limit: MAX_UNITS });
});

test('an unlimited campaign sells more units than 32 bits hold', async () => {
  const campaign = await store.openCampaign({ totalLimit: null, maxQty: 1_000_000 });
  for (let from = 0; from < 2_160; from += 240) {
    const users = Array.from({ length: 240 }, (_, i) => `user-${from + i}`);
    await Promise.all(users.map((user) => campaign.take(user, { qty: 1_000_000 })));
  }
  await store.persist();
  expect(await store.isCaughtUp()).toBe(true);
  expect(await store.campaignRow(campaign)).toEqual({ status: 'open', total_limit: null, taken: 2_160_000_000 });
  expect(await store.campaigns.find(campaign.product)).toMatchObject({ held: 2_160_000_000, reservations: 2_160 });
  expect(await store.rejects()).toEqual([]);
});

test('Persist voids nothing by a cap that is older than the total of Redis, and goes on when the restock is back', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1 });
  await campaign.restock(2);
  await store.persist();
  await store.sql.query('update campaigns set total_limit = 1 where campaign_id = $1', [campaign.terms.id]);
  const ids = [await campaign.take('ann'), await campaign.take('bob')];
  await campaign.confirm(String(ids[1]));
  const behind = { name: 'PostgresBehind', productId: campaign.product, totals: { redis: 3, postgres: 1 } };
  for (let times = 0; times < 2; times += 1) await expect(store.persist()).rejects.toMatchObject(behind);
  expect(await store.bothSides(campaign, ids)).toEqual([
    ['reserved', 'reserved', null],
    ['redeemed', undefined, undefined],
  ]);
  expect(await campaign.stock()).toMatchObject({ total: 3, free: 1, held: 1, redeemed: 1 });
  await store.sql.query('update campaigns set total_limit = 3 where campaign_id = $1', [campaign.terms.id]);
  await store.persist();
  expect(await store.isCaughtUp()).toBe(true);
  expect(await store.bothSides(campaign, ids)).toEqual([
    ['reserved', 'reserved', null],
    ['redeemed', 'redeemed', null],
  ]);
});

test('Persist does not take a restock of another campaign for one of this campaign that came later', async () => {
  const [campaign, other] = [await store.openCampaign({ totalLimit: 1 }), await store.openCampaign({ totalLimit: 1 })];
  await campaign.restock(2);
  await store.persist();
  await store.sql.query('update campaigns set total_limit = 1 where campaign_id = $1', [campaign.terms.id]);
  const ids = [await campaign.take('ann'), await campaign.take('bob')];
  await other.restock(2);
  await expect(store.persist()).rejects.toMatchObject({ name: 'PostgresBehind', totals: { redis: 3, postgres: 1 } });
  await store.sql.query('update campaigns set total_limit = 3 where campaign_id = $1', [campaign.terms.id]);
  await store.persist();
  const saved = ['reserved', 'reserved', null];
  expect(await store.bothSides(campaign, ids)).toEqual([saved, saved]);
});

test('a restock that came later does not make room for what was refused before it', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1 });
  await store.insertByHand(campaign, { user: 'zoe' });
  const id = await campaign.take('ann');
  await campaign.restock(5);
  await store.persist(store.persistWith({ batchEntries: 1 }));
  await store.persist();
  expect(await store.bothSides(campaign, [id])).toEqual([['voided', 'voided', 'campaigns_cap']]);
  expect(await campaign.stock()).toMatchObject({ total: 5, free: 5 });
});

describe('terms that Redis has and Postgres has not yet', () => {
  const raised = { perUserLimit: 2, termsVersion: 2 };
  const saved = ['reserved', 'reserved', null];
  const auditOf = async ({ terms }: TestCampaign) =>
    (await store.sql.query('select actor, action from audit_log where campaign_id = $1', [terms.id])).rows;

  test('Persist keeps a second unit when the API died before it committed the terms, and writes them at once', async () => {
    const campaign = await store.openCampaign();
    const first = [await campaign.take('ann'), await campaign.take('bob')];
    expect(await campaign.amend({ perUserLimit: 2 })).toEqual({ kind: 'amended' });
    const ids = [...first, await campaign.take('ann'), await campaign.take('bob')];
    await store.persist();
    expect(await store.isCaughtUp()).toBe(true);
    expect(await store.bothSides(campaign, ids)).toEqual(ids.map(() => saved));
    expect(await store.campaigns.find(campaign.product)).toMatchObject(raised);
    expect(await auditOf(campaign)).toEqual([{ actor: 'clock', action: 'campaign.amend' }]);
    expect(await store.rejects()).toEqual([]);
  });

  test('Persist keeps it also when the other reasons for a refusal are real', async () => {
    const campaign = await store.openCampaign({ totalLimit: 3 });
    await store.insertByHand(campaign, { user: 'zoe' });
    await campaign.amend({ perUserLimit: 2 });
    const ids = [await campaign.take('ann'), await campaign.take('ann'), await campaign.take('bob')];
    await store.persist();
    expect(await store.bothSides(campaign, ids)).toEqual([saved, saved, ['voided', 'voided', 'campaigns_cap']]);
    expect(await store.campaigns.find(campaign.product)).toMatchObject(raised);
  });

  test('Persist voids nothing by a cap that it found after the terms, if Postgres lacks a restock', async () => {
    const campaign = await store.openCampaign({ totalLimit: 1 });
    await campaign.restock(2);
    await store.persist();
    await store.sql.query('update campaigns set total_limit = 1 where campaign_id = $1', [campaign.terms.id]);
    await campaign.amend({ perUserLimit: 2 });
    const ids = [await campaign.take('ann'), await campaign.take('ann')];
    await expect(store.persist()).rejects.toMatchObject({ name: 'PostgresBehind', totals: { redis: 3, postgres: 1 } });
    await store.sql.query('update campaigns set total_limit = 3 where campaign_id = $1', [campaign.terms.id]);
    await store.persist();
    expect(await store.bothSides(campaign, ids)).toEqual([saved, saved]);
  });

  /** Raises the limit in a change of an operator, who commits it when the work waits for it. */
  async function raiseDuring(campaign: TestCampaign, work: () => Promise<unknown>): Promise<void> {
    const operator = new pg.Client({ connectionString: store.url });
    await operator.connect();
    try {
      await operator.query('begin');
      const change = 'update campaigns set per_user_limit = 2, terms_version = 2 where campaign_id = $1';
      await operator.query(change, [campaign.terms.id]);
      await campaign.amend({ perUserLimit: 2 });
      const done = work();
      const waits = `select 1 from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and query like '%for no key update'`;
      await until('the work waits', async () => (await store.sql.query(waits)).rowCount === 1);
      await operator.query('commit');
      await done;
    } finally {
      await operator.end();
    }
  }

  test('Persist waits for a change that an operator has not committed yet, and writes no terms of its own', async () => {
    const campaign = await store.openCampaign();
    const ids = [await campaign.take('ann')];
    // Its row changes the counters of the campaign, so it would wait for the operator itself.
    await store.persist();
    await raiseDuring(campaign, async () => {
      ids.push(await campaign.take('ann'));
      await store.persist();
    });
    expect(await store.bothSides(campaign, ids)).toEqual([saved, saved]);
    expect(await store.campaigns.find(campaign.product)).toMatchObject(raised);
    expect(await auditOf(campaign)).toEqual([]);
  });

  test('a recovery waits for such a change before it voids what Redis had lost', async () => {
    const campaign = await store.openCampaign();
    const ids = [await campaign.take('ann')];
    await store.persist();
    await raiseDuring(campaign, async () => {
      ids.push(await campaign.take('ann'));
      const lost = await sale.journal.read(await store.cursor.read(), 10);
      expect(await store.recover(lost)).toMatchObject({ applied: 1, rejected: 0 });
    });
    await store.persist();
    expect(await store.bothSides(campaign, ids)).toEqual([saved, saved]);
  });

  test('Persist voids nothing while Postgres does not take the terms, and reports why', async () => {
    const campaign = await store.openCampaign();
    await campaign.amend({ perUserLimit: 2 });
    const ids = [await campaign.take('ann'), await campaign.take('ann')];
    await store.sql.query('alter table campaigns add constraint low_limit check (per_user_limit < 2) not valid');
    try {
      const behind = { name: 'PostgresBehind', message: expect.stringMatching(/lacks the terms of .*low_limit/) };
      for (let times = 0; times < 2; times += 1) await expect(store.persist()).rejects.toMatchObject(behind);
    } finally {
      await store.sql.query('alter table campaigns drop constraint low_limit');
    }
    await store.persist();
    expect(await store.bothSides(campaign, ids)).toEqual([saved, saved]);
  });
});

test('a recovery expires no reservation about which a later fact says that it was paid in time', async () => {
  const campaign = await store.openCampaign();
  const [paid, other] = [await campaign.take('ann'), await campaign.take('bob')];
  const [first, second] = await sale.journal.read(await store.cursor.read(), 2);
  const no = String(first?.fields.no);
  const fact = (reservation: string, state: string): RawEntry => ({
    journalId: `9-9-${reservation}`,
    fields: { kind: 'acknowledged', of: 'reservation', no, at: '1', reservation, record: `${state}|ann|1|1|1|0|o|` },
  });
  const recovered = new RecoveredEntries(store.database);
  await recovered.save('a process', [fact(paid, 'redeemed'), fact(other, 'released')]);
  await store.persist();
  const { heldUntil } = await store.database.transaction((client) =>
    readKnownRows(
      client,
      [first, second].flatMap((raw) => (raw ? [decodeRecovered(raw)] : [])),
      recovered,
    ),
  );
  expect([heldUntil.get(paid), heldUntil.get(other)]).toEqual([Number.POSITIVE_INFINITY, 0]);
  await recovered.markApplied(store.database, [{ journalId: `9-9-${paid}` }, { journalId: `9-9-${other}` }]);
});
