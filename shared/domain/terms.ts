import type { Discount } from './discount.js';

/** How a script reads a field: a number, whether it is 1, or the text. */
type FieldKind = 'int' | 'flag' | 'text';
/** What a hash in Redis has. */
type Fields = Readonly<Record<string, string | undefined>>;
type FieldValues = Readonly<Record<string, string | number>>;

type Term<Column extends string, Value, Stored> = {
  /** Of table `campaigns`, and the name of the term for operators. */
  column: Column;
  /** What Postgres stores, and what operators send and get: JSON, or a Date. */
  toStored: (value: Value) => Stored;
  fromStored: (stored: Stored) => Value;
};
type ScriptTerm<Column extends string, Value, Stored> = Term<Column, Value, Stored> & {
  /** Fields in Redis. Times and lengths are in ms, flags are 0 or 1. */
  fields: Readonly<Record<string, FieldKind>>;
  toFields: (value: Value) => FieldValues;
  /** Of a campaign that an earlier version put into Redis, a field may be missing. */
  fromFields: (fields: Fields) => Value;
};

const asItIs = <Value>(value: Value): Value => value;
const numberIn = (text: string | undefined, missing = 0) => Number(text ?? missing);
const flagOf = (value: boolean) => (value ? 1 : 0);

/** A term that no script needs. Redis keeps it as JSON, for a Postgres that was set back. */
const detail =
  <Value>() =>
  <Column extends string>(column: Column): Term<Column, Value, Value> => ({
    column,
    toStored: asItIs,
    fromStored: asItIs,
  });
/** A number with a field of the same name. @param missing the value of a campaign without the field */
const count = <Column extends string>(column: Column, missing = 0): ScriptTerm<Column, number, number> => ({
  ...detail<number>()(column),
  fields: { [column]: 'int' },
  toFields: (value) => ({ [column]: value }),
  fromFields: (fields) => numberIn(fields[column], missing),
});
/** Yes or no; a campaign without the field has no. */
const flag = <Column extends string>(column: Column, field: string): ScriptTerm<Column, boolean, boolean> => ({
  ...detail<boolean>()(column),
  fields: { [field]: 'flag' },
  toFields: (value) => ({ [field]: flagOf(value) }),
  fromFields: (fields) => fields[field] === '1',
});
/** One of several words, with a field of the same name. @param choices the first one is that of a campaign without the field */
const choice = <Column extends string, const Choice extends string>(
  column: Column,
  choices: readonly [Choice, ...Choice[]],
): ScriptTerm<Column, Choice, Choice> => ({
  ...detail<Choice>()(column),
  fields: { [column]: 'text' },
  toFields: (value) => ({ [column]: value }),
  fromFields: (fields) => choices.find((one) => one === fields[column]) ?? choices[0],
});

type WaitingRoom = { enabled: boolean; maxSize: number; presenceSeconds: number | null };
type StoredWaitingRoom = { enabled: boolean; max_size: number; presence_seconds: number | null };

/**
 * Every term of a campaign, once: what is sold and how. Types, SQL, the fields in Redis, how lua/includes/campaign.lua reads
 * them, and what operators see follow from this table. Terms belong to Postgres: they are changed there first and then
 * carried to Redis. What the rules of a campaign add for scripts is in SaleStore.
 */
const TERMS = {
  name: detail<string>()('name'),
  startsAt: {
    ...detail<Date>()('starts_at'),
    fields: { starts_at: 'int' },
    toFields: (at) => ({ starts_at: at.getTime() }),
    fromFields: ({ starts_at }) => new Date(numberIn(starts_at)),
  } satisfies ScriptTerm<'starts_at', Date, Date>,
  /** null = open end, in Redis 0 */
  endsAt: {
    ...detail<Date | null>()('ends_at'),
    fields: { ends_at: 'int' },
    toFields: (at) => ({ ends_at: at?.getTime() ?? 0 }),
    fromFields: ({ ends_at }) => (numberIn(ends_at) > 0 ? new Date(numberIn(ends_at)) : null),
  } satisfies ScriptTerm<'ends_at', Date | null, Date | null>,
  timeZone: detail<string>()('time_zone'),
  discount: detail<Discount | null>()('discount'),
  /** 0 = nothing to pay, redeemed at once */
  holdSeconds: {
    ...detail<number>()('hold_seconds'),
    fields: { hold_ms: 'int' },
    toFields: (seconds) => ({ hold_ms: seconds * 1000 }),
    fromFields: ({ hold_ms }) => numberIn(hold_ms) / 1000,
  } satisfies ScriptTerm<'hold_seconds', number, number>,
  /** Redemptions, of any quantity, that one user may hold or have used. */
  perUserLimit: count('per_user_limit'),
  /** Units of one redemption. */
  maxQty: count('max_qty'),
  waitingRoom: {
    column: 'waiting_room',
    toStored: ({ enabled, maxSize, presenceSeconds }) => ({
      enabled,
      max_size: maxSize,
      presence_seconds: presenceSeconds,
    }),
    fromStored: ({ enabled, max_size, presence_seconds }) => ({
      enabled,
      maxSize: max_size,
      presenceSeconds: presence_seconds,
    }),
    // 0 = presence does not matter.
    fields: { line_enabled: 'flag', line_max: 'int', presence_ms: 'int' },
    toFields: ({ enabled, maxSize, presenceSeconds }) => ({
      line_enabled: flagOf(enabled),
      line_max: maxSize,
      presence_ms: (presenceSeconds ?? 0) * 1000,
    }),
    fromFields: ({ line_enabled, line_max, presence_ms }) => ({
      enabled: line_enabled === '1',
      maxSize: numberIn(line_max),
      presenceSeconds: numberIn(presence_ms) > 0 ? numberIn(presence_ms) / 1000 : null,
    }),
  } satisfies ScriptTerm<'waiting_room', WaitingRoom, StoredWaitingRoom>,
  confirmation: {
    ...detail<'fast' | 'durable'>()('confirmation'),
    fields: { durable: 'flag' },
    toFields: (mode) => ({ durable: flagOf(mode === 'durable') }),
    fromFields: ({ durable }) => (durable === '1' ? 'durable' : 'fast'),
  } satisfies ScriptTerm<'confirmation', 'fast' | 'durable', 'fast' | 'durable'>,
  latePayment: choice('late_payment', ['refuse', 'reacquire']),
  refundPolicy: choice('refund_policy', ['return', 'burn']),
  requireAttestation: flag('require_attestation', 'attest'),
};

