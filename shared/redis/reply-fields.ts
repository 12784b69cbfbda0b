import { ContractError, EngineUnavailable, FencedOut } from '../errors/faults.js';

/** Decoders of a script's reply. A missing or malformed field is a broken contract and never gets a default. */

export function text(fields: readonly string[], index: number): string {
  const value = fields[index];
  if (typeof value !== 'string')
    throw new ContractError(`reply field ${index} is missing in ${JSON.stringify(fields)}`);
  return value;
}

export function count(fields: readonly string[], index: number): number {
  const value = Number(text(fields, index));
  if (!Number.isSafeInteger(value))
    throw new ContractError(`reply field ${index} is not an integer in ${JSON.stringify(fields)}`);
  return value;
}

/** Returns the number of a code; null = no code. */
export function codeNumber(fields: readonly string[], index: number): number | null {
  return text(fields, index) === '' ? null : count(fields, index);
}

/** Returns the milliseconds between two promotions; null = unknown. */
export function paceMs(fields: readonly string[], index: number): number | null {
  return text(fields, index) === '' ? null : count(fields, index);
}

export function flag(fields: readonly string[], index: number): boolean {
  const value = text(fields, index);
  if (value !== '0' && value !== '1')
    throw new ContractError(`reply field ${index} is not a flag in ${JSON.stringify(fields)}`);
  return value === '1';
}

export function oneOf<const Value extends string>(
  fields: readonly string[],
  index: number,
  values: readonly Value[],
): Value {
  const value = text(fields, index);
  if (!(values as readonly string[]).includes(value))
    throw new ContractError(`reply field ${index} is ${value}, not one of ${values}`);
  return value as Value;
}

/** Decodes the reply `archived`: the pass by which the records of the campaign left Redis. */
export function archived(fields: readonly string[]): { pass: string } {
  return { pass: text(fields, 0) };
}

/** Decodes the reply `rebuilding`, which every script may return: Redis is empty or being filled. */
export function rebuilding(): never {
  throw new EngineUnavailable('redis', 'it is being rebuilt');
}

/** Decodes the last fields of a reply: the journal entries that the script appended, as JSON (`parseEntry`). */
export function journaled(fields: readonly string[], from: number): { entries: readonly string[] } {
  return { entries: fields.slice(from) };
}

/** Decodes a reply that acknowledges a promise: whether responses wait for Postgres, and the appended entries. */
export function acknowledged(
  fields: readonly string[],
  index: number,
): { durable: boolean; journalId: string; entries: readonly string[] } {
  const entries = fields.slice(index + 1);
  return { durable: flag(fields, index), journalId: journalIdOf(entries.at(-1)), entries };
}

/** Returns the journal id of an entry; "" = the script appended nothing. */
function journalIdOf(entry: string | undefined): string {
  return entry === undefined ? '' : entry.slice(2, entry.indexOf('"', 2));
}

/** Decodes the reply `fenced`: another worker fills Redis, or Redis is in service. */
export function fenced(): never {
  throw new FencedOut();
}
