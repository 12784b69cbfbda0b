import type { Request } from 'express';
import { parseReservationId } from '../../shared/domain/ids.js';
import type { Tickets } from '../guards/auth/ticket.js';

/**
 * What a request is about. The region that owns it decides. `user`: null = the request names none that is valid. Their
 * identity is verified by the region that decides.
 */
export type Subject =
  | { kind: 'codes'; codes: readonly string[]; user: string | null }
  | { kind: 'product'; product: string; user: string | null }
  | { kind: 'campaign'; no: number };

/** Reads the subject of a request; null = it has none that is valid, so this region refuses it as always. */
export type SubjectOf = (req: Request, body: unknown, tickets: Tickets) => Subject | null;

/**
 * The routes that the owner of their subject decides, by method and path. All others are served by the region that
 * receives them: one-time tokens are only signed, and sockets are opened at the region that has the campaign.
 */
export const SUBJECTS: Readonly<Record<string, SubjectOf>> = {
  'post /coupons/redeem': (_, body) => codesIn([fieldOf(body, 'code')], fieldOf(body, 'user_id')),
  'post /coupons/validate': (_, body) => {
    const codes = isObject(body) && Array.isArray(body.codes) ? body.codes : [];
    return codesIn([fieldOf(body, 'code'), ...codes], fieldOf(body, 'user_id'));
  },
  'post /flash-sale/checkout': (_, body) => productOf(fieldOf(body, 'product_id'), fieldOf(body, 'user_id')),
  'post /flash-sale/confirm': (_, body) => campaignOf(fieldOf(body, 'reservation_id')),
  'post /flash-sale/release': (_, body) => campaignOf(fieldOf(body, 'reservation_id')),
  'post /flash-sale/extend': (_, body) => campaignOf(fieldOf(body, 'reservation_id')),
  'post /flash-sale/refund': (_, body) => campaignOf(fieldOf(body, 'reservation_id')),
  'get /flash-sale/token': ({ query }) => productOf(query.product_id),
  'post /flash-sale/token': (_, body) => productOf(fieldOf(body, 'product_id')),
  'get /flash-sale/campaign': ({ query }) => productOf(query.product_id),
  'get /flash-sale/queue-status': ({ query }) => productOf(query.product_id, query.user_id),
  'get /flash-sale/line': ({ query }) => productOf(query.product_id),
  'delete /flash-sale/queue': (req, _, tickets) => campaignOfTicket(req, tickets),
  'post /flash-sale/push': (req, _, tickets) => campaignOfTicket(req, tickets),
  'delete /flash-sale/push': (req, _, tickets) => campaignOfTicket(req, tickets),
};

function campaignOfTicket(req: Request, tickets: Tickets): Subject | null {
  const text = req.headers['x-ticket'];
  const ticket = typeof text === 'string' ? tickets.verify(text) : null;
  return ticket && { kind: 'campaign', no: ticket.campaignNo };
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;
const fieldOf = (body: unknown, name: string): unknown => (isObject(body) ? body[name] : undefined);

function codesIn(values: readonly unknown[], user: unknown): Subject | null {
  const codes = values.filter((value) => typeof value === 'string');
  return codes.length === 0 ? null : { kind: 'codes', codes, user: textOrNull(user) };
}

function productOf(value: unknown, user: unknown = null): Subject | null {
  return typeof value === 'string' ? { kind: 'product', product: value, user: textOrNull(user) } : null;
}

const textOrNull = (value: unknown): string | null => (typeof value === 'string' ? value : null);

function campaignOf(value: unknown): Subject | null {
  const parsed = typeof value === 'string' ? parseReservationId(value) : null;
  return parsed && { kind: 'campaign', no: parsed.campaignNo };
}
