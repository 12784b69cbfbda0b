import type { Discount } from './discount.js';

/** How a script reads a field: a number, whether it is 1, or the text. */
type FieldKind = 'int' | 'flag' | 'text';
/** The fields of a campaign in Redis. */
type Fields = Readonly<Record<string, string>>;
type FieldValues = Readonly<Record<string, string | number>>;

type Term<Column extends string, Value, Stored> = {
  /** The column in table `campaigns`. It is also the name of the term for operators. */
  column: Column;
  /** Converts to the form that Postgres stores and operators send and get: JSON, or a Date. */
  toStored: (value: Value) => Stored;
  fromStored: (stored: Stored) => Value;
};
type ScriptTerm<Column extends string, Value, Stored> = Term<Column, Value, Stored> & {
  /** Fields in Redis. Times and durations are in ms, flags are 0 or 1. */
  fields: Readonly<Record<string, FieldKind>>;
  toFields: (value: Value) => FieldValues;
  fromFields: (fields: Fields) => Value;
};

const asItIs = <Value>(value: Value): Value => value;
const numberIn = (text: string | undefined) => Number(text);
const flagOf = (value: boolean) => (value ? 1 : 0);

/** A term that no script needs. Redis stores it as JSON, so that a Postgres that was set back can be repaired. */
const detail =
  <Value>() =>
  <Column extends string>(column: Column): Term<Column, Value, Value> => ({
    column,
    toStored: asItIs,
    fromStored: asItIs,
  });
/** A number with a field of the same name. */
const count = <Column extends string>(column: Column): ScriptTerm<Column, number, number> => ({
  ...detail<number>()(column),
  fields: { [column]: 'int' },
  toFields: (value) => ({ [column]: value }),
  fromFields: (fields) => numberIn(fields[column]),
});
/** A flag. @param field its name in Redis */
const flag = <Column extends string>(column: Column, field: string): ScriptTerm<Column, boolean, boolean> => ({
  ...detail<boolean>()(column),
  fields: { [field]: 'flag' },
  toFields: (value) => ({ [field]: flagOf(value) }),
  fromFields: (fields) => fields[field] === '1',
});
/** One of several words, with a field of the same name. */
const choice =
  <Choice extends string>() =>
  <Column extends string>(column: Column): ScriptTerm<Column, Choice, Choice> => ({
    ...detail<Choice>()(column),
    fields: { [column]: 'text' },
    toFields: (value) => ({ [column]: value }),
    fromFields: (fields) => fields[column] as Choice,
  });

/**
 * `absentHoldSeconds`: hold of a user who is promoted without having been seen for `presenceSeconds`; without it, such
 * users are not promoted.
 */
type WaitingRoom = {
  enabled: boolean;
  maxSize: number;
  presenceSeconds: number | null;
  absentHoldSeconds?: number;
};
type StoredWaitingRoom = {
  enabled: boolean;
  max_size: number;
  presence_seconds: number | null;
  absent_hold_seconds?: number | null | undefined;
};

/**
 * Every term of a campaign. Types, SQL, the fields in Redis, their reading in lua/includes/campaign.lua, and the
 * contract for operators follow from this table. Postgres owns the terms: they are changed there first and then copied
 * to Redis. shared/sale/campaigns.ts adds the fields that follow from a campaign's rules.
 */
