import { ContractError, EngineUnavailable, FencedOut } from '../errors/faults.js';

/**
 * Decoders of a script's reply. A missing or malformed field is a broken contract and never gets a default.
 * @throws ContractError
 */
type Field = (value: string, at: string) => unknown;
type Rest = (fields: readonly string[], from: number) => object;
type Named<Fields extends Record<string, Field>> = { [Name in keyof Fields]: ReturnType<Fields[Name]> };

/** A decoder of a whole reply. `names`: of its fields, in the notation of outcomes. */
export type Reply<Outcome extends object> = ((fields: readonly string[], from?: number) => Outcome) & {
  names: readonly string[];
};

/**
 * A reply whose first fields have names, in the order of the script's header.
 * @param rest decodes what follows them, from an index
 */
export function reply<Fields extends Record<string, Field>>(fields: Fields): Reply<Named<Fields>>;
export function reply<Fields extends Record<string, Field>, Others extends Rest>(
  fields: Fields,
  rest: Others,
): Reply<Omit<ReturnType<Others>, keyof Fields> & Named<Fields>>;
export function reply(fields: Record<string, Field>, rest?: Rest): Reply<object> {
  const names = Object.keys(fields);
  const decoders = Object.entries(fields);
  const decode = (values: readonly string[], from = 0) => {
    const outcome = (rest ? rest(values, from + names.length) : {}) as Record<string, unknown>;
    decoders.forEach(([name, decoder], index) => {
      outcome[name] = field(values, from + index, decoder);
    });
    return outcome;
  };
  return Object.assign(decode, { names });
}

/** Decodes the field at an index. */
export function field<Value>(
  fields: readonly string[],
  index: number,
  decoder: (value: string, at: string) => Value,
): Value {
  const value = fields[index];
  const at = `reply field ${index}`;
  if (typeof value !== 'string') throw new ContractError(`${at} is missing in ${JSON.stringify(fields)}`);
  return decoder(value, at);
}

export const text = (value: string): string => value;

export function count(value: string, at: string): number {
  const number = Number(value);
  if (!Number.isSafeInteger(number)) throw new ContractError(`${at} is not an integer: ${value}`);
  return number;
}

/** Returns null for "": a code that there is none of, an unknown time between two promotions. */
export const countOrNone = (value: string, at: string): number | null => (value === '' ? null : count(value, at));

export function flag(value: string, at: string): boolean {
  if (value !== '0' && value !== '1') throw new ContractError(`${at} is not a flag: ${value}`);
  return value === '1';
}

export const oneOf =
  <const Value extends string>(values: readonly Value[]) =>
  (value: string, at: string): Value => {
    if (!(values as readonly string[]).includes(value))
      throw new ContractError(`${at} is ${value}, not one of ${values}`);
    return value as Value;
  };

/** The reply `archived`: the pass by which the records of the campaign left Redis. */
export const archived = reply({ pass: text });

/** Decodes the reply `rebuilding`, which every script may return: Redis is empty or being filled. */
export function rebuilding(): never {
  throw new EngineUnavailable('redis', 'it is being rebuilt');
}

/** The last fields of a reply: the journal entries that the script appended, as JSON (`parseEntry`). */
export const journaled = (fields: readonly string[], from = 0): { entries: readonly string[] } => ({
  entries: fields.slice(from),
});

/** The last fields of a reply that acknowledges a promise: whether responses wait for Postgres, and the entries. */
export const acknowledged = reply({ durable: flag }, (fields, from) => {
  const { entries } = journaled(fields, from);
  return { entries, journalId: journalIdOf(entries.at(-1)) };
});

/** Returns the journal id of an entry; "" = the script appended nothing. */
function journalIdOf(entry: string | undefined): string {
  return entry === undefined ? '' : entry.slice(2, entry.indexOf('"', 2));
}

/** Decodes the reply `fenced`: another worker fills Redis, or Redis is in service. */
export function fenced(): never {
  throw new FencedOut();
}
