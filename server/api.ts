import { CODES } from './codes.js';
import {
  type Check,
  isCampaign,
  isDecided,
  isRecord,
  isRedeemed,
  isReservation,
  isStats,
  isValidated,
} from './shapes.js';

/** Money is an integer in minor units. */
export type Cart = { subtotal: number; currency: string };

export type Validated = {
  valid: boolean;
  discount_amount: number | null;
  total: number | null;
  remaining_hint?: 'plenty' | 'few' | 'none';
} & Record<string, unknown>;

export type Redeemed =
  | ({ status: 'redeemed' | 'reserved'; reservation_id: string; order_id: string; pay_before: string | null } & Record<
      string,
      unknown
    >)
  | ({ status: 'queued'; position: number; queue_size: number } & Record<string, unknown>);

/**
 * A reservation by its id, or those of an order. `user_id` if several users have it; `product_id` for those of one
 * product alone.
 */
export type ReservationName = { reservation_id: string } | { order_id: string; user_id?: string; product_id?: string };

/** An order that has several reservations. */
export type OfOrder = { order_id: string; reservations: { reservation_id: string; status: string }[] };

export type Confirmed = {
  reservation_id: string;
  status: 'redeemed';
  order_id: string;
  /** The first `payment_ref`, if this call had another one: refund one of the payments. */
  already_paid_by?: string;
  reacquired?: true;
  /** Units of the reservation, if some were given back before: deliver no more than these. */
  qty?: number;
};
export type Released = { reservation_id: string; released: true; status: 'released' | 'expired' };
/** The reservation keeps `qty` units. `released_qty`: those that were released until now. */
export type ReleasedInPart = {
  reservation_id: string;
  released: false;
  status: 'reserved';
  qty: number;
  released_qty: number;
};
export type Extended = { reservation_id: string; status: 'extended'; pay_before: string };
export type Refunded = { reservation_id: string; status: 'refunded'; returned_to_stock: boolean };
/** The reservation keeps `qty` units. `refunded_qty`: those that were refunded until now. */
export type RefundedInPart = {
  reservation_id: string;
  status: 'redeemed';
  returned_to_stock: boolean;
  qty: number;
  refunded_qty: number;
};
export type Campaign = {
  id: string;
  product_id: string;
  name: string;
  status: string;
  total_limit: number | null;
} & Record<string, unknown>;

export type ServerOptions = {
  /** Address of the API, such as `https://sale.shop.example`. */
  baseUrl: string;
  /** A secret of SERVICE_API_KEYS: for `confirm`, `release`, `extend`, `refund` and `reservation`. */
  serviceKey?: string;
  /** A secret of ADMIN_API_KEYS: for `campaigns`. */
  adminKey?: string;
  /** The time limit of one call. Default: 10 s. */
  timeoutMs?: number;
  /** How often a call is repeated that got no response of the service, 429 or 5xx. Default: 3. */
  retries?: number;
  fetch?: typeof fetch;
};

/**
 * A refusal by the service. `code` is that of the problem document; `unreachable` = the service did not respond, or a
 * proxy responded in its place.
 */
export class DoorbusterError extends Error {
  override readonly name = 'DoorbusterError';
  constructor(
    readonly code: string,
    /** 0 = the service did not respond. */
    readonly status: number,
    /** The problem document. */
    readonly problem: Readonly<Record<string, unknown>>,
  ) {
    super(`${code}: ${problem.detail ?? 'no response'}`);
  }
}

type Key = 'serviceKey' | 'adminKey' | null;
type Call = {
  method: string;
  path: string;
  key: Key;
  /** Whether the `data` of a success is that of this call. */
  isOwn: Check;
  body?: unknown;
  headers?: Record<string, string>;
};
const FIRST_PAUSE_MS = 200;
const MAX_PAUSE_MS = 5_000;
const MAX_RETRY_AFTER_MS = 60_000;