const TERMS = {
  name: detail<string>()('name'),
  startsAt: {
    ...detail<Date>()('starts_at'),
    fields: { starts_at: 'int' },
    toFields: (at) => ({ starts_at: at.getTime() }),
    fromFields: ({ starts_at }) => new Date(numberIn(starts_at)),
  } satisfies ScriptTerm<'starts_at', Date, Date>,
  /** null = no end; 0 in Redis */
  endsAt: {
    ...detail<Date | null>()('ends_at'),
    fields: { ends_at: 'int' },
    toFields: (at) => ({ ends_at: at?.getTime() ?? 0 }),
    fromFields: ({ ends_at }) => (numberIn(ends_at) > 0 ? new Date(numberIn(ends_at)) : null),
  } satisfies ScriptTerm<'ends_at', Date | null, Date | null>,
  timeZone: detail<string>()('time_zone'),
  discount: detail<Discount | null>()('discount'),
  /** 0 = nothing to pay; units are redeemed at once */
  holdSeconds: {
    ...detail<number>()('hold_seconds'),
    fields: { hold_ms: 'int' },
    toFields: (seconds) => ({ hold_ms: seconds * 1000 }),
    fromFields: ({ hold_ms }) => numberIn(hold_ms) / 1000,
  } satisfies ScriptTerm<'hold_seconds', number, number>,
  /** How many redemptions, of any quantity, one user may hold or have used. */
  perUserLimit: count('per_user_limit'),
  /** Maximum units of one redemption. */
  maxQty: count('max_qty'),
  waitingRoom: {
    column: 'waiting_room',
    toStored: ({ enabled, maxSize, presenceSeconds, absentHoldSeconds }) => ({
      enabled,
      max_size: maxSize,
      presence_seconds: presenceSeconds,
      ...(absentHoldSeconds ? { absent_hold_seconds: absentHoldSeconds } : {}),
    }),
    fromStored: ({ enabled, max_size, presence_seconds, absent_hold_seconds }) => ({
      enabled,
      maxSize: max_size,
      presenceSeconds: presence_seconds,
      ...(absent_hold_seconds ? { absentHoldSeconds: absent_hold_seconds } : {}),
    }),
    // `presence_ms`: 0 = presence is not required. `absent_hold_ms`: 0 = absent users are not promoted.
    fields: { line_enabled: 'flag', line_max: 'int', presence_ms: 'int', absent_hold_ms: 'int' },
    toFields: ({ enabled, maxSize, presenceSeconds, absentHoldSeconds }) => ({
      line_enabled: flagOf(enabled),
      line_max: maxSize,
      presence_ms: (presenceSeconds ?? 0) * 1000,
      absent_hold_ms: (absentHoldSeconds ?? 0) * 1000,
    }),
    fromFields: ({ line_enabled, line_max, presence_ms, absent_hold_ms }) => ({
      enabled: line_enabled === '1',
      maxSize: numberIn(line_max),
      presenceSeconds: numberIn(presence_ms) > 0 ? numberIn(presence_ms) / 1000 : null,
      ...(numberIn(absent_hold_ms) > 0 ? { absentHoldSeconds: numberIn(absent_hold_ms) / 1000 } : {}),
    }),
  } satisfies ScriptTerm<'waiting_room', WaitingRoom, StoredWaitingRoom>,
  confirmation: {
    ...detail<'fast' | 'durable'>()('confirmation'),
    fields: { durable: 'flag' },
    toFields: (mode) => ({ durable: flagOf(mode === 'durable') }),
    fromFields: ({ durable }) => (durable === '1' ? 'durable' : 'fast'),
  } satisfies ScriptTerm<'confirmation', 'fast' | 'durable', 'fast' | 'durable'>,
  latePayment: choice<'refuse' | 'reacquire'>()('late_payment'),
  refundPolicy: choice<'return' | 'burn'>()('refund_policy'),
  requireAttestation: flag('require_attestation', 'attest'),
};

type Table = typeof TERMS;
type ValueOf<One> = One extends { toStored: (value: infer Value) => unknown } ? Value : never;
type StoredOf<One> = One extends { fromStored: (stored: infer Stored) => unknown } ? Stored : never;

/** The terms of a campaign in TypeScript. */
export type CampaignTerms = { [Name in keyof Table]: ValueOf<Table[Name]> };
/** The terms by their columns: a row in Postgres, and the form that operators send and get. */
export type StoredTerms = { [Name in keyof Table as Table[Name]['column']]: StoredOf<Table[Name]> };
/** The terms that have their own fields in Redis. */
export type FieldTerms = {
  [Name in keyof Table as Table[Name] extends { fields: unknown } ? Name : never]: CampaignTerms[Name];
};
/** The terms that no script needs. */
export type DetailTerms = Omit<CampaignTerms, keyof FieldTerms>;

