import { beforeAll, expect, test } from '@jest/globals';
import type pg from 'pg';
import { uuidv7 } from 'uuidv7';
import { PersonHistory } from '../../api/support/person-history.js';
import type { CampaignId, ReservationId } from '../../shared/domain/ids.js';
import type { Database } from '../../shared/postgres/pool.js';
import { type RedemptionFilter, RedemptionSearch, SCANNED_ROWS } from '../../shared/postgres/redemption-search.js';
import { type RedemptionRow, RedemptionsTable } from '../../shared/postgres/redemptions.js';
import { MOST_OF_ORDER, ReservationOrders } from '../../shared/postgres/reservation-orders.js';
import { createTestDatabase } from '../harness/engines.js';

/** The searches of support read few rows, however many there are. */
const ROWS = 30_000;
const CAMPAIGNS = 3;
const { client: sql } = await createTestDatabase();
const search = new RedemptionSearch(sql as unknown as Database);
const NOTHING: RedemptionFilter = {
  reservationId: null,
  orderId: null,
  paymentRef: null,
  userId: null,
  campaignId: null,
  codeNo: null,
  status: null,
  from: null,
  to: null,
};
let campaigns: CampaignId[] = [];

type Plan = { 'Node Type': string; 'Relation Name'?: string; 'Actual Rows'?: number; Plans?: Plan[] };

/** Which large tables a search reads as a whole, and how many rows it reads of large tables. */
async function readsOf(run: (database: Database) => Promise<unknown>): Promise<{ scans: string[]; rows: number }> {
  const plans: Plan[] = [];
  const explained = {
    query: async (text: string, values: unknown[]) => {
      const { rows } = await sql.query(`explain (analyze, format json) ${text}`, values);
      plans.push(rows[0]['QUERY PLAN'][0].Plan);
      return sql.query(text, values);
    },
  };
  await run(explained as unknown as Database);
  const nodes = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(nodes)];
  const all = plans.flatMap(nodes);
  const large = /^(redemptions|waiting_tickets|redemption_attempts)/;
  return {
    scans: all
      .filter((node) => node['Node Type'] === 'Seq Scan' && large.test(node['Relation Name'] ?? ''))
      .map((node) => String(node['Relation Name'])),
    rows: all
      .filter((node) => large.test(node['Relation Name'] ?? ''))
      .reduce((sum, node) => sum + Number(node['Actual Rows']), 0),
  };
}

beforeAll(async () => {
  await fill(sql);
  const { rows } = await sql.query('select campaign_id from campaigns order by no');
  campaigns = rows.map(({ campaign_id }) => campaign_id);
}, 300_000);

/** Redemptions of all states, a third in each campaign; user `u<i>` has one in each of them. */
async function fill(client: pg.Client): Promise<void> {
  for (let i = 0; i < CAMPAIGNS; i += 1)
    await client.query(
      `insert into campaigns (campaign_id, product_id, name, type, per_user_limit, max_qty, starts_at, time_zone, hold_seconds,
         waiting_room, confirmation, late_payment, refund_policy, require_attestation, rules, status)
       values ($1, $2, 'a', 'shared', 1, 1, now(), 'UTC', 60, '{}', 'fast', 'refuse', 'return', false, '{}', 'open')`,
      [uuidv7(), `product-${i}`],
    );
  // The ids are UUIDv7 with the number of their campaign, and the order ids those that a script makes.
  await client.query(
    `insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, reserved_at, payment_ref, code_no)
     select id, campaign_id, 'u' || i, case when i % 10 = 0 then 'basket-' || i || '-' || no else 'ord_' || replace(id::text, '-', '') end,
       1, 1, case i % 4 when 0 then 'reserved' when 1 then 'redeemed' when 2 then 'released' else 'expired' end,
       date_trunc('milliseconds', now()) - i * interval '1 second', case when i % 4 = 1 then 'pay-' || i || '-' || no end, case when i % 4 = 3 then i end
     from generate_series(1, $1::int) as i cross join campaigns cross join lateral (
       select (lpad(to_hex(1790000000000 - i), 12, '0') || '7' || lpad(to_hex(i % 4096), 3, '0') || '8000'
         || lpad(to_hex(i % 65536), 4, '0') || lpad(to_hex(no), 8, '0'))::uuid as id) made`,
    [ROWS / CAMPAIGNS],
  );
  await client.query(
    `insert into waiting_tickets (campaign_id, line_no, user_id, qty, status, reservation_id, joined_at)
     select campaign_id, i, 'u' || i, 1, case i % 2 when 0 then 'waiting' else 'left' end, gen_random_uuid(), now()
     from generate_series(1, $1::int) as i cross join campaigns`,
    [ROWS / CAMPAIGNS],
  );
  await client.query(
    `insert into redemption_attempts (attempt_id, at, action, outcome, user_id)
     select gen_random_uuid(), now(), 'redeem', 'redeemed', 'u' || (i % 5000) from generate_series(1, $1::int) as i`,
    [ROWS],
  );
  await client.query('analyze');
}