/** Reads `Retry-After`: seconds, or a date by the clock of the server. @returns at most a minute */
function retryAfterMs(headers: Headers): number {
  const after = headers.get('Retry-After') ?? '';
  const ms = 1000 * Number(after) || Date.parse(after) - (Date.parse(headers.get('Date') ?? '') || Date.now());
  return ms > 0 ? Math.min(ms, MAX_RETRY_AFTER_MS) : 0;
}

/**
 * The calls of a shop's backend. Each call is safe to repeat, and is repeated after lost responses, 429 and 5xx. All of
 * them throw DoorbusterError.
 */
export class Doorbuster {
  constructor(readonly options: ServerOptions) {}

  /** Checks codes. Changes nothing. */
  validate(body: {
    code?: string;
    codes?: readonly string[];
    user_id: string;
    attributes?: Record<string, unknown>;
    cart?: Cart;
  }): Promise<Validated> {
    return this.#call({ method: 'POST', path: '/coupons/validate', key: null, isOwn: isValidated(body), body });
  }

  /**
   * Redeems a code for an order.
   * @param idempotencyKey the same for every try of one intention, such as the id of the order and the code
   */
  redeem(
    body: {
      code: string;
      user_id: string;
      order_id: string;
      attributes?: Record<string, unknown>;
      cart?: Cart;
      metadata?: Record<string, string>;
    },
    { idempotencyKey }: { idempotencyKey: string },
  ): Promise<Redeemed> {
    const headers = { 'Idempotency-Key': idempotencyKey };
    const isOwn = isRedeemed(body.order_id);
    return this.#call({ method: 'POST', path: '/coupons/redeem', key: null, isOwn, body, headers });
  }

  /**
   * Confirms the payment of a reservation. A code `reservation_released` means: refund the payment. In an order with
   * several reservations, `order_partly_decided` means that some could not be confirmed.
   */
  confirm(body: { reservation_id: string; payment_ref?: string }): Promise<Confirmed>;
  confirm(body: ReservationName & { payment_ref?: string }): Promise<Confirmed | OfOrder>;
  confirm(body: ReservationName & { payment_ref?: string }): Promise<Confirmed | OfOrder> {
    return this.#call(decision('confirm', body));
  }

  /**
   * Gives up an unpaid reservation. With `keep` it keeps that many of its units; a code `reservation_released` then means
   * that it has ended.
   */
  release(body: { reservation_id: string; reason?: string; keep?: 0 }): Promise<Released>;
  release(body: ReservationName & { reason?: string; keep?: 0 }): Promise<Released | OfOrder>;
  release(body: ReservationName & { reason?: string; keep: number }): Promise<Released | ReleasedInPart>;
  release(body: ReservationName & { reason?: string; keep?: number }): Promise<Released | ReleasedInPart | OfOrder> {
    return this.#call(decision('release', body));
  }

