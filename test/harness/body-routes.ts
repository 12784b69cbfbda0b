import { randomUUID } from 'node:crypto';
import { type FieldKind, INVALID_VALUES } from './invalid-values.js';
import { ADMIN_SECRET, SERVICE_SECRET } from './service.js';
import { freshToken } from './tokens.js';

/** A route that takes a body, and the kind of each of its fields. */
export type BodyRoute = {
  method: string;
  path: string;
  /** The path without what differs from one run to the next. */
  name: string;
  headers: Record<string, string>;
  /** Members of a body that would be accepted, as JSON texts. */
  good: () => Record<string, string>;
  fields: Record<string, FieldKind>;
  /** A shopper's: names that it does not have are ignored, where those of operators and services are refused. */
  isLenient: boolean;
  /** Texts that a field must refuse. */
  wrong: (field: string) => readonly string[];
};

const admin = { authorization: `Bearer ${ADMIN_SECRET}` };
const payment = { authorization: `Bearer ${SERVICE_SECRET}` };
const text = (value: unknown) => JSON.stringify(value);

const TERMS = {
  name: 'note',
  starts_at: 'time',
  ends_at: 'time',
  time_zone: 'text',
  discount: 'text',
  hold_seconds: 'seconds',
  per_user_limit: 'count',
  max_qty: 'count',
  waiting_room: 'text',
  confirmation: 'text',
  late_payment: 'text',
  refund_policy: 'text',
  require_attestation: 'flag',
  require_token: 'flag',
  risk: 'text',
  velocity: 'text',
  opening_minutes: 'seconds',
  audience: 'text',
  stacking: 'text',
  checkout_url: 'url',
  extend_seconds: 'seconds',
  branding: 'branding',
  uniform_refusals: 'flag',
  limits: 'text',
} as const;

/**
 * Texts that a field refuses in general and this one takes: null where it means "none", an object where one is wanted.
 */
const ALLOWED: Record<string, readonly string[]> = {
  starts_at: ['"2031-01-01"', '"2031-01-01T00:00:00"'],
  ends_at: ['null', '"2031-01-01"', '"2031-01-01T00:00:00"'],
  code: ['null'],
  total_limit: ['null'],
  discount: ['null'],
  checkout_url: ['null'],
  branding: ['null', '{}'],
  audience: ['null'],
  limits: ['{}'],
  until: ['null'],
  expires_at: ['null'],
  role: ['null'],
  attributes: ['{}', '{"a":1}'],
};

/** A campaign, a reservation of it, a code that any user may redeem, and a campaign with many codes. */
export type BodySubjects = { product: string; reservationId: string; code: string; pool: string };

