import { campaignOfNumber } from '../domain/buckets.js';
import { type CampaignId, type CampaignNo, campaignNoOf, firstIdAt, reservationOfOrder } from '../domain/ids.js';
import type { RedemptionStatus } from '../domain/reservation.js';
import type { Database } from './pool.js';
import { REDEMPTION_COLUMNS, type RedemptionRow } from './redemptions.js';
import { isChosen } from './reservation-orders.js';

/** A redemption of any campaign. `line_no`: place from which it was promoted; null = it never waited. */
export type FoundRedemption = RedemptionRow & {
  campaign_id: CampaignId;
  product_id: string;
  campaign_name: string;
  code: string | null;
  line_no: string | null;
  reacquired: boolean;
  metadata: Readonly<Record<string, string>> | null;
  /** When it last gave back units while it kept others. */
  reduced_at: Date | null;
};

/** What to look for. Every given field must hold; null = any. */
export type RedemptionFilter = {
  reservationId: string | null;
  orderId: string | null;
  paymentRef: string | null;
  userId: string | null;
  campaignId: CampaignId | null;
  /** Number of a code of the campaign; null = any. */
  codeNo: number | null;
  status: RedemptionStatus | null;
  from: Date | null;
  /** excluded */
  to: Date | null;
};

/** `last`: id after which the next page begins; null = this is the last page. */
export type FoundPage = { rows: FoundRedemption[]; last: string | null };

/** Rows of a campaign that one page reads at most, when no index finds those that match. It takes some 50 ms. */
export const SCANNED_ROWS = 20_000;
/** Processes that make ids may be ahead of the clock of the reservations by this. */
const CLOCK_DIFFERENCE_MS = 3_600_000;

const COLUMNS = `${REDEMPTION_COLUMNS.map((name) => `r.${name}`).join(', ')}, r.campaign_id, r.line_no, r.reacquired, r.metadata, r.reduced_at,
  c.product_id, c.name as campaign_name, k.code`;
/** Rows that take units and rows that do not have an index each. */
const ACTIVE = `(r.status in ('reserved', 'redeemed') or r.burned)`;
const ENDED = `r.status not in ('reserved', 'redeemed') and not r.burned`;

/** Searches `redemptions` over all campaigns, newest first. Each search reads a bounded number of rows. */
export class RedemptionSearch {
  constructor(readonly database: Database) {}

  /**
   * Finds a page of redemptions. The most selective field chooses the index; the others filter what it finds.
   * @param filter a code number needs the campaign
   * @param before `last` of the page before
   * @throws EngineUnavailable
   */
  async page(filter: RedemptionFilter, limit: number, before: string | null): Promise<FoundPage> {
    const values: unknown[] = [];
    const bind = (value: unknown): string => `$${values.push(value)}`;
    const source = sourceOf(filter, bind);
    if (source === null) return this.#scan(filter, limit, before);
    const matches = conditionsOf(filter, bind);
    if (before !== null) matches.push(`r.redemption_id < ${bind(before)}::uuid`);
    const { rows } = await this.database.query<FoundRedemption>(
      `select ${COLUMNS} from (${source}) r join campaigns c using (campaign_id)
       left join codes k on k.campaign_id = r.campaign_id and k.code_no = r.code_no
       ${matches.length > 0 ? `where ${matches.join(' and ')}` : ''}
       order by r.redemption_id desc limit ${bind(limit + 1)}`,
      values,
    );
    const page = rows.slice(0, limit);
    return { rows: page, last: rows.length > limit ? (page.at(-1)?.redemption_id ?? null) : null };
  }

  /** Returns those of these reservations that Postgres has. */
  async existing(ids: readonly string[]): Promise<ReadonlySet<string>> {
    if (ids.length === 0) return new Set();
    const { rows } = await this.database.query<{ redemption_id: string }>(
      `select r.redemption_id from unnest($1::uuid[], $2::int[]) as n(id, no) join campaigns c on c.no = n.no
       join redemptions r on r.campaign_id = c.campaign_id and r.redemption_id = n.id`,
      [ids, ids.map(numberIn)],
    );
    return new Set(rows.map(({ redemption_id }) => redemption_id));
  }