  /**
   * Extends the time to pay once, while a payment is under way. A code `already_extended` means that an earlier call
   * did it, `extension_not_allowed` that the campaign has no `extend_seconds` or is closed.
   */
  extend(body: { reservation_id: string }): Promise<Extended>;
  extend(body: ReservationName): Promise<Extended | OfOrder>;
  async extend(body: ReservationName): Promise<Extended | OfOrder> {
    const call = decision('extend', body);
    let hasLost = false;
    try {
      return await this.#call(call, () => {
        hasLost = true;
      });
    } catch (error) {
      if (!hasLost || !(error instanceof DoorbusterError) || error.code !== 'already_extended') throw error;
      // A try of this call did it, and its response was lost.
      const { reservation_id, reservations, pay_before } = error.problem as unknown as Extended & OfOrder;
      const order_id = 'order_id' in body ? body.order_id : '';
      const data = reservations
        ? { order_id, reservations }
        : { reservation_id, status: 'extended' as const, pay_before };
      if (!call.isOwn(data)) throw error;
      return data;
    }
  }

  /**
   * Records that the payment of a redeemed reservation was refunded. With `keep` it keeps that many of its units; a code
   * `reservation_refunded` then means that all of them were refunded.
   */
  refund(body: { reservation_id: string; keep?: 0 }): Promise<Refunded>;
  refund(body: ReservationName & { keep?: 0 }): Promise<Refunded | OfOrder>;
  refund(body: ReservationName & { keep: number }): Promise<Refunded | RefundedInPart>;
  refund(body: ReservationName & { keep?: number }): Promise<Refunded | RefundedInPart | OfOrder> {
    return this.#call(decision('refund', body));
  }

  /** Reads a reservation, to check what a browser sent. */
  reservation(id: string): Promise<Record<string, unknown>> {
    const path = `/flash-sale/reservations/${encodeURIComponent(id)}`;
    return this.#call({ method: 'GET', path, key: 'serviceKey', isOwn: isReservation(id) });
  }

  /** Campaigns, with an admin key. */
  readonly campaigns = {
    create: (terms: { product_id: string; total_limit: number | null } & Record<string, unknown>): Promise<Campaign> =>
      this.#create(terms),
    get: (id: string): Promise<Campaign> => this.#campaign('GET', id, isCampaign(id)),
    update: (id: string, terms: Record<string, unknown>): Promise<Campaign> =>
      this.#campaign('PATCH', id, isCampaign(id), '', terms),
    pause: (id: string): Promise<Campaign> => this.#campaign('POST', id, isCampaign(id, ['paused']), '/pause'),
    resume: (id: string): Promise<Campaign> =>
      this.#campaign('POST', id, isCampaign(id, ['open', 'scheduled']), '/resume'),
    close: (id: string): Promise<Campaign> => this.#campaign('POST', id, isCampaign(id, ['closed']), '/close'),
    stats: (id: string): Promise<Record<string, unknown>> => this.#campaign('GET', id, isStats, '/stats'),
  };

  async #create(terms: { product_id: string } & Record<string, unknown>): Promise<Campaign> {
    let hasLost = false;
    try {
      const isOwn = isCampaign(terms.product_id);
      return await this.#call({ method: 'POST', path: '/admin/campaigns', key: 'adminKey', isOwn, body: terms }, () => {
        hasLost = true;
      });
    } catch (error) {
      if (!hasLost || !(error instanceof DoorbusterError) || error.code !== 'campaign_exists') throw error;
      // A try of this call may have created it, and its response was lost. Then it has the terms that were sent.
      const found = await this.campaigns.get(terms.product_id);
      if (!isMadeFrom(JSON.parse(JSON.stringify(terms)), found)) throw error;
      return found;
    }
  }

  #campaign<Data>(method: string, id: string, isOwn: Check, action = '', body?: unknown): Promise<Data> {
    const path = `/admin/campaigns/${encodeURIComponent(id)}${action}`;
    return this.#call({ method, path, key: 'adminKey', isOwn, body });
  }

  /** @param onLost called when a try had no usable response, so that it may have had its effect */
  async #call<Data>(call: Call, onLost: () => void = () => {}): Promise<Data> {
    const { retries = 3 } = this.options;
    for (let tries = 0; ; tries += 1) {
      const { data, error, retryAfterMs } = await this.#once<Data>(call);
      if (!error) return data as Data;
      const passes = [0, 408, 429].includes(error.status) || error.status >= 500;
      if (!passes || tries >= retries) throw error;
      if (error.status !== 429) onLost();
      const pause = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** tries) * (0.5 + Math.random() / 2);
      await new Promise((resolve) => setTimeout(resolve, Math.max(retryAfterMs, pause)));
    }
  }

  async #once<Data>({ method, path, key, isOwn, body, headers = {} }: Call): Promise<{
    data?: Data;
    error?: DoorbusterError;
    retryAfterMs: number;
  }> {
    const { baseUrl, timeoutMs = 10_000, fetch: send = fetch } = this.options;
    const secret = key && this.options[key];
    if (key && !secret) throw new TypeError(`this call needs the option ${key}`);
    try {
      const response = await send(baseUrl.replace(/\/+$/, '') + path, {
        method,
        headers: {
          ...headers,
          ...(secret ? { Authorization: `Bearer ${secret}` } : {}),
          ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(timeoutMs),
        // A redirected POST becomes a GET, and a foreign origin must not get the body.
        redirect: 'manual',
      });
      const { status, headers: got } = response;
      const json: unknown = await response.json().catch(() => null);
      if (response.ok && isRecord(json) && isOwn(json.data)) return { data: json.data as Data, retryAfterMs: 0 };
      const error =
        isRecord(json) && isOurs(json, status)
          ? new DoorbusterError(json.code, status, json)
          : new DoorbusterError('unreachable', 0, { detail: `${status} of another server` });
      return { error, retryAfterMs: retryAfterMs(got) };
    } catch (thrown) {
      return { error: new DoorbusterError('unreachable', 0, { detail: String(thrown) }), retryAfterMs: 0 };
    }
  }
}

