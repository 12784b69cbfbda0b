import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { uuidv7 } from 'uuidv7';
import { SaleMinutes } from '../../shared/postgres/sale-minutes.js';
import { Breaking } from '../harness/breaking-database.js';
import type { TestCampaign } from '../harness/campaign.js';
import { expectMinutesOfRows, totalsOf } from '../harness/minutes.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale } from '../harness/sale.js';

/** The minutes of sales, compared with the reservations and places that they count. */
const sale = await startSale();
const store = await startPersistence(sale);
const minutes = new SaleMinutes(store.database);
const [FROM, TO] = [new Date('2020-01-01T00:00:00Z'), new Date('2100-01-01T00:00:00Z')];
const LINE = { enabled: true, maxSize: 100, presenceSeconds: null };

type Step =
  | { kind: 'checkout'; user: number; qty: number; laterMs: number }
  | { kind: 'confirm' | 'release' | 'refund' | 'lapse' | 'void'; which: number }
  | { kind: 'reduce'; which: number; how: 'release' | 'refund' }
  | { kind: 'leave'; user: number }
  | { kind: 'persist'; batch: number; breaks: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('checkout' as const),
      user: fc.nat(12),
      qty: fc.integer({ min: 1, max: 2 }),
      laterMs: fc.integer({ min: 0, max: 90_000 }),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constantFrom('confirm' as const, 'release' as const, 'refund' as const, 'lapse' as const),
      which: fc.nat(20),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('leave' as const), user: fc.nat(12) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('reduce' as const),
      which: fc.nat(20),
      how: fc.constantFrom('release' as const, 'refund' as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('void' as const), which: fc.nat(20) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('persist' as const),
      batch: fc.integer({ min: 1, max: 9 }),
      breaks: fc.nat(9),
    }),
  },
);

/** Runs a sale whose clock goes on by up to 90 s at each checkout; batches break off and are repeated. */
async function runSale(campaign: TestCampaign, steps: readonly Step[]): Promise<void> {
  const breaking = Breaking.of(store.url);
  try {
    let at = campaign;
    let nowMs = await sale.nowMs();
    for (const one of steps) {
      const ids = [...(await at.inRedis()).reservations.keys()];
      const id = 'which' in one ? String(ids[one.which % Math.max(1, ids.length)]) : '';
      if (one.kind === 'checkout') {
        nowMs += one.laterMs;
        at = campaign.at(nowMs);
        await at.checkout(`u${one.user}`, { qty: one.qty });
      } else if (one.kind === 'leave') await at.leave(`u${one.user}`);
      else if (one.kind === 'persist') {
        breaking.left = one.breaks;
        // An interrupted batch is repeated by the next step, or at the end.
        const persist = store.persistWith({ database: breaking, batchEntries: one.batch });
        await store.persist(persist).catch((error: Error) => expect(error.message).toBe('interrupted'));
        await expectMinutesOfRows(store.sql);
      } else if (ids.length === 0) continue;
      else if (one.kind === 'lapse') {
        await at.letDeadlinePass(id);
        await at.expire();
      } else if (one.kind === 'void') await store.refused.deps.redemptions.voidExisting(store.sql, id, 'a_constraint');
      else if (one.kind === 'reduce') {
        await (one.how === 'release' ? at.release(id, null, '', '', 1) : at.refund(id, '', 1));
      } else await at[one.kind](id);
      await at.promote();
    }
    await store.persist();
  } finally {
    await breaking.close();
  }
}

test('minutes are what the rows say, after any sale whose commits are interrupted and repeated', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 40 }), async (steps) => {
      const campaign = await store.openCampaign({
        ...{ totalLimit: 3, maxQty: 2, perUserLimit: 2, holdSeconds: 900, waitingRoom: LINE, latePayment: 'reacquire' },
      });
      await runSale(campaign, steps);
      await expectMinutesOfRows(store.sql);
      expect(await minutes.read(campaign.terms.id, FROM, TO)).toEqual(
        await minutes.readRows(campaign.terms.id, FROM, TO),
      );
    }),
    // A busy machine makes fewer.
    { numRuns: 12, interruptAfterTimeLimit: 20_000, markInterruptAsFailure: false },
  );
});