  /**
   * Reads the newest rows of a campaign, or of all. A page may have fewer rows than `limit`, even none, and not be the
   * last one.
   */
  async #scan(filter: RedemptionFilter, limit: number, before: string | null): Promise<FoundPage> {
    const { campaignId, to } = filter;
    // An id is made before its reservation, so later ids are of later reservations.
    const first = to === null ? null : firstIdAt(to.getTime() + CLOCK_DIFFERENCE_MS);
    const ids = [before, first].filter((id) => id !== null).sort();
    const values: unknown[] = [ids[0] ?? null, SCANNED_ROWS];
    const bind = (value: unknown): string => `$${values.push(value)}`;
    const ofCampaign = campaignId === null ? '' : `and campaign_id = ${bind(campaignId)}`;
    const matches = conditionsOf({ ...filter, campaignId: null }, bind);
    const { rows } = await this.database.query<FoundRedemption & { scanned: number; oldest: string }>(
      `with scanned as materialized (
         select * from redemptions where ($1::uuid is null or redemption_id < $1::uuid) ${ofCampaign}
         order by redemption_id desc limit $2
       ), summary as (
         select count(*)::int as scanned, (select redemption_id from scanned order by redemption_id limit 1) as oldest
         from scanned
       ), matching as (
         select * from scanned r ${matches.length > 0 ? `where ${matches.join(' and ')}` : ''}
         order by r.redemption_id desc limit ${bind(limit + 1)}
       )
       select ${COLUMNS}, summary.scanned, summary.oldest from summary
       left join matching r on true left join campaigns c using (campaign_id)
       left join codes k on k.campaign_id = r.campaign_id and k.code_no = r.code_no
       order by r.redemption_id desc nulls last`,
      values,
    );
    const { scanned = 0, oldest = null } = rows[0] ?? {};
    const found = rows.filter(({ redemption_id }) => redemption_id !== null);
    const page = found.slice(0, limit).map(({ scanned: _, oldest: __, ...row }) => row);
    if (found.length > limit) return { rows: page, last: page.at(-1)?.redemption_id ?? null };
    return { rows: page, last: scanned === SCANNED_ROWS ? oldest : null };
  }
}

/** A subquery with the columns of `redemptions` that uses an index; null = only the campaign is known, or nothing. */
function sourceOf(filter: RedemptionFilter, bind: (value: unknown) => string): string | null {
  const { reservationId, orderId, paymentRef, userId, codeNo, campaignId } = filter;
  if (reservationId !== null)
    return `select r.* from redemptions r where r.redemption_id = ${bind(reservationId)}::uuid
      and r.campaign_id = (select campaign_id from campaigns where no = ${bind(numberIn(reservationId))})`;
  if (orderId !== null) return sourceByOrder(orderId, bind);
  if (paymentRef !== null) {
    const ref = bind(paymentRef);
    return `select r.* from redemptions r where r.payment_ref = ${ref}
      union select r.* from duplicate_payments d
      join redemptions r on r.campaign_id = d.campaign_id and r.redemption_id = d.reservation_id where d.payment_ref = ${ref}`;
  }
  const ofCampaign = campaignId === null ? null : bind(campaignId);
  if (codeNo !== null && ofCampaign !== null) {
    const own = `select r.* from redemptions r where r.campaign_id = ${ofCampaign} and r.code_no = ${bind(codeNo)}`;
    return `${own} and ${ACTIVE} union all ${own} and ${ENDED}`;
  }
  if (userId === null) return null;
  const user = bind(userId);
  const among = ofCampaign === null ? 'campaigns a' : `(select ${ofCampaign}::uuid as campaign_id) a`;
  const rowsOf = (state: string) =>
    `select r.* from redemptions r where r.campaign_id = a.campaign_id and r.user_id = ${user} and ${state}`;
  return `select r.* from ${among} cross join lateral (${rowsOf(ACTIVE)} union all ${rowsOf(ENDED)}) r`;
}

/** An order id that was made here contains a reservation id. The others of the order are in an index. */
function sourceByOrder(orderId: string, bind: (value: unknown) => string): string {
  const isOther = isChosen('r.order_id', 'r.redemption_id');
  const chosen = `select r.* from redemptions r where r.order_id = ${bind(orderId)} and ${isOther}`;
  const reservation = reservationOfOrder(orderId);
  if (reservation === null) return chosen;
  return `${chosen} union all
    select r.* from campaigns a join redemptions r on r.campaign_id = a.campaign_id
    and r.redemption_id = ${bind(reservation)} where a.no = ${bind(numberIn(reservation))} and not (${isOther})`;
}

function conditionsOf(filter: RedemptionFilter, bind: (value: unknown) => string): string[] {
  const { orderId, paymentRef, userId, campaignId, codeNo, status, from, to } = filter;
  const conditions: string[] = [];
  if (paymentRef !== null) {
    const ref = bind(paymentRef);
    conditions.push(`(r.payment_ref = ${ref} or exists (
      select 1 from duplicate_payments d where d.reservation_id = r.redemption_id and d.payment_ref = ${ref}))`);
  }
  if (codeNo !== null) conditions.push(`r.code_no = ${bind(codeNo)}`);
  if (orderId !== null) conditions.push(`r.order_id = ${bind(orderId)}`);
  if (userId !== null) conditions.push(`r.user_id = ${bind(userId)}`);
  if (campaignId !== null) conditions.push(`r.campaign_id = ${bind(campaignId)}`);
  if (status !== null) conditions.push(`r.status = ${bind(status)}`);
  if (from !== null) conditions.push(`r.reserved_at >= ${bind(from)}`);
  if (to !== null) conditions.push(`r.reserved_at < ${bind(to)}`);
  return conditions;
}

const numberIn = (reservation: string): CampaignNo => campaignOfNumber(campaignNoOf(reservation)) as CampaignNo;
