import type { CampaignTerms } from './campaign.js';

type Term<Value, Read = Value> = {
  /** In table `campaigns` of Postgres. */
  column: string;
  toColumn?: (value: Value) => unknown;
  fromColumn?: (stored: never) => Read;
  /** What Redis has of a term that scripts need: field → value. Times and lengths are in ms, flags are 0 or 1. */
  toFields?: (value: Value) => Readonly<Record<string, string | number>>;
};
const flag = (value: boolean) => (value ? 1 : 0);

/**
 * Every term of a campaign, once: its column in Postgres and its fields in Redis. What the rules of a campaign add for scripts
 * is in SaleStore. Scripts read the fields in lua/includes/campaign.lua.
 */
const TERMS: { readonly [Name in keyof CampaignTerms]: Term<CampaignTerms[Name]> } = {
  name: { column: 'name' },
  startsAt: { column: 'starts_at', toFields: (at) => ({ starts_at: at.getTime() }) },
  // In Redis 0 = open end.
  endsAt: { column: 'ends_at', toFields: (at) => ({ ends_at: at?.getTime() ?? 0 }) },
  timeZone: { column: 'time_zone' },
  discount: { column: 'discount', toColumn: (discount) => (discount === null ? null : JSON.stringify(discount)) },
  holdSeconds: { column: 'hold_seconds', toFields: (seconds) => ({ hold_ms: seconds * 1000 }) },
  perUserLimit: { column: 'per_user_limit', toFields: (limit) => ({ per_user_limit: limit }) },
  maxQty: { column: 'max_qty', toFields: (qty) => ({ max_qty: qty }) },
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
  },
  confirmation: { column: 'confirmation', toFields: (mode) => ({ durable: flag(mode === 'durable') }) },
  latePayment: { column: 'late_payment', toFields: (policy) => ({ late_payment: policy }) },
  refundPolicy: { column: 'refund_policy', toFields: (policy) => ({ refund_policy: policy }) },
  requireAttestation: { column: 'require_attestation', toFields: (required) => ({ attest: flag(required) }) },
};
const ALL = Object.entries(TERMS) as [keyof CampaignTerms, Term<never, unknown>][];

/** Columns of all terms, in the order of `termValues`. */
export const TERM_COLUMNS: readonly string[] = ALL.map(([, { column }]) => column);

/** What Postgres stores in `TERM_COLUMNS`. */
export function termValues(terms: CampaignTerms): unknown[] {
  return ALL.map(([name, { toColumn }]) => (toColumn ? toColumn(terms[name] as never) : terms[name]));
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
