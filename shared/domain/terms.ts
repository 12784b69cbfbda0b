import type { CampaignTerms } from './campaign.js';

type Term<Value, Read = Value> = {
  /** In table `campaigns` of Postgres. */
  column: string;
  toColumn?: (value: Value) => unknown;
  fromColumn?: (stored: never) => Read;
  /** What Redis has of a term that scripts need: field → value. Times and lengths are in ms, flags are 0 or 1. */
  toFields?: (value: Value) => Readonly<Record<string, string | number>>;
  fromFields?: (fields: Fields) => Read;
};
/** A hash in Redis. */
type Fields = Readonly<Record<string, string | undefined>>;
/** The terms that Redis has in fields of their own. */
export type FieldTerms = Omit<CampaignTerms, 'name' | 'timeZone' | 'discount'>;

const number = (text: string | undefined) => Number(text ?? 0);
const flag = (value: boolean) => (value ? 1 : 0);

/**
 * Every term of a campaign, once: its column in Postgres and its fields in Redis. What the rules of a campaign add for scripts
 * is in SaleStore. Scripts read the fields in lua/includes/campaign.lua.
 */
const TERMS: { readonly [Name in keyof CampaignTerms]: Term<CampaignTerms[Name]> } & {
  readonly [Name in keyof FieldTerms]: Required<Pick<Term<CampaignTerms[Name]>, 'toFields' | 'fromFields'>>;
} = {
  name: { column: 'name' },
  startsAt: {
    column: 'starts_at',
    toFields: (at) => ({ starts_at: at.getTime() }),
    fromFields: ({ starts_at }) => new Date(number(starts_at)),
  },
  // In Redis 0 = open end.
  endsAt: {
    column: 'ends_at',
    toFields: (at) => ({ ends_at: at?.getTime() ?? 0 }),
    fromFields: ({ ends_at }) => (number(ends_at) > 0 ? new Date(number(ends_at)) : null),
  },
  timeZone: { column: 'time_zone' },
  discount: { column: 'discount', toColumn: (discount) => (discount === null ? null : JSON.stringify(discount)) },
  holdSeconds: {
    column: 'hold_seconds',
    toFields: (seconds) => ({ hold_ms: seconds * 1000 }),
    fromFields: ({ hold_ms }) => number(hold_ms) / 1000,
  },
  perUserLimit: {
    column: 'per_user_limit',
    toFields: (limit) => ({ per_user_limit: limit }),
    fromFields: ({ per_user_limit }) => number(per_user_limit),
  },
  maxQty: {
    column: 'max_qty',
    toFields: (qty) => ({ max_qty: qty }),
    fromFields: ({ max_qty }) => number(max_qty),
  },
  waitingRoom: {
    column: 'waiting_room',
    toColumn: ({ enabled, maxSize, presenceSeconds }) =>
      JSON.stringify({ enabled, max_size: maxSize, presence_seconds: presenceSeconds }),
    fromColumn: (stored: { enabled: boolean; max_size: number; presence_seconds: number | null }) => ({
      enabled: stored.enabled,
      maxSize: stored.max_size,
      presenceSeconds: stored.presence_seconds,
    }),
    // 0 = presence does not matter.
    toFields: ({ enabled, maxSize, presenceSeconds }) => ({
      line_enabled: flag(enabled),
      line_max: maxSize,
      presence_ms: (presenceSeconds ?? 0) * 1000,
    }),
    fromFields: ({ line_enabled, line_max, presence_ms }) => ({
      enabled: line_enabled === '1',
      maxSize: number(line_max),
      presenceSeconds: number(presence_ms) > 0 ? number(presence_ms) / 1000 : null,
    }),
  },
  confirmation: {
    column: 'confirmation',
    toFields: (mode) => ({ durable: flag(mode === 'durable') }),
    fromFields: ({ durable }) => (durable === '1' ? 'durable' : 'fast'),
  },
  latePayment: {
    column: 'late_payment',
    toFields: (policy) => ({ late_payment: policy }),
    fromFields: ({ late_payment }) => (late_payment === 'reacquire' ? 'reacquire' : 'refuse'),
  },
  refundPolicy: {
    column: 'refund_policy',
    toFields: (policy) => ({ refund_policy: policy }),
    fromFields: ({ refund_policy }) => (refund_policy === 'burn' ? 'burn' : 'return'),
  },
  requireAttestation: {
    column: 'require_attestation',
    toFields: (required) => ({ attest: flag(required) }),
    fromFields: ({ attest }) => attest === '1',
  },
};
const ALL = Object.entries(TERMS) as [keyof CampaignTerms, Term<never, unknown>][];

/** The columns of these terms, each with what Postgres stores in it. */
export function termColumns(terms: Partial<CampaignTerms>): { column: string; value: unknown }[] {
  return ALL.filter(([name]) => name in terms).map(([name, { column, toColumn }]) => ({
    column,
    value: toColumn ? toColumn(terms[name] as never) : terms[name],
  }));
}

/** The terms in a row of Postgres, by its columns. */
export function termsOf(row: Readonly<Record<string, unknown>>): CampaignTerms {
  return Object.fromEntries(
    ALL.map(([name, { column, fromColumn }]) => [name, fromColumn ? fromColumn(row[column] as never) : row[column]]),
  ) as CampaignTerms;
}

/** What Redis has of the terms, by its fields. */
export function termFields(terms: CampaignTerms): Record<string, string | number> {
  return Object.assign({}, ...ALL.map(([name, { toFields }]) => toFields?.(terms[name] as never)));
}

/** The terms in a hash of Redis. */
export function termsOfFields(fields: Fields): FieldTerms {
  const found = ALL.filter(([, { fromFields }]) => fromFields);
  return Object.fromEntries(found.map(([name, { fromFields }]) => [name, fromFields?.(fields)])) as FieldTerms;
}
