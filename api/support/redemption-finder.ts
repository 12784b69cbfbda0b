import { normaliseCode } from '../../shared/domain/codes.js';
import {
  type CampaignId,
  madeAtMs,
  type OrderId,
  orderIdOf,
  type ProductId,
  parseReservationId,
  type ReservationId,
  reservationOfOrder,
  type UserId,
} from '../../shared/domain/ids.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { CodesTable } from '../../shared/postgres/codes.js';
import type { FoundRedemption, RedemptionFilter, RedemptionSearch } from '../../shared/postgres/redemption-search.js';
import type { Reduced } from '../../shared/sale/reservation-record.js';
import { invalidFields } from '../http/validate.js';
import {
  type FreshPlace,
  type FreshReservation,
  type FreshReservations,
  knowsAll,
  type SellingCampaign,
  statusOfRecord,
} from './fresh-reservations.js';
import type { PersonHistory, PlaceRow } from './person-history.js';
import type { PlaceData, RedemptionData, SearchQuery } from './support.contract.js';

/** Campaigns that sell now in which a search looks for promises that are not written yet. */
const SELLING = 200;
const PLACES = 100;

export type FinderDeps = {
  search: RedemptionSearch;
  history: PersonHistory;
  codes: CodesTable;
  fresh: FreshReservations;
  /** @throws Problem 404 */
  campaign: (idOrProduct: string) => Promise<StoredCampaign>;
};

/**
 * `isCurrent`: false = Redis was unavailable, so each state may be out of date. `complete`: false = what Postgres does
 * not have yet may be missing, also because more campaigns sell than are looked at, or the user has several such units.
 */
export type Found = {
  rows: RedemptionData[];
  places: PlaceData[];
  isCurrent: boolean;
  complete: boolean;
  next: string | null;
};
type Recent = { reservations: FreshReservation[]; places: FreshPlace[]; isCurrent: boolean; complete: boolean };

const NOTHING: Omit<Found, 'next'> = { rows: [], places: [], isCurrent: true, complete: true };
const UNAVAILABLE: Recent = { reservations: [], places: [], isCurrent: false, complete: false };

/**
 * Finds redemptions of all campaigns. Postgres has all but those of the last second; Redis has these, and the decision
 * in force about each reservation.
 */
export class RedemptionFinder {
  constructor(readonly deps: FinderDeps) {}

  /** @throws Problem 400 if nothing selective is given, 404 if the campaign is unknown @throws EngineUnavailable */
  async find(query: SearchQuery): Promise<Found> {
    const campaign = query.product_id === undefined ? null : await this.deps.campaign(query.product_id);
    const filter = await this.#filterOf(query, campaign);
    if (filter === null) return { ...NOTHING, next: null };
    const isFirst = query.cursor === undefined;
    const { campaigns: selling, more } = isFirst ? await this.#sellingOf(campaign) : { campaigns: [], more: false };
    // Redis first, then Postgres: what is written in between is on the page.
    const recent = await this.#recent(filter, selling, more);
    const ofCampaign = recent.reservations.filter(({ product }) => campaign === null || product === campaign.productId);
    const unwritten = isFirst ? await this.#unwritten(ofCampaign) : [];
    const [page, placeRows] = await Promise.all([
      this.deps.search.page(filter, query.limit, query.cursor ?? null),
      isFirst && filter.userId ? this.deps.history.places(filter.userId, filter.campaignId, PLACES) : [],
    ]);
    const inForce = await this.#inForce(page.rows);
    const onPage = new Set(page.rows.map(({ redemption_id }) => redemption_id));
    const missing = unwritten.filter(({ id }) => !onPage.has(id));
    const rows = merged(page.rows, inForce ?? new Map(), missing, filter, selling);
    const places = filter.userId === null ? [] : placesOf(filter.userId, placeRows, recent.places, selling);
    const isCurrent = recent.isCurrent && inForce !== null;
    return { rows, places, isCurrent, complete: isCurrent && recent.complete, next: page.last };
  }

