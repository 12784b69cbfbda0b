import { parseReservationId } from '../../shared/domain/ids.js';
import { NEEDS_ACTION, type PaymentOutcome } from '../../shared/payments/payment-event.js';
import type { StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { RedemptionFilter, RedemptionSearch } from '../../shared/postgres/redemption-search.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { defineRoute } from '../http/define-route.js';
import type { Route } from '../http/route.js';
import { invalidFields, validate } from '../http/validate.js';
import type {
  FoundPaymentEvent,
  PaymentEventCursor,
  PaymentEventFilter,
  PaymentEventSearch,
} from './payment-event-search.js';
import {
  cursorParts,
  type PaymentEventData,
  type PaymentEventsQuery,
  paymentEventsContract,
  paymentEventsQuery,
} from './payment-search.contract.js';

/** Reservations of a user, or of an order, whose payments are searched. */
const RESERVATIONS = 200;
const ANY: RedemptionFilter = {
  ...{ reservationId: null, orderId: null, paymentRef: null, userId: null, campaignId: null, codeNo: null },
  ...{ status: null, from: null, to: null },
};

export type PaymentSearchDeps = {
  search: PaymentEventSearch;
  redemptions: RedemptionSearch;
  /** @throws Problem 404 */
  campaign: (idOrProduct: string) => Promise<StoredCampaign>;
  apiKeys: ApiKeys;
};

/** GET /admin/payment-events: what payment providers have reported. */
export function paymentSearchRoute(deps: PaymentSearchDeps): Route {
  return defineRoute(paymentEventsContract, async (call) => {
    deps.apiKeys.require(call.req, 'admin');
    const query = validate(paymentEventsQuery, call.req.query);
    const after = query.cursor === undefined ? null : cursorOf(query.cursor);
    const { rows, next } = await deps.search.page(await filterOf(deps, query), query.limit, after);
    call.reply(200, rows.map(view), [], { next_cursor: next === null ? null : textOf(next) });
  });
}

/** @throws Problem 404 if the campaign is unknown @throws EngineUnavailable */
async function filterOf(deps: PaymentSearchDeps, query: PaymentEventsQuery): Promise<PaymentEventFilter> {
  const { product_id, outcome, provider, payment_ref, from, to } = query;
  const campaign = product_id === undefined ? null : await deps.campaign(product_id);
  const wanted = query.needs_action === 'true' ? [...NEEDS_ACTION] : null;
  return {
    reservations: await reservationsOf(deps, query),
    namedOrder: query.user_id === undefined && query.reservation_id === undefined ? (query.order_id ?? null) : null,
    paymentRef: payment_ref ?? null,
    outcomes: outcome === undefined ? wanted : (wanted ?? [outcome]).filter((name) => name === outcome),
    isOpen: wanted !== null,
    provider: provider ?? null,
    campaignNo: campaign?.no ?? null,
    from: from === undefined ? null : new Date(from),
    to: to === undefined ? null : new Date(to),
  };
}

/** The reservations that the query names in every way; null = it names none. */
async function reservationsOf(
  { redemptions }: PaymentSearchDeps,
  { reservation_id, order_id, user_id }: PaymentEventsQuery,
): Promise<string[] | null> {
  const given =
    reservation_id === undefined ? null : [parseReservationId(reservation_id)?.id].flatMap((id) => id ?? []);
  if (order_id === undefined && user_id === undefined) return given;
  const filter = { ...ANY, orderId: order_id ?? null, userId: user_id ?? null };
  const { rows } = await redemptions.page(filter, RESERVATIONS, null);
  const found = rows.map(({ redemption_id }) => redemption_id);
  return given === null ? found : found.filter((id) => (given as string[]).includes(id));
}

/** @throws Problem 400 */
function cursorOf(text: string): PaymentEventCursor {
  const parts = cursorParts.safeParse(parsed(Buffer.from(text, 'base64url').toString()));
  if (!parts.success)
    throw invalidFields({ pointer: '#/cursor', detail: 'must be the `next_cursor` of the previous page' });
  const [micros, provider, eventId, reservation] = parts.data;
  return { micros, provider, eventId, reservation };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

const textOf = ({ micros, provider, eventId, reservation }: PaymentEventCursor): string =>
  Buffer.from(JSON.stringify([micros, provider, eventId, reservation])).toString('base64url');

function view({ received_at, refunded_at, settled_at, outcome, ...event }: FoundPaymentEvent): PaymentEventData {
  return {
    ...event,
    outcome: outcome as PaymentOutcome,
    received_at: received_at.toISOString(),
    refunded_at: refunded_at?.toISOString() ?? null,
    settled_at: settled_at?.toISOString() ?? null,
  };
}
