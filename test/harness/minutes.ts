import { expect } from '@jest/globals';
import type pg from 'pg';
import type { SaleMinute } from '../../shared/postgres/sale-minutes.js';

/** What each minute of each campaign must have, from the rows themselves; the exact median of the waits. */
const EXPECTED = `
  happened as (
    select campaign_id, reserved_at as at, case when line_no is null then 'reserved' else 'promoted' end as kind, qty
      from redemptions where status <> 'voided'
    union all select campaign_id, redeemed_at, 'paid', qty + refunded_qty from redemptions where status <> 'voided'
    union all select campaign_id, released_at, case when status = 'expired' or reacquired then 'expired' else 'released' end, qty
      from redemptions where status <> 'voided'
    union all select campaign_id, refunded_at, 'refunded', qty from redemptions where status <> 'voided'
    union all select campaign_id, joined_at, 'joined', qty from waiting_tickets
  ), waits as (
    select r.campaign_id, date_trunc('minute', r.reserved_at) as minute, count(*) as users,
      percentile_disc(0.5) within group (order by greatest(0, extract(epoch from r.reserved_at - t.joined_at))) as median
    from redemptions r join waiting_tickets t using (campaign_id, line_no) where r.status <> 'voided' group by 1, 2
  ), expected as (
    select h.campaign_id, h.minute, array[count(*) filter (where kind = 'reserved'), count(*) filter (where kind = 'joined'),
      count(*) filter (where kind = 'promoted'), count(*) filter (where kind = 'paid'),
      coalesce(sum(qty) filter (where kind = 'paid'), 0), count(*) filter (where kind = 'expired'),
      count(*) filter (where kind = 'released'), count(*) filter (where kind = 'refunded'), coalesce(max(w.users), 0)] as counts,
      max(w.median)::float8 as median
    from (select date_trunc('minute', at) as minute, * from happened where at is not null) h
    left join waits w using (campaign_id, minute) group by 1, 2
  )`;

/** The minutes that the triggers have counted. */
const FOUND = `
  classes as (
    select *, sum(users) over (partition by campaign_id, minute order by wait_class) as upto,
      sum(users) over (partition by campaign_id, minute) as total
    from sale_minute_waits where users <> 0
  ), medians as (
    select campaign_id, minute, max(total) as total, wait_seconds(min(wait_class) filter (where upto * 2 >= total)) as median
    from classes group by 1, 2
  ), found as (
    select m.campaign_id, m.minute, array[reserved, joined, promoted, paid, paid_units, expired, released, refunded,
      coalesce(w.total, 0)] as counts, w.median
    from sale_minutes m left join medians w using (campaign_id, minute)
    where (reserved, joined, promoted, paid, paid_units, expired, released, refunded) <> (0, 0, 0, 0, 0, 0, 0, 0) or w.total <> 0
  )`;

/**
 * Checks that the minutes of every campaign that is not pending are what its reservations and places say, at one
 * moment. The median may differ by 2.5 %, and by 1 ms.
 * @returns how many minutes there are
 */
export async function expectMinutesOfRows(client: Pick<pg.Client, 'query'>): Promise<number> {
  const { rows } = await client.query(
    `with ${EXPECTED}, ${FOUND}
     select campaign_id, minute, e.counts::text[] as expected, f.counts::text[] as found, e.median as expected_median, f.median
     from expected e full join found f using (campaign_id, minute)
     where not exists (select 1 from sale_minutes_pending p where p.campaign_id = coalesce(e.campaign_id, f.campaign_id))`,
  );
  const differing = rows.filter(
    ({ expected, found, expected_median: exact, median }) =>
      JSON.stringify(expected) !== JSON.stringify(found) ||
      (exact === null) !== (median === null) ||
      Math.abs(median - exact) > exact * 0.025 + 0.001,
  );
  expect(differing).toEqual([]);
  return rows.length;
}

/** The counts of all these minutes together. */
export function totalsOf(minutes: readonly SaleMinute[]): Record<string, number> {
  const totals: Record<string, number> = {};
  for (const { minute: _, median_wait_seconds: __, revenue: ___, currency: ____, ...counts } of minutes)
    for (const [name, value] of Object.entries(counts)) totals[name] = (totals[name] ?? 0) + value;
  return totals;
}