  /** The campaigns in which a promise may not be written yet. */
  async #sellingOf(campaign: StoredCampaign | null): Promise<{ campaigns: readonly SellingCampaign[]; more: boolean }> {
    return campaign === null ? this.deps.history.selling(SELLING) : { campaigns: [campaign], more: false };
  }

  /** @returns null = nothing can match. @throws Problem 400 */
  async #filterOf(query: SearchQuery, campaign: StoredCampaign | null): Promise<RedemptionFilter | null> {
    const { user_id, order_id, payment_ref, reservation_id, code, product_id, status, from, to } = query;
    if (!(user_id ?? order_id ?? payment_ref ?? reservation_id ?? code ?? product_id ?? status ?? from ?? to))
      throw invalidFields({
        pointer: '#/',
        detail: 'needs one of user_id, order_id, payment_ref, reservation_id, code, product_id, status, from and to',
      });
    const parsed = reservation_id === undefined ? null : parseReservationId(reservation_id);
    if (reservation_id !== undefined && parsed === null) return null;
    const own = code === undefined ? null : await this.#codeOf(code);
    if (code !== undefined && (own === null || (campaign && own.campaignId !== campaign.id))) return null;
    return {
      reservationId: parsed?.id ?? null,
      orderId: order_id ?? null,
      paymentRef: payment_ref ?? null,
      userId: user_id ?? null,
      campaignId: campaign?.id ?? own?.campaignId ?? null,
      // The code of a shared campaign stands for all of its redemptions.
      codeNo: own && own.codeNo > 0 ? own.codeNo : null,
      status: status ?? null,
      from: from === undefined ? null : new Date(from),
      to: to === undefined ? null : new Date(to),
    };
  }

  /** Leaves out the reservations that Postgres has, on any page. */
  async #unwritten(fresh: readonly FreshReservation[]): Promise<readonly FreshReservation[]> {
    const known = await this.deps.search.existing(fresh.map(({ id }) => id));
    return fresh.filter(({ id }) => !known.has(id));
  }

  async #codeOf(typed: string): Promise<{ campaignId: CampaignId; codeNo: number } | null> {
    const normalised = normaliseCode(typed);
    if (normalised.kind !== 'code') return null;
    return (await this.deps.codes.find([normalised.code])).get(normalised.code) ?? null;
  }

  /** Reads from Redis what may not be written yet. @param more whether other campaigns sell as well */
  async #recent(
    { userId, orderId, reservationId }: RedemptionFilter,
    selling: readonly SellingCampaign[],
    more: boolean,
  ): Promise<Recent> {
    const { fresh, history } = this.deps;
    const named = [reservationId as ReservationId | null, orderId === null ? null : reservationOfOrder(orderId)];
    const read = async (): Promise<Recent> => {
      const [known, ofUser] = await Promise.all([
        fresh.byId(named.filter((id) => id !== null)),
        userId === null ? null : fresh.ofUser(userId as UserId, selling),
      ]);
      const all = [...known.values(), ...(ofUser?.reservations ?? [])];
      const reservations = [...new Map(all.map((one) => [one.id as string, one])).values()];
      if (userId === null || ofUser === null) return { reservations, places: [], isCurrent: true, complete: true };
      const written = (products: readonly ProductId[]) => history.active(userId, products);
      const complete = !more && (await knowsAll(fresh, ofUser, written));
      return { reservations, places: ofUser.places, isCurrent: true, complete };
    };
    return (await unlessUnavailable(read)) ?? UNAVAILABLE;
  }

  /** Reads the decision in force about these rows; null = Redis was unavailable. */
  async #inForce(rows: readonly FoundRedemption[]): Promise<Map<string, FreshReservation> | null> {
    const ids = rows.map(({ redemption_id }) => redemption_id as ReservationId);
    return unlessUnavailable(() => this.deps.fresh.byId(ids));
  }
}

async function unlessUnavailable<T>(read: () => Promise<T>): Promise<T | null> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof EngineUnavailable)) throw error;
    return null;
  }
}

/**
 * Joins the rows of Postgres with what Redis has decided since.
 * @param inForce state of the rows in Redis, by id
 * @param missing reservations that Postgres does not have
 */
function merged(
  rows: readonly FoundRedemption[],
  inForce: ReadonlyMap<string, FreshReservation>,
  missing: readonly FreshReservation[],
  filter: RedemptionFilter,
  selling: readonly SellingCampaign[],
): RedemptionData[] {
  const names = new Map(selling.map(({ productId, name }) => [productId as string, name]));
  const unwritten = missing.map((one) => freshView(one, names)).filter((row) => isWanted(row, filter));
  const written = rows
    .map((row) => rowView(row, inForce.get(row.redemption_id) ?? null))
    .filter(({ status }) => filter.status === null || status === filter.status);
  return [...unwritten, ...written].sort((a, b) => (a.redemption_id < b.redemption_id ? 1 : -1));
}

