import { expect, test } from '@jest/globals';
import { uuidv7 } from 'uuidv7';
import type { FreshReservation, FreshReservations } from '../../api/support/fresh-reservations.js';
import { PersonHistory } from '../../api/support/person-history.js';
import { type FinderDeps, RedemptionFinder } from '../../api/support/redemption-finder.js';
import {
  type CampaignNo,
  newReservationPrefix,
  orderIdOf,
  type ProductId,
  reservationIdOf,
  type UserId,
} from '../../shared/domain/ids.js';
import type { Database } from '../../shared/postgres/pool.js';
import { RedemptionSearch } from '../../shared/postgres/redemption-search.js';
import { createTestDatabase } from '../harness/engines.js';

/** A search of a reservation reads Redis and Postgres. It may be written to Postgres between any two of these reads. */
const { client: sql } = await createTestDatabase();
const campaignId = uuidv7();
await sql.query(
  `insert into campaigns (campaign_id, product_id, name, type, per_user_limit, max_qty, starts_at, time_zone, hold_seconds,
     waiting_room, confirmation, late_payment, refund_policy, require_attestation, rules, status)
   values ($1, 'product', 'a', 'shared', 1, 1, now(), 'UTC', 60, '{}', 'fast', 'refuse', 'return', false, '{}', 'open')`,
  [campaignId],
);
const no = (await sql.query('select no from campaigns')).rows[0].no as CampaignNo;

/** A reservation that Redis has. `finder` calls `beforeRead` with the number of the read, from 1, before each one. */
function decided(beforeRead: (read: number, write: () => Promise<void>) => Promise<void>, slots = 1, dueMs = 0) {
  const prefix = newReservationPrefix();
  const id = reservationIdOf(prefix, no);
  const user = `user-${prefix}`;
  const write = async () => {
    await sql.query(
      `insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, reserved_at)
       values ($1, $2, $3, $4, 1, 1, 'reserved', now())`,
      [id, campaignId, user, orderIdOf(id)],
    );
  };
  let reads = 0;
  const read = async () => {
    reads += 1;
    await beforeRead(reads, write);
  };
  const record: FreshReservation = {
    id,
    product: 'product' as ProductId,
    user: user as UserId,
    state: 'reserved',
    qty: 1,
    slot: 1,
    dueMs,
    lineNo: 0,
    orderId: '',
    code: null,
  };
  const database = {
    query: async (text: string, values: unknown[]) => {
      await read();
      return sql.query(text, values);
    },
  } as unknown as Database;
  const fresh = {
    byId: async (ids: readonly string[]) => {
      await read();
      return new Map(ids.filter((one) => one === id).map((one) => [one, record]));
    },
    ofUser: async () => {
      await read();
      return { reservations: [record], places: [], slots: new Map([[record.product, slots]]) };
    },
  } as unknown as FreshReservations;
  const deps = { search: new RedemptionSearch(database), history: new PersonHistory(database), fresh };
  return { finder: new RedemptionFinder(deps as unknown as FinderDeps), id, user, reads: () => reads };
}

test.each([
  ['reservation_id', ({ id }: { id: string }) => ({ reservation_id: id })],
  ['order_id', ({ id }: { id: string }) => ({ order_id: orderIdOf(id) })],
  ['user_id', ({ user }: { user: string }) => ({ user_id: user })],
])('finds a reservation by %s once, whenever it is written', async (_, query) => {
  const unwritten = decided(async () => {});
  expect((await unwritten.finder.find({ ...query(unwritten), limit: 5 })).rows).toHaveLength(1);
  for (let at = 1; at <= unwritten.reads(); at += 1) {
    const one = decided((read, write) => (read === at ? write() : Promise.resolve()));
    const { rows, complete } = await one.finder.find({ ...query(one), limit: 5 });
    expect([at, complete, rows.map(({ redemption_id }) => redemption_id)]).toEqual([at, true, [one.id]]);
  }
});

test('a deadline that was extended and not written yet is that of Redis', async () => {
  const later = '2030-01-01T00:10:00.000Z';
  const one = decided((read, write) => (read === 1 ? write() : Promise.resolve()), 1, Date.parse(later));
  const found = await one.finder.find({ reservation_id: one.id, limit: 5 });
  expect(found.rows).toMatchObject([{ status: 'reserved', pay_before: later, written: false }]);
  await sql.query('update redemptions set pay_before = $2 where redemption_id = $1', [one.id, later]);
  const written = await one.finder.find({ reservation_id: one.id, limit: 5 });
  expect(written.rows).toMatchObject([{ pay_before: later, written: true }]);
});

test('a search by user is not complete while Redis counts more reservations than are known', async () => {
  const one = decided(async () => {}, 2);
  const find = async () => (await one.finder.find({ user_id: one.user, limit: 5 })).complete;
  expect(await find()).toBe(false);
  const known = decided(async () => {}, 1);
  expect((await known.finder.find({ user_id: known.user, limit: 5 })).complete).toBe(true);
});

test('a search by user that does not look at all campaigns that sell is not complete, but current', async () => {
  const openMore = (count: number) =>
    sql.query(
      `insert into campaigns (campaign_id, product_id, name, type, per_user_limit, max_qty, starts_at, time_zone, hold_seconds,
         waiting_room, confirmation, late_payment, refund_policy, require_attestation, rules, status)
       select gen_random_uuid(), gen_random_uuid(), 'a', 'shared', 1, 1, now(), 'UTC', 60, '{}', 'fast', 'refuse', 'return',
         false, '{}', 'open' from generate_series(1, $1)`,
      [count],
    );
  const one = decided(async () => {});
  const find = (query: { user_id: string } | { order_id: string }) => one.finder.find({ ...query, limit: 5 });
  await openMore(199);
  expect(await find({ user_id: one.user })).toMatchObject({ complete: true, isCurrent: true });
  await openMore(1);
  expect(await find({ user_id: one.user })).toMatchObject({ complete: false, isCurrent: true });
  // It is found by its own id, not by a look at the campaigns.
  expect(await find({ order_id: orderIdOf(one.id) })).toMatchObject({ complete: true });
});
