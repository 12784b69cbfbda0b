import { ContractError } from '../../errors/faults.js';

/** A decision as a script writes it: `kind`, and the fields of its kind that are not empty. */
export type RawDecision = { kind: string } & Partial<
  Record<string, string | number | boolean | readonly string[] | undefined>
>;

/** Readers of a decision's fields. One of the wrong form is a broken contract, never a default. */

export function number(raw: RawDecision, name: string): number {
  const value = raw[name];
  if (!Number.isSafeInteger(value))
    throw new ContractError(`decision field ${name} is no integer in ${JSON.stringify(raw)}`);
  return value as number;
}

/** null = the field is not there. */
export function numberOrNull(raw: RawDecision, name: string): number | null {
  return raw[name] === undefined ? null : number(raw, name);
}

/** "" = the field is not there. */
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

/** Ids, or other words. */
export function words<Word extends string>(raw: RawDecision, name: string): readonly Word[] {
  return (raw[name] ?? []) as readonly Word[];
}

/** The keys of a type, every one of them, as the header of a script has them. */
export function namesOf<Shape>(names: Record<keyof Shape, true>): (keyof Shape & string)[] {
  return Object.keys(names) as (keyof Shape & string)[];
}