async function rowOf(user: string): Promise<{ redemption_id: string; order_id: string; payment_ref: string }> {
  const { rows } = await sql.query('select * from redemptions where user_id = $1 and campaign_id = $2', [
    user,
    campaigns[1],
  ]);
  return rows[0];
}

test('each selective field is served by an index, over all campaigns', async () => {
  const made = await rowOf('u4321');
  const chosen = await rowOf('u1230');
  const filters: [string, Partial<RedemptionFilter>, number][] = [
    ['user', { userId: 'u4321' }, CAMPAIGNS],
    ['user of a campaign', { userId: 'u4321', campaignId: campaigns[1] as CampaignId }, 1],
    ['reservation', { reservationId: made.redemption_id }, 1],
    ['order made here', { orderId: made.order_id }, 1],
    ['order of the caller', { orderId: chosen.order_id }, 1],
    ['payment', { paymentRef: made.payment_ref }, 1],
    ['code', { campaignId: campaigns[1] as CampaignId, codeNo: 1_003 }, 1],
  ];
  for (const [name, filter, count] of filters) {
    const page = await search.page({ ...NOTHING, ...filter }, 50, null);
    expect([name, page.rows.length, page.last]).toEqual([name, count, null]);
    const { scans, rows } = await readsOf((database) =>
      new RedemptionSearch(database).page({ ...NOTHING, ...filter }, 50, null),
    );
    expect([name, scans]).toEqual([name, []]);
    expect([name, rows <= 4 * count]).toEqual([name, true]);
  }
});

test('a page in the order of the promises reads no other rows', async () => {
  const pages: RedemptionRow[][] = [];
  const { scans, rows } = await readsOf(async (database) => {
    for (let i = 0; i < 3; i += 1)
      pages.push(
        await new RedemptionsTable(database).page(campaigns[1] as CampaignId, 50, pages.at(-1)?.at(-1) ?? null),
      );
  });
  expect([scans, rows]).toEqual([[], 150]);
  expect(pages.flat().map(({ user_id }) => user_id)).toEqual(Array.from({ length: 150 }, (_, i) => `u${10_000 - i}`));
});

test('the reservations of an order are found by indexes', async () => {
  const made = await rowOf('u4321');
  const chosen = await rowOf('u1230');
  const orders: [string, ReservationId | null][] = [
    [made.order_id, made.redemption_id as ReservationId],
    [chosen.order_id, null],
  ];
  for (const [order, id] of orders) {
    expect(await new ReservationOrders(sql as unknown as Database).find(order, id, null, null)).toHaveLength(1);
    const { scans, rows } = await readsOf((database) => new ReservationOrders(database).find(order, id, null, null));
    expect([order, scans]).toEqual([order, []]);
    expect(rows).toBeLessThanOrEqual(4);
  }
});