type Table = typeof TERMS;
type ValueOf<One> = One extends { toStored: (value: infer Value) => unknown } ? Value : never;
type StoredOf<One> = One extends { fromStored: (stored: infer Stored) => unknown } ? Stored : never;

/** The terms of a campaign, as the project has them. */
export type CampaignTerms = { [Name in keyof Table]: ValueOf<Table[Name]> };
/** The terms by their columns: a row of Postgres, and what operators send and get. */
export type StoredTerms = { [Name in keyof Table as Table[Name]['column']]: StoredOf<Table[Name]> };
/** The terms that Redis has in fields of their own. */
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

/** The columns of these terms, each with what a query passes for it. */
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

/** The terms in a row of Postgres, or in what an operator has sent. */
export function termsOf(stored: StoredTerms): CampaignTerms {
  return givenTerms(stored) as CampaignTerms;
}

/** The same for some of them: a column that is not there, or undefined, is no term. */
export function givenTerms(
  stored: { [Column in keyof StoredTerms]?: StoredTerms[Column] | undefined },
): Partial<CampaignTerms> {
  const given = ALL.filter(([, { column }]) => stored[column as keyof StoredTerms] !== undefined);
  return Object.fromEntries(
    given.map(([name, { column, fromStored }]) => [name, fromStored(stored[column as keyof StoredTerms])]),
  );
}

/** What Redis has of the terms, by its fields. */
export function termFields(terms: FieldTerms): Record<string, string | number> {
  return Object.assign({}, ...IN_FIELDS.map(([name, { toFields }]) => toFields(terms[name])));
}

/** The terms in a hash of Redis. */
export function termsOfFields(fields: Fields): FieldTerms {
  return Object.fromEntries(
    IN_FIELDS.map(([name, { fromFields }]) => [name, fromFields(fields)]),
  ) as unknown as FieldTerms;
}

/** The terms that Redis keeps as JSON. */
export function detailTerms(terms: CampaignTerms): DetailTerms {
  return Object.fromEntries(DETAILS.map(([name]) => [name, terms[name]])) as unknown as DetailTerms;
}

/** How a script reads a field of the text of the terms. `version`: whether it names the version of the terms. */
export type TextField = { field: string; kind: FieldKind | 'version'; missing: string };

/** In the order in which every version of the project has them. */
const FIRST_FIELDS = [
  ...['ends_at', 'hold_ms', 'per_user_limit', 'max_qty', 'line_enabled', 'line_max', 'late_payment', 'refund_policy'],
  ...['durable', 'attest', 'once', 'presence_ms', 'open_to_all', 'stacking', 'type'],
];
/** What the rules of a campaign, and its type, add to the terms (SaleStore). */
const RULE_FIELDS: TextField[] = [
  { field: 'once', kind: 'flag', missing: '0' },
  { field: 'open_to_all', kind: 'version', missing: '' },
  { field: 'stacking', kind: 'text', missing: 'combines' },
  { field: 'type', kind: 'text', missing: '' },
];

/**
 * The fields of the text in which Redis has all terms of a version, after the version and in their order; `missing` is read
 * from a campaign without the field. New terms follow at the end: a process of another version takes a text with more or
 * fewer fields for none, and reads the fields themselves. `starts_at` is not in it, because a sale may be opened early.
 */
export function textFields(): TextField[] {
  const missing = termFields(termsOfFields({}));
  const ofTerms = IN_FIELDS.flatMap(([, { fields }]) =>
    Object.entries(fields).map(([field, kind]) => ({ field, kind, missing: String(missing[field]) })),
  );
  const all = [...ofTerms.filter(({ field }) => field !== 'starts_at'), ...RULE_FIELDS];
  const first = FIRST_FIELDS.flatMap((name) => all.filter(({ field }) => field === name));
  return [...first, ...all.filter((one) => !first.includes(one))];
}
