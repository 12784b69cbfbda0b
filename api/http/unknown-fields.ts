import leven from 'leven';
import { z } from 'zod';
import { type FieldError, Problem } from '../../shared/errors/catalogue.js';
import type { RouteContract } from './route.js';

/** Maximum edit distance of a suggestion, as a share of the length of the suggested name. */
const MAX_DISTANCE_SHARE = 0.4;
const MAX_NAMED_CHARACTERS = 64;
const MAX_NAMES = 20;

/**
 * Returns the refusal of unknown names.
 * @param unknown each with the names that are valid at its place
 * @param others other errors of the request
 */
export function unknownFields(
  unknown: readonly { pointer: string; name: string; known: readonly string[] }[],
  others: readonly FieldError[] = [],
): Problem {
  const errors = unknown.map(({ pointer, name, known }) => ({ pointer, detail: unknownDetail(name, known) }));
  return new Problem('unknown_field', errors[0]?.detail ?? '', { members: { errors: [...errors, ...others] } });
}

/**
 * Returns the query parameters that a call accepts; null = any, because shoppers' calls ignore unknown ones.
 */
export function knownQuery({ caller, tag, query, anyQuery }: RouteContract): readonly string[] | null {
  const isStrict = tag === 'admin' || caller === 'service';
  return isStrict && !anyQuery ? Object.keys(query?.shape ?? {}) : null;
}

/** @throws Problem 400 `unknown_field` */
export function requireKnownQuery(known: readonly string[], query: object): void {
  const unknown = Object.keys(query).filter((name) => !known.includes(name));
  if (unknown.length > 0)
    throw unknownFields(unknown.slice(0, MAX_NAMES).map((name) => ({ pointer: `#/${name}`, name, known })));
}

/** Returns the names of the object that a schema expects at a path; empty if it expects no object. */
export function knownNames(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  if (schema instanceof z.ZodUnion) return schema.options.flatMap((option) => knownNames(option as z.ZodType, path));
  if (schema instanceof z.ZodPipe) return knownNames(schema.in as z.ZodType, path);
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable || schema instanceof z.ZodDefault)
    return knownNames(schema.unwrap() as z.ZodType, path);
  const [first, ...rest] = path;
  if (schema instanceof z.ZodArray) return first === undefined ? [] : knownNames(schema.element as z.ZodType, rest);
  if (!(schema instanceof z.ZodObject)) return [];
  if (first === undefined) return Object.keys(schema.shape);
  const field = schema.shape[String(first)] as z.ZodType | undefined;
  return field ? knownNames(field, rest) : [];
}

function unknownDetail(name: string, known: readonly string[]): string {
  const shown = name.length > MAX_NAMED_CHARACTERS ? `${name.slice(0, MAX_NAMED_CHARACTERS)}…` : name;
  const nearest = nearestName(name, known);
  return `Unknown field \`${shown}\`.${nearest && nearest !== name ? ` Did you mean \`${nearest}\`?` : ''}`;
}

/** Returns the known name that is most like a misspelled one; null = none is. */
export function nearestName(name: string, known: readonly string[]): string | null {
  if (name.length > MAX_NAMED_CHARACTERS) return null;
  let best: { name: string; distance: number } | null = null;
  for (const candidate of known) {
    const distance = leven(name.toLowerCase(), candidate);
    if (distance <= Math.max(1, Math.floor(candidate.length * MAX_DISTANCE_SHARE)) && distance < (best?.distance ?? 99))
      best = { name: candidate, distance };
  }
  return best?.name ?? null;
}