test('what has ended on an order hides nothing that has not', async () => {
  const { rows } = await sql.query(
    `insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, reserved_at)
     select case when i = 0 then '019fffff-0000-7000-8000-000000000001' else ('01a10000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid end,
       $1, 'w', 'order-of-many', 1, 1, case i when 0 then 'reserved' else 'expired' end, now()
     from generate_series(0, $2::int) as i returning redemption_id`,
    [campaigns[0], MOST_OF_ORDER + 5],
  );
  expect(rows).toHaveLength(MOST_OF_ORDER + 6);
  const [first] = await new ReservationOrders(sql as unknown as Database).find('order-of-many', null, null, null);
  expect(first).toMatchObject({ id: '019fffff-0000-7000-8000-000000000001', status: 'reserved' });
});

test('a user’s places, attempts and actions are served by indexes', async () => {
  const reads: ((history: PersonHistory) => Promise<unknown[]>)[] = [
    (history) => history.places('u77', null, 100),
    (history) => history.attempts('u77', 100),
  ];
  for (const read of reads) {
    expect((await read(new PersonHistory(sql as unknown as Database))).length).toBeGreaterThan(1);
    const { scans, rows } = await readsOf((database) => read(new PersonHistory(database)));
    expect(scans).toEqual([]);
    expect(rows).toBeLessThanOrEqual(20);
  }
});

test('a page of a campaign by status reads a bounded number of rows, and the next page goes on behind them', async () => {
  const filter = { ...NOTHING, campaignId: campaigns[0] as CampaignId, status: 'released' as const };
  const { rows } = await readsOf((database) => new RedemptionSearch(database).page(filter, 5, null));
  expect(rows).toBeLessThanOrEqual(2 * SCANNED_ROWS);
  const seen: string[] = [];
  let last: string | null = null;
  do {
    const page = await search.page(filter, 700, last);
    seen.push(...page.rows.map(({ redemption_id }) => redemption_id));
    last = page.last;
  } while (last !== null);
  expect(seen.length).toBe(ROWS / CAMPAIGNS / 4);
  expect(seen).toEqual([...new Set(seen)].sort().reverse());
});

test('a page of all campaigns by status and time reads a bounded number of rows', async () => {
  const filter = { ...NOTHING, status: 'released' as const, to: new Date(Date.now() - 5_000) };
  const { rows } = await readsOf((database) => new RedemptionSearch(database).page(filter, 5, null));
  expect(rows).toBeLessThanOrEqual(2 * SCANNED_ROWS);
  const page = await search.page(filter, 5, null);
  expect(page.rows).toHaveLength(5);
  expect(new Set(page.rows.map(({ campaign_id }) => campaign_id)).size).toBeGreaterThan(1);
});

test('a page that finds nothing in the rows that it may read says where the next one begins', async () => {
  const { rows } = await sql.query(
    `insert into campaigns (campaign_id, product_id, name, type, per_user_limit, max_qty, starts_at, time_zone, hold_seconds,
       waiting_room, confirmation, late_payment, refund_policy, require_attestation, rules, status)
     values ($1, 'long', 'a', 'shared', 1, 1, now(), 'UTC', 60, '{}', 'fast', 'refuse', 'return', false, '{}', 'open') returning no, campaign_id`,
    [uuidv7()],
  );
  const campaignId = rows[0].campaign_id as CampaignId;
  await sql.query(
    `insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, reserved_at)
     select ('01a00000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, $1, 'v' || i, 'o' || i, 1, 1,
       case when i <= 2 then 'expired' else 'redeemed' end, now() from generate_series(1, $2::int) as i`,
    [campaignId, SCANNED_ROWS + 3],
  );
  const filter = { ...NOTHING, campaignId, status: 'expired' as const };
  const first = await search.page(filter, 10, null);
  expect(first.rows).toEqual([]);
  expect(first.last).not.toBeNull();
  const second = await search.page(filter, 10, first.last);
  expect(second.rows.map(({ user_id }) => user_id)).toEqual(['v2', 'v1']);
  expect(second.last).toBeNull();
});