/** A call by which a payment service decides a reservation, or those of an order. */
function decision(name: Parameters<typeof isDecided>[0], body: ReservationName & { keep?: number }): Call {
  return { method: 'POST', path: `/flash-sale/${name}`, key: 'serviceKey', isOwn: isDecided(name, body), body };
}

/** Whether a campaign has the terms that were sent to create it, when nothing else has happened to it. */
function isMadeFrom(
  { draft = false, starts_at, ends_at, ...terms }: Record<string, unknown>,
  found: Campaign,
): boolean {
  // `draft` is no field of the campaign, but its status.
  const isAsDraft = draft === (found.status === 'draft');
  return isAsDraft && isAt(found, 'starts_at', starts_at) && isAt(found, 'ends_at', ends_at) && contains(found, terms);
}

const DAY = /^\d{4}-\d{2}-\d{2}$/;
const DAY_MS = 86_400_000;

/** Whether a campaign has a time that was sent: with an offset, or on the clock of its time zone, or as a day. */
function isAt(found: Campaign, name: 'starts_at' | 'ends_at', sent: unknown): boolean {
  if (typeof sent !== 'string') return contains(found[name], sent);
  if (/(?:Z|[+-]\d{2}:\d{2})$/.test(sent)) return Date.parse(String(found[name])) === Date.parse(sent);
  // Two readings of one clock are compared as if they were UTC. The last day is included, so the sale ends after it.
  const shown = Date.parse(`${String(found[`${name}_local`]).slice(0, '2031-01-01T00:00:00.000'.length)}Z`);
  const asked = DAY.test(sent) ? Date.parse(sent) + (name === 'ends_at' ? DAY_MS : 0) : Date.parse(`${sent}Z`);
  // A time that the clock skips means the moment of the skip.
  return shown === asked || (shown > asked && shown - asked <= skippedMs(found, Date.parse(String(found[name]))));
}

/** By how much the clock of a campaign is set forward at a moment, ms; 0 = not, or the time zone is not known here. */
function skippedMs({ time_zone }: Campaign, atMs: number): number {
  // Clocks are set at whole seconds.
  if (atMs % 1_000 !== 0) return 0;
  const readingAt = (ms: number) =>
    Date.parse(`${new Date(ms).toLocaleString('sv', { timeZone: String(time_zone) })}Z`);
  try {
    return readingAt(atMs) - readingAt(atMs - 1_000) - 1_000;
  } catch {
    return 0;
  }
}

/** Whether a value has what was sent. The service adds fields. */
function contains(found: unknown, sent: unknown): boolean {
  if (sent === undefined || found === sent) return true;
  if (typeof found !== 'object' || typeof sent !== 'object' || !found || !sent) return false;
  if (Array.isArray(found) && found.length !== (sent as readonly unknown[]).length) return false;
  return Object.entries(sent).every(([name, value]) => contains((found as Record<string, unknown>)[name], value));
}

/** Whether a body is a problem document of Doorbuster, and not one of a proxy or of another API. */
function isOurs(json: Record<string, unknown>, status: number): json is { code: string } {
  const { code, type } = json;
  const isProblem = typeof code === 'string' && CODES.has(code) && type === `https://doorbuster.dev/errors/${code}`;
  // A proxy may have replaced the status, and a cache the body.
  return isProblem && json.status === status;
}