type AnyTerm = Term<string, unknown, unknown> & Partial<ScriptTerm<string, unknown, unknown>>;
type AnyScriptTerm = ScriptTerm<string, unknown, unknown>;
const ALL = Object.entries(TERMS) as unknown as [keyof CampaignTerms, AnyTerm][];
const IN_FIELDS = ALL.filter(([, { fields }]) => fields) as [keyof FieldTerms, AnyScriptTerm][];
const DETAILS = ALL.filter(([, { fields }]) => !fields);

/** The columns of these terms with their query parameters. */
export function termColumns(terms: Partial<CampaignTerms>): { column: string; value: unknown }[] {
  return ALL.filter(([name]) => terms[name] !== undefined).map(([name, { column, toStored }]) => {
    const stored = toStored(terms[name]);
    const isJson = typeof stored === 'object' && stored !== null && !(stored instanceof Date);
    return { column, value: isJson ? JSON.stringify(stored) : stored };
  });
}

/** The terms by their columns. */
export function storedTerms(terms: CampaignTerms): StoredTerms {
  return Object.fromEntries(ALL.map(([name, { column, toStored }]) => [column, toStored(terms[name])])) as StoredTerms;
}

/** Reads the terms from a row of Postgres, or from the body that an operator sent. */
export function termsOf(stored: StoredTerms): CampaignTerms {
  return givenTerms(stored) as CampaignTerms;
}

/** Does the same for some of the terms. A column that is missing or undefined is left out. */
export function givenTerms(
  stored: { [Column in keyof StoredTerms]?: StoredTerms[Column] | undefined },
): Partial<CampaignTerms> {
  const given = ALL.filter(([, { column }]) => stored[column as keyof StoredTerms] !== undefined);
  return Object.fromEntries(
    given.map(([name, { column, fromStored }]) => [name, fromStored(stored[column as keyof StoredTerms])]),
  );
}

/** The terms as fields for Redis. */
export function termFields(terms: FieldTerms): Record<string, string | number> {
  return Object.assign({}, ...IN_FIELDS.map(([name, { toFields }]) => toFields(terms[name])));
}

/** Reads the terms from their fields in Redis. */
export function termsOfFields(fields: Fields): FieldTerms {
  return Object.fromEntries(
    IN_FIELDS.map(([name, { fromFields }]) => [name, fromFields(fields)]),
  ) as unknown as FieldTerms;
}

/** The terms that Redis stores as JSON. */
export function detailTerms(terms: CampaignTerms): DetailTerms {
  return Object.fromEntries(DETAILS.map(([name]) => [name, terms[name]])) as unknown as DetailTerms;
}

/** Whether a payment that comes too late may take a free unit again. */
export const mayReacquire = ({ latePayment }: Pick<CampaignTerms, 'latePayment'>): boolean =>
  latePayment === 'reacquire';

/** How a script reads a field in the packed text of the terms. */
export type TextField = { field: string; kind: FieldKind };

/** The fields that follow from the rules and the type of a campaign (shared/sale/packed-terms.ts). */
const RULE_FIELDS: TextField[] = [
  { field: 'once', kind: 'flag' },
  { field: 'open_to_all', kind: 'flag' },
  { field: 'stacking', kind: 'text' },
  { field: 'type', kind: 'text' },
  { field: 'velocity', kind: 'text' },
  { field: 'opening_ms', kind: 'int' },
];

/**
 * The fields of the text in which Redis packs the terms, in their order; the text begins with their version. It lacks
 * `starts_at`, which is a field of its own because a sale may be opened early.
 */
export const TEXT_FIELDS: readonly TextField[] = [
  ...IN_FIELDS.flatMap(([, { fields }]) => Object.entries(fields).map(([field, kind]) => ({ field, kind }))),
  ...RULE_FIELDS,
].filter(({ field }) => field !== 'starts_at');