/** Every route that takes a body. */
export function bodyRoutes({ product, reservationId, code, pool }: BodySubjects): BodyRoute[] {
  const token = freshToken('fp-bad-input');
  const reservation = () => ({ reservation_id: text(reservationId) });
  const routes = [
    {
      method: 'POST',
      path: '/flash-sale/checkout',
      headers: {},
      good: () => ({
        product_id: text(product),
        user_id: text(`user-${randomUUID()}`),
        qty: '1',
        device_fp: text(token.device_fp),
        attestation: text(token.attestation),
        expires_at: text(token.expires_at),
        idempotency_key: text(randomUUID()),
      }),
      fields: {
        product_id: 'externalId',
        user_id: 'externalId',
        qty: 'count',
        device_fp: 'externalId',
        attestation: 'text',
        expires_at: 'seconds',
        idempotency_key: 'key',
        attributes: 'text',
        challenge_solution: 'text',
        metadata: 'metadata',
      },
    },
    {
      method: 'POST',
      path: '/flash-sale/token',
      headers: {},
      good: () => ({ device_fp: text(token.device_fp), product_id: text(product) }),
      fields: { device_fp: 'externalId', product_id: 'externalId', challenge_solution: 'text', platform: 'text' },
    },
    {
      method: 'POST',
      path: '/flash-sale/confirm',
      headers: payment,
      good: reservation,
      fields: {
        reservation_id: 'reservationId',
        order_id: 'externalId',
        user_id: 'externalId',
        product_id: 'externalId',
        payment_ref: 'note',
      },
    },
    {
      method: 'POST',
      path: '/flash-sale/release',
      headers: payment,
      good: reservation,
      fields: {
        reservation_id: 'reservationId',
        order_id: 'externalId',
        user_id: 'externalId',
        product_id: 'externalId',
        reason: 'note',
        keep: 'kept',
      },
    },
    {
      method: 'POST',
      path: '/flash-sale/extend',
      headers: payment,
      good: reservation,
      fields: {
        reservation_id: 'reservationId',
        order_id: 'externalId',
        user_id: 'externalId',
        product_id: 'externalId',
      },
    },
    {
      method: 'POST',
      path: '/flash-sale/refund',
      headers: payment,
      good: reservation,
      fields: {
        reservation_id: 'reservationId',
        order_id: 'externalId',
        user_id: 'externalId',
        product_id: 'externalId',
        keep: 'kept',
      },
    },
    {
      method: 'POST',
      path: '/admin/campaigns',
      headers: admin,
      good: () => ({ product_id: text(`sale-${randomUUID()}`), total_limit: 'null' }),
      fields: {
        ...TERMS,
        product_id: 'externalId',
        type: 'text',
        code: 'note',
        total_limit: 'seconds',
        draft: 'flag',
        buckets: 'buckets',
        regions: 'text',
      },
    },
    {
      method: 'PATCH',
      path: `/admin/campaigns/${product}`,
      headers: admin,
      good: () => ({}),
      fields: {
        ...TERMS,
        product_id: 'text',
        type: 'text',
        code: 'text',
        total_limit: 'text',
        buckets: 'text',
        regions: 'text',
        status: 'text',
        draft: 'flag',
      },
    },
    {
      method: 'POST',
      path: `/admin/campaigns/${product}/stock`,
      headers: admin,
      good: () => ({ delta: '1' }),
      fields: { delta: 'delta' },
    },
    {
      method: 'POST',
      path: '/coupons/validate',
      headers: {},
      good: () => ({
        codes: text([code]),
        user_id: text(`user-${randomUUID()}`),
        cart: text({ subtotal: 1_000, currency: 'IDR' }),
      }),
      fields: {
        code: 'typedCode',
        codes: 'typedCodes',
        user_id: 'externalId',
        attributes: 'attributes',
        cart: 'cart',
        challenge_solution: 'text',
      },
    },
    {
      method: 'POST',
      path: '/coupons/redeem',
      headers: {},
      good: () => ({
        code: text(code),
        user_id: text(`user-${randomUUID()}`),
        order_id: text(`order-${randomUUID()}`),
        idempotency_key: text(randomUUID()),
      }),
      fields: {
        code: 'typedCode',
        user_id: 'externalId',
        order_id: 'externalId',
        attributes: 'attributes',
        cart: 'cart',
        token: 'oneTimeToken',
        idempotency_key: 'key',
        device_fp: 'externalId',
        attestation: 'oneTimeToken',
        expires_at: 'seconds',
        challenge_solution: 'text',
        metadata: 'metadata',
      },
    },
    {
      method: 'POST',
      path: '/admin/bans',
      headers: admin,
      good: () => ({ kind: text('user'), subject: text(`user-${randomUUID()}`), reason: text('a test') }),
      fields: { effect: 'text', kind: 'text', subject: 'externalId', until: 'time', reason: 'note' },
    },
    {
      method: 'POST',
      path: `/admin/campaigns/${product}/line/remove`,
      headers: admin,
      // The user does not wait, which is found out after the body is read.
      good: () => ({ user_id: text(`user-${randomUUID()}`) }),
      fields: { user_id: 'externalId', reason: 'note' },
    },
    // No reservation has this id, which is found out after the body is read.
    ...['release', 'refund', 'resend'].map((action) => ({
      method: 'POST',
      path: `/admin/reservations/${product}/${action}`,
      headers: admin,
      good: () => ({ reason: text('a test') }),
      fields: action === 'resend' ? { reason: 'note' as const } : { reason: 'note' as const, keep: 'kept' as const },
    })),
    {
      method: 'POST',
      path: '/admin/payment-events/settle',
      headers: admin,
      // There is no such event, which is found out after the body is read.
      good: () => ({ provider: text('stripe'), event_id: text(`evt_${randomUUID()}`) }),
      fields: { provider: 'text', event_id: 'text', reason: 'note' },
    },
    {
      method: 'POST',
      path: '/admin/keys',
      headers: admin,
      good: () => ({ name: text(`key-${randomUUID()}`), kind: text('service') }),
      fields: { name: 'text', kind: 'text', role: 'text', expires_at: 'time' },
    },
    {
      method: 'POST',
      path: `/admin/campaigns/${pool}/codes`,
      headers: admin,
      good: () => ({ count: '1' }),
      fields: { count: 'count', prefix: 'codePrefix' },
    },
  ] satisfies Omit<BodyRoute, 'name' | 'wrong' | 'isLenient'>[];

  return routes.map((route) => ({
    ...route,
    isLenient: !('authorization' in route.headers),
    name: route.path.replace(product, ':id').replace(pool, ':id'),
    wrong: (field) => {
      const kind = (route.fields as Record<string, FieldKind>)[field] as FieldKind;
      // An amendment refuses a code and a total whatever they are.
      const fixed = route.method === 'PATCH' && (field === 'code' || field === 'total_limit');
      const allowed = fixed ? [] : (ALLOWED[field] ?? []);
      return INVALID_VALUES[kind].filter((value) => !allowed.includes(value));
    },
  }));
}
