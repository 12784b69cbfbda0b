import { ContractError } from '../../errors/faults.js';

/** A decision in the reply of a script: `kind`, and the fields of its kind that are not empty. */
export type RawDecision = { kind: string } & Partial<
  Record<string, string | number | boolean | readonly string[] | undefined>
>;

/** Readers of the fields of a decision. They throw ContractError for a malformed field, and never use a default. */

export function number(raw: RawDecision, name: string): number {
  const value = raw[name];
  if (!Number.isSafeInteger(value))
    throw new ContractError(`decision field ${name} is no integer in ${JSON.stringify(raw)}`);
  return value as number;
}

/** Returns null for a missing field. */
export function numberOrNull(raw: RawDecision, name: string): number | null {
  return raw[name] === undefined ? null : number(raw, name);
}

/** Returns "" for a missing field. */
export function word(raw: RawDecision, name: string): string {
  return String(raw[name] ?? '');
}

export function boolean(raw: RawDecision, name: string): boolean {
  const value = raw[name];
  if (typeof value !== 'boolean')
    throw new ContractError(`decision field ${name} is no boolean in ${JSON.stringify(raw)}`);
  return value;
}

export function oneOf<const Value extends string>(raw: RawDecision, name: string, values: readonly Value[]): Value {
  const value = word(raw, name);
  if (!(values as readonly string[]).includes(value))
    throw new ContractError(`decision field ${name} is ${value}, not one of ${values}`);
  return value as Value;
}

/** Returns a list of ids or other words; empty for a missing field. */
export function words<Word extends string>(raw: RawDecision, name: string): readonly Word[] {
  return (raw[name] ?? []) as readonly Word[];
}

/** Returns all keys of a type, as named in the header of a script. */
export function namesOf<Shape>(names: Record<keyof Shape, true>): (keyof Shape & string)[] {
  return Object.keys(names) as (keyof Shape & string)[];
}
