import type { CampaignStatus } from '../domain/campaign.js';
import type { ProductId } from '../domain/ids.js';
import type { Database } from './pool.js';

/** How the list of campaigns is ordered; `live`: open, paused, scheduled, drafts, closed, each newest first. */
export const CAMPAIGN_SORTS = ['newest', 'live', 'name', 'starts_at'] as const;
export type CampaignSort = (typeof CAMPAIGN_SORTS)[number];

export type CampaignFilter = {
  /** Part of the name or the product id, or the whole code of a shared campaign; null = any. */
  text: string | null;
  status: CampaignStatus | null;
  hidden: boolean;
  sort: CampaignSort;
};

const ORDERS: Record<CampaignSort, string> = {
  newest: 'c.no desc',
  live: "array_position(array['open', 'paused', 'scheduled', 'draft', 'closed'], c.status), c.no desc",
  name: 'lower(c.name), c.no',
  starts_at: 'c.starts_at desc, c.no desc',
};

/**
 * Makes the end of a statement that lists campaigns `c`. Pages in the order `newest` begin after a campaign number, so
 * a new campaign moves no other one; the other orders count from the start.
 * @param cursor from `nextCursor`; null = the first page
 */
export function campaignPage(
  { text, status, hidden, sort }: CampaignFilter,
  limit: number,
  cursor: number | null,
): { sql: string; values: unknown[] } {
  const isNewest = sort === 'newest';
  return {
    sql: `where (c.hidden_at is not null) = $1 and ($2::text is null or c.status = $2)
        and ($3::text is null or position(lower($3) in lower(c.name)) > 0 or position(lower($3) in lower(c.product_id)) > 0
          or upper(c.code) = upper($3))
        and ($4::int is null or c.no < $4)
      order by ${ORDERS[sort]} limit $5 offset $6`,
    values: [hidden, status, text, isNewest ? cursor : null, limit, isNewest ? 0 : (cursor ?? 0)],
  };
}

/** The cursor of the page after this one; null = this is the last page. */
export function nextCursor(
  { sort }: Pick<CampaignFilter, 'sort'>,
  page: readonly { no: number }[],
  limit: number,
  cursor: number | null,
): number | null {
  if (page.length < limit) return null;
  return sort === 'newest' ? (page.at(-1)?.no ?? null) : (cursor ?? 0) + page.length;
}

export type CampaignSums = {
  campaigns: Record<CampaignStatus, number>;
  held: number;
  redeemed: number;
  burned: number;
  /** Reservations made in the last `seconds`. */
  recent: number;
  /** Campaigns in which users may wait. */
  withLine: ProductId[];
};

/** Sums over all campaigns. @param lines at most so many campaigns with a line are named */
export async function campaignSums(database: Database, seconds: number, lines: number): Promise<CampaignSums> {
  const [sums, recent, withLine] = await Promise.all([
    database.query<{ status: CampaignStatus; campaigns: number; held: number; redeemed: number; burned: number }>(
      `select status, count(*)::int as campaigns, sum(held)::float8 as held, sum(redeemed)::float8 as redeemed,
         sum(burned)::float8 as burned from campaigns group by status`,
    ),
    database.query<{ recent: number }>(
      `select count(*)::int as recent from redemptions
       where reserved_at > now() - make_interval(secs => $1) and status <> 'voided'`,
      [seconds],
    ),
    database.query<{ product_id: ProductId }>(
      `select product_id from campaigns where status in ('open', 'paused') and (waiting_room ->> 'enabled')::boolean
       order by no desc limit $1`,
      [lines],
    ),
  ]);
  const total = (name: 'held' | 'redeemed' | 'burned') => sums.rows.reduce((all, row) => all + row[name], 0);
  const counts = { draft: 0, scheduled: 0, open: 0, paused: 0, closed: 0 };
  for (const { status, campaigns } of sums.rows) counts[status] = campaigns;
  return {
    campaigns: counts,
    held: total('held'),
    redeemed: total('redeemed'),
    burned: total('burned'),
    recent: recent.rows[0]?.recent ?? 0,
    withLine: withLine.rows.map(({ product_id }) => product_id),
  };
}
