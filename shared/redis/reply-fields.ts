import { ContractError, EngineUnavailable, FencedOut } from '../errors/faults.js';

/** Readers of a script's reply. A field that is missing or of the wrong form is a broken contract, never a default. */

export function text(fields: readonly string[], index: number): string {
  const value = fields[index];
  if (typeof value !== 'string')
    throw new ContractError(`reply field ${index} is missing in ${JSON.stringify(fields)}`);
  return value;
}

export function count(fields: readonly string[], index: number): number {
  const value = Number(text(fields, index));
  if (!Number.isSafeInteger(value))
    throw new ContractError(`reply field ${index} is no integer in ${JSON.stringify(fields)}`);
  return value;
}

/** The number of a coupon code; null when the field is empty, as for whatever uses none. */
export function codeNumber(fields: readonly string[], index: number): number | null {
  return text(fields, index) === '' ? null : count(fields, index);
}

/** Milliseconds between two promotions; null when the script cannot say. */
export function paceMs(fields: readonly string[], index: number): number | null {
  return text(fields, index) === '' ? null : count(fields, index);
}

export function flag(fields: readonly string[], index: number): boolean {
  const value = text(fields, index);
  if (value !== '0' && value !== '1')
    throw new ContractError(`reply field ${index} is no flag in ${JSON.stringify(fields)}`);
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

/** Decoder of the reply `archived`: the pass by which the campaign's records left Redis. */
export function archived(fields: readonly string[]): { pass: string } {
  return { pass: text(fields, 0) };
}

/** Decoder of the reply `rebuilding`, which every script may give: Redis is fresh and cannot answer for anything yet. */
export function rebuilding(): never {
  throw new EngineUnavailable('redis', 'it is being rebuilt');
}

/** The last fields of a reply: each journal entry that the script appended, as JSON (`parseEntry`). */
export function journaled(fields: readonly string[], from: number): { entries: readonly string[] } {
  return { entries: fields.slice(from) };
}

/** Decoder of a reply that acknowledges something: whether answers wait for Postgres, and what was appended. */
export function acknowledged(
  fields: readonly string[],
  index: number,
): { durable: boolean; journalId: string; entries: readonly string[] } {
  const entries = fields.slice(index + 1);
  return { durable: flag(fields, index), journalId: journalIdOf(entries.at(-1)), entries };
}

/** "" when the script appended nothing. */
function journalIdOf(entry: string | undefined): string {
  return entry === undefined ? '' : entry.slice(2, entry.indexOf('"', 2));
}

/** Decoder of the reply `fenced`: another worker fills Redis, or it is in service. */
export function fenced(): never {
  throw new FencedOut();
}