/** Whether a row that is not written yet matches. It has no payment reference and no number of a code. */
function isWanted(row: RedemptionData, filter: RedemptionFilter): boolean {
  const { reservationId, orderId, userId, paymentRef, codeNo, status, from, to } = filter;
  const at = Date.parse(row.reserved_at);
  return (
    paymentRef === null &&
    codeNo === null &&
    (reservationId === null || row.redemption_id === reservationId) &&
    (orderId === null || row.order_id === orderId) &&
    (userId === null || row.user_id === userId) &&
    (status === null || row.status === status) &&
    (from === null || at >= from.getTime()) &&
    (to === null || at < to.getTime())
  );
}

/** A row of Postgres, with the status in force. */
export function rowView(row: FoundRedemption, fresh: FreshReservation | null): RedemptionData {
  const status = fresh ? statusOfRecord(fresh.state) : row.status;
  const { released_qty: released, refunded_qty: refunded, burned_qty: burned } = row;
  const reduced = fresh ? fresh.reduced : released + refunded > 0 ? { released, refunded, burned } : undefined;
  const isWritten =
    fresh === null || (fresh.qty === row.qty && (status !== 'reserved' || isSameTime(fresh.dueMs, row.pay_before)));
  return {
    redemption_id: row.redemption_id,
    product_id: row.product_id,
    campaign_name: row.campaign_name,
    user_id: row.user_id,
    order_id: row.order_id,
    qty: fresh?.qty ?? row.qty,
    status,
    burned: row.burned || fresh?.state === 'burned',
    waited: row.line_no !== null,
    reserved_at: row.reserved_at.toISOString(),
    pay_before: timeOf(fresh?.dueMs ?? 0) ?? row.pay_before?.toISOString() ?? null,
    redeemed_at: row.redeemed_at?.toISOString() ?? null,
    released_at: row.released_at?.toISOString() ?? null,
    refunded_at: row.refunded_at?.toISOString() ?? null,
    reason: row.reason,
    payment_ref: row.payment_ref,
    code: row.code,
    ...(row.metadata ? { metadata: row.metadata } : {}),
    ...reducedView(reduced),
    ...(row.reduced_at ? { reduced_at: row.reduced_at.toISOString() } : {}),
    written: status === row.status && isWritten,
  };
}

const timeOf = (ms: number): string | null => (ms > 0 ? new Date(ms).toISOString() : null);
const isSameTime = (ms: number, time: Date | null): boolean => ms === (time?.getTime() ?? 0);

/** A reservation that only Redis has. */
export function freshView(fresh: FreshReservation, names: ReadonlyMap<string, string>): RedemptionData {
  return {
    redemption_id: fresh.id,
    product_id: fresh.product,
    campaign_name: names.get(fresh.product) ?? fresh.product,
    user_id: fresh.user,
    order_id: fresh.orderId || (orderIdOf(fresh.id) as OrderId),
    qty: fresh.qty,
    status: statusOfRecord(fresh.state),
    burned: fresh.state === 'burned',
    waited: fresh.lineNo > 0,
    reserved_at: new Date(madeAtMs(fresh.id)).toISOString(),
    pay_before: timeOf(fresh.dueMs),
    redeemed_at: null,
    released_at: null,
    refunded_at: null,
    reason: null,
    payment_ref: null,
    code: null,
    ...reducedView(fresh.reduced),
    written: false,
  };
}

/** Units that were given back in parts. Other reservations have no such fields. */
function reducedView(reduced: Reduced | undefined) {
  if (!reduced) return {};
  return { released_qty: reduced.released, refunded_qty: reduced.refunded, burned_qty: reduced.burned };
}

/** The places of a user. A place that only Redis has comes first. */
export function placesOf(
  user: string,
  rows: readonly PlaceRow[],
  fresh: readonly FreshPlace[],
  selling: readonly SellingCampaign[],
): PlaceData[] {
  const positions = new Map(fresh.map(({ product, position }) => [product as string, position]));
  const names = new Map(selling.map(({ productId, name }) => [productId as string, name]));
  const written = rows.map((row) => ({
    product_id: row.product_id,
    campaign_name: row.campaign_name,
    user_id: user,
    line_no: Number(row.line_no),
    qty: row.qty,
    status: row.status,
    position: row.status === 'waiting' ? (positions.get(row.product_id) ?? null) : null,
    joined_at: row.joined_at.toISOString(),
    ended_at: row.ended_at?.toISOString() ?? null,
  }));
  const have = new Set(rows.filter(({ status }) => status === 'waiting').map(({ product_id }) => product_id));
  const unwritten = fresh
    .filter(({ product }) => !have.has(product))
    .map(({ product, position }) => ({
      product_id: product,
      campaign_name: names.get(product) ?? product,
      user_id: user,
      line_no: null,
      qty: null,
      status: 'waiting' as const,
      position,
      joined_at: null,
      ended_at: null,
    }));
  return [...unwritten, ...written];
}
