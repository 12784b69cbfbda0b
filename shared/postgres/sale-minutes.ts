import type { Database, Queryable } from './pool.js';

/** What happened in one minute of a sale. Counts are of reservations and places; `paid_units` are units. */
export type SaleMinute = {
  minute: Date;
  /** Reservations made at once, without the line. */
  reserved: number;
  /** Places taken in the line. */
  joined: number;
  promoted: number;
  paid: number;
  paid_units: number;
  /** Reservations whose time to pay ran out. */
  expired: number;
  released: number;
  refunded: number;
  /**
   * Median of the seconds between joining the line and the promotion, within 2.5 % (`wait_class` in Postgres);
   * null = no user was promoted.
   */
  median_wait_seconds: number | null;
  /** The paid units at the price of the sale page at the end of the minute, in minor units; null = it had no price. */
  revenue: number | null;
  currency: string | null;
};

/** The sums of a whole sale. */
export type SaleReport = Record<(typeof COUNTS)[number], number> & {
  /** Median of the seconds between joining the line and the promotion, within 2.5 %; null = no user was promoted. */
  median_wait_seconds: number | null;
  /** The minute with most reservations and places, in the form of Postgres; null = there are none. */
  busiest_minute: string | null;
  busiest_minute_claims: number | null;
  /** In minor units; empty = the campaign never had a price, or nothing was paid. */
  revenue: { currency: string; amount: number }[];
};

const COUNTS = [
  'reserved',
  'joined',
  'promoted',
  'paid',
  'paid_units',
  'expired',
  'released',
  'refunded',
] as const satisfies readonly (keyof SaleMinute)[];

export const MINUTE_COLUMNS = ['minute', ...COUNTS, 'median_wait_seconds', 'revenue', 'currency'] as const;

const NUMBERS = COUNTS.map((name) => `m.${name}::float8`).join(', ');
const REVENUE = '(m.paid_units * v.amount)::float8 as revenue, v.currency';
const PRICE = `left join lateral (
    select amount, currency from campaign_prices
    where campaign_id = $1 and since < m.minute + interval '1 minute' order by since desc limit 1
  ) v on true`;

/** One statement, because the worker may finish the counts of a pending campaign meanwhile. */
const READ = `
  select p.campaign_id is not null as pending, m.minute, ${NUMBERS},
    round(w.seconds::numeric, 1)::float8 as median_wait_seconds, ${REVENUE}
  from (select) one
  left join sale_minutes_pending p on p.campaign_id = $1
  left join sale_minutes m on p.campaign_id is null and m.campaign_id = $1
    and m.minute >= date_trunc('minute', $2::timestamptz) and m.minute < $3
    and (${COUNTS.map((name) => `m.${name}`).join(', ')}) <> (${COUNTS.map(() => 0).join(', ')})
  left join lateral (
    select wait_seconds(min(wait_class)) as seconds from (
      select wait_class, sum(users) over (order by wait_class) as users_upto, sum(users) over () as users_of_all
      from sale_minute_waits where campaign_id = m.campaign_id and minute = m.minute and users > 0
    ) classes where users_upto * 2 >= users_of_all
  ) w on true
  ${PRICE}
  order by m.minute`;

/** One row. Revenue is by currency; a refund does not lower it, as in each minute. */
const REPORT = `
  with minutes as (select m.*, ${REVENUE} from sale_minutes m ${PRICE} where m.campaign_id = $1),
  classes as (select wait_class, sum(users) over (order by wait_class) as users_upto, sum(users) over () as users_of_all
    from (select wait_class, sum(users) as users from sale_minute_waits where campaign_id = $1 group by 1) w)
  select exists (select from sale_minutes_pending where campaign_id = $1) as pending, jsonb_build_object(
    ${COUNTS.map((name) => `'${name}', (select coalesce(sum(${name}), 0) from minutes)`).join(', ')},
    'median_wait_seconds', (select round(wait_seconds(min(wait_class))::numeric, 1) from classes
      where users_upto * 2 >= users_of_all and users_upto > 0),
    'busiest_minute', (select minute from minutes where reserved + joined > 0 order by reserved + joined desc, minute limit 1),
    'busiest_minute_claims', (select max(reserved + joined) from minutes),
    'revenue', coalesce((select jsonb_agg(jsonb_build_object('currency', currency, 'amount', amount) order by currency)
      from (select currency, sum(revenue) as amount from minutes where revenue is not null group by 1) r
      where amount > 0), '[]')) as report`;

const READ_ROWS = `
  select m.minute, ${NUMBERS}, round(m.median_wait::numeric, 1)::float8 as median_wait_seconds, ${REVENUE}
  from sale_minutes_of_rows($1, date_trunc('minute', $2::timestamptz), $3) m ${PRICE} order by m.minute`;

/**
 * Tables `sale_minutes`, `sale_minute_waits` and `sale_minutes_pending`. Triggers keep the minutes of a sale, in the
 * transactions that change its reservations and places (decision 64). A read costs its minutes only, however large the
 * sale is. Only while a campaign is pending are its rows counted at each read.
 */
export class SaleMinutes {
  constructor(readonly database: Database) {}

  /**
   * Minutes in which something happened, oldest first.
   * @param from the minute that contains it is the first one
   * @param to excluded
   * @throws EngineUnavailable
   */
  async read(campaignId: string, from: Date, to: Date): Promise<SaleMinute[]> {
    const { rows } = await this.database.query<SaleMinute & { pending: boolean }>(READ, [campaignId, from, to]);
    if (rows[0]?.pending) return this.readRows(campaignId, from, to);
    return rows.flatMap(({ pending: _, ...one }) => (one.minute === null ? [] : [one]));
  }

  /** The sums of a whole sale; null while its minutes do not count all rows yet. @throws EngineUnavailable */
  async report(campaignId: string): Promise<SaleReport | null> {
    const { rows } = await this.database.query<{ pending: boolean; report: SaleReport }>(REPORT, [campaignId]);
    const [row] = rows;
    return row && !row.pending ? row.report : null;
  }

  /** Computes the same from all rows of the campaign. @throws EngineUnavailable */
  async readRows(campaignId: string, from: Date, to: Date): Promise<SaleMinute[]> {
    return (await this.database.query<SaleMinute>(READ_ROWS, [campaignId, from, to])).rows;
  }

  /**
   * Counts the next rows of a campaign that is pending, in one transaction.
   * @param lock keeps those who write reservations and places out until the transaction ends
   * @param rows how many reservations, and how many places, are counted at most
   * @returns false = no campaign is pending
   * @throws EngineUnavailable
   */
  async fill(rows: number, lock: (client: Queryable) => Promise<void>): Promise<boolean> {
    const pending = await this.database.query('select 1 from sale_minutes_pending limit 1');
    if (pending.rows.length === 0) return false;
    return this.database.transaction(async (client) => {
      await lock(client);
      const filled = await client.query<{ more: boolean }>('select fill_sale_minutes($1) as more', [rows]);
      return filled.rows[0]?.more === true;
    });
  }
}

/** Has the worker count all minutes of these campaigns again. The caller keeps other writers out. */
export async function recountMinutes(client: Queryable, numbers: readonly number[]): Promise<void> {
  if (numbers.length === 0) return;
  await client.query(
    'select recount_sale_minutes(array(select campaign_id from campaigns where no = any($1::int[]) order by 1))',
    [numbers],
  );
}
