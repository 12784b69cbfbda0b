/**
 * What the `data` of each call has by the contract. A 2xx without it is the response of another server, such as
 * `{"data":null,"errors":[…]}` of a GraphQL server behind a wrong route.
 */
export type Check = (value: unknown) => boolean;
/** How a call names reservations. */
type Named = { reservation_id?: unknown; order_id?: unknown; keep?: unknown };

const isText: Check = (value) => typeof value === 'string' && value !== '';
const isBoolean: Check = (value) => typeof value === 'boolean';
const isInteger: Check = (value) => Number.isSafeInteger(value);
const isTime: Check = (value) => typeof value === 'string' && !Number.isNaN(Date.parse(value));
const isOne = (...values: readonly unknown[]): Check => {
  return (value) => values.includes(value);
};
const isNullOr = (check: Check): Check => {
  return (value) => value === null || check(value);
};
const isListOf = (check: Check): Check => {
  return (value) => Array.isArray(value) && value.length > 0 && value.every(check);
};
const has = (fields: Readonly<Record<string, Check>>): Check => {
  return (value) => isRecord(value) && Object.entries(fields).every(([name, check]) => check(value[name]));
};

export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The service writes ids of reservations and campaigns in lower case. */
const isId = (id: unknown): Check => isOne(String(id).toLowerCase());

/** `all` of a reservation is decided, or with `keep` a `part` of its units. */
const DECIDED = {
  confirm: { all: { status: isOne('redeemed'), order_id: isText }, part: null },
  extend: { all: { status: isOne('extended'), pay_before: isTime }, part: null },
  release: {
    all: { status: isOne('released', 'expired'), released: isOne(true) },
    part: { status: isOne('reserved'), released: isOne(false), qty: isInteger, released_qty: isInteger },
  },
  refund: {
    all: { status: isOne('refunded'), returned_to_stock: isBoolean },
    part: { status: isOne('redeemed'), returned_to_stock: isBoolean, qty: isInteger, refunded_qty: isInteger },
  },
};

/** A reservation, or those of an order. Each of several has the status of one that is decided. */
export function isDecided(call: keyof typeof DECIDED, { reservation_id, order_id, keep }: Named): Check {
  const { all, part } = DECIDED[call];
  const isNamed = reservation_id === undefined ? isText : isId(reservation_id);
  const isSingle = has({ ...(keep && part ? part : all), reservation_id: isNamed });
  if (order_id === undefined) return isSingle;
  const reservations = isListOf(has({ reservation_id: isText, status: all.status }));
  const isOrder = has({ order_id: isOne(order_id), reservations });
  return (data) => isSingle(data) || isOrder(data);
}

export const isReservation = (id: string): Check =>
  has({
    reservation_id: isId(id),
    product_id: isText,
    status: isOne('reserved', 'redeemed', 'released', 'expired', 'refunded', 'voided'),
  });

export const isValidated = ({ code }: { code?: unknown }): Check =>
  has({
    valid: isBoolean,
    discount_amount: isNullOr(isInteger),
    total: isNullOr(isInteger),
    ...(code === undefined ? { applied: Array.isArray } : { campaign: has({ product_id: isText }) }),
  });

export function isRedeemed(order: string): Check {
  const unit = { status: isOne('redeemed', 'reserved'), reservation_id: isText, order_id: isOne(order) };
  const isUnit = has({ ...unit, pay_before: isNullOr(isTime) });
  const isPlace = has({ status: isOne('queued'), position: isInteger, queue_size: isInteger });
  return (data) => isUnit(data) || isPlace(data);
}

/** @param id its id or product id */
export function isCampaign(id: string, statuses: readonly string[] = CAMPAIGN_STATUSES): Check {
  const hasTerms = has({
    id: isText,
    product_id: isText,
    total_limit: isNullOr(isInteger),
    status: isOne(...statuses),
  });
  const isNamed = [has({ product_id: isOne(id) }), has({ id: isId(id) })];
  return (data) => hasTerms(data) && isNamed.some((check) => check(data));
}
const CAMPAIGN_STATUSES = ['draft', 'scheduled', 'open', 'paused', 'closed'];

export const isStats: Check = has({
  ...{ total: isNullOr(isInteger), free: isNullOr(isInteger) },
  ...{ held: isInteger, redeemed: isInteger, burned: isInteger, waiting: isInteger },
});