test('a campaign counts its users once: reserved, paid, promoted, expired, released and refunded', async () => {
  const campaign = await store.openCampaign({ totalLimit: 3, maxQty: 2, holdSeconds: 900, waitingRoom: LINE });
  const two = await campaign.take('ann', { qty: 2 });
  const one = await campaign.take('bob');
  for (const user of ['cid', 'dan', 'eve']) await campaign.join(user);
  await campaign.confirm(two);
  await campaign.release(one);
  await campaign.promote();
  await store.persist();
  const [held] = (await store.redemptions(campaign)).filter(({ user_id }) => user_id === 'cid');
  await campaign.letDeadlinePass(String(held?.redemption_id));
  await campaign.expire();
  await campaign.refund(two);
  await store.persist();
  await store.persist();
  expect(totalsOf(await minutes.read(campaign.terms.id, FROM, TO))).toEqual({
    ...{ reserved: 2, joined: 3, promoted: 3, paid: 1, paid_units: 2, expired: 1, released: 1, refunded: 1 },
  });
  await expectMinutesOfRows(store.sql);
  // As an erasure does.
  const before = await minutes.read(campaign.terms.id, FROM, TO);
  await store.sql.query(`update redemptions set user_id = 'erased-' || user_id, reason = null where campaign_id = $1`, [
    campaign.terms.id,
  ]);
  expect(await minutes.read(campaign.terms.id, FROM, TO)).toEqual(before);
  await expectMinutesOfRows(store.sql);
  // As when a late payment is refused.
  await store.refused.deps.redemptions.voidExisting(store.sql, String(held?.redemption_id), 'a_constraint');
  const voided = await minutes.read(campaign.terms.id, FROM, TO);
  expect(totalsOf(voided)).toMatchObject({ promoted: 2, expired: 0 });
  await expectMinutesOfRows(store.sql);
});

test('units count as paid when they were paid, whatever is given back before or after', async () => {
  const campaign = await store.openCampaign({ totalLimit: 9, maxQty: 3, holdSeconds: 900 });
  const id = await campaign.take('ann', { qty: 3 });
  await campaign.release(id, null, '', '', 2);
  await campaign.confirm(id);
  await store.persist();
  await campaign.refund(id, '', 1);
  await store.persist();
  expect(totalsOf(await minutes.read(campaign.terms.id, FROM, TO))).toMatchObject({
    ...{ paid: 1, paid_units: 2, released: 0, refunded: 0 },
  });
  await expectMinutesOfRows(store.sql);
});

test('a reservation that Postgres refuses counts nowhere', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1, waitingRoom: LINE, holdSeconds: 900 });
  const first = await campaign.take('ann');
  await campaign.join('bob');
  await store.insertByHand(campaign, { user: 'zoe' });
  await store.persist();
  expect(await store.redemption(first)).toMatchObject({ status: 'voided' });
  expect(totalsOf(await minutes.read(campaign.terms.id, FROM, TO))).toMatchObject({
    reserved: 1,
    joined: 1,
    promoted: 0,
  });
  await expectMinutesOfRows(store.sql);
});

test('the first minute is that of the beginning, and the end is excluded', async () => {
  const campaign = await store.openCampaign({ totalLimit: 9 });
  const insert = (at: string) =>
    store.sql.query(
      `insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, reserved_at)
       values ($1::uuid, $2, $1::uuid::text, $1::uuid::text, 1, 1, 'reserved', $3)`,
      [uuidv7(), campaign.terms.id, at],
    );
  for (const at of ['10:00:59.999', '10:01:00', '10:01:30', '10:03:00']) await insert(`2026-11-22T${at}Z`);
  const read = async (from: string, to: string) =>
    (await minutes.read(campaign.terms.id, new Date(`2026-11-22T${from}Z`), new Date(`2026-11-22T${to}Z`))).map(
      ({ minute, reserved }) => [minute.toISOString().slice(11, 16), reserved],
    );
  expect(await read('10:00:00', '11:00:00')).toEqual([
    ['10:00', 1],
    ['10:01', 2],
    ['10:03', 1],
  ]);
  expect(await read('10:01:59', '10:03:00')).toEqual([['10:01', 2]]);
  await store.sql.query(`delete from redemptions where campaign_id = $1`, [campaign.terms.id]);
  expect(await read('10:00:00', '11:00:00')).toEqual([]);
});

test('the median of waits is that of the users who were promoted in the minute', async () => {
  const campaign = await store.openCampaign({ totalLimit: 9 });
  const promoted = async (lineNo: number, joined: string, reserved: string) => {
    const id = uuidv7();
    await store.sql.query(
      `insert into waiting_tickets (campaign_id, line_no, user_id, qty, status, reservation_id, joined_at, ended_at)
       values ($1, $2, $3::uuid::text, 1, 'promoted', $3::uuid, $4, $5)`,
      [campaign.terms.id, lineNo, id, joined, reserved],
    );
    await store.sql.query(
      `insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, reserved_at, line_no)
       values ($1::uuid, $2, $1::uuid::text, $1::uuid::text, 1, 1, 'reserved', $3, $4)`,
      [id, campaign.terms.id, reserved, lineNo],
    );
  };
  const waits = [1, 2, 90, 3_600, 7_200];
  const end = Date.parse('2026-11-22T12:00:30Z');
  for (const [i, wait] of waits.entries())
    await promoted(i + 1, new Date(end - wait * 1_000).toISOString(), new Date(end).toISOString());
  const found = await minutes.read(campaign.terms.id, new Date('2026-11-22T12:00:00Z'), TO);
  expect(found).toHaveLength(1);
  expect(found[0]?.promoted).toBe(5);
  expect(Math.abs(Number(found[0]?.median_wait_seconds) - 90)).toBeLessThanOrEqual(90 * 0.025);
  await expectMinutesOfRows(store.sql);
});
