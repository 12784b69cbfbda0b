import type { z } from 'zod';
import { type FieldError, Problem } from '../../shared/errors/catalogue.js';
import { knownNames, unknownFields } from './unknown-fields.js';

const MAX_ERRORS = 20;

/**
 * Validates input against a schema of a contract.
 * @throws Problem 400 `invalid_request` with a JSON pointer to each invalid field, or `unknown_field` for a name that a
 * strict schema does not have
 */
export function validate<Schema extends z.ZodType>(schema: Schema, value: unknown): z.infer<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.slice(0, MAX_ERRORS);
  const unknown = issues.flatMap((issue) => {
    if (issue.code !== 'unrecognized_keys') return [];
    const known = knownNames(schema, issue.path);
    return issue.keys.slice(0, MAX_ERRORS).map((name) => ({ pointer: pointerOf([...issue.path, name]), name, known }));
  });
  const wrong = issues.flatMap((issue): FieldError[] =>
    issue.code === 'unrecognized_keys' ? [] : [{ pointer: pointerOf(issue.path), detail: detailOf(issue) }],
  );
  if (unknown.length > 0) throw unknownFields(unknown, wrong);
  throw invalidFields(...wrong);
}

/** What is wrong. A name that a record does not take has its reason within. */
function detailOf(issue: z.core.$ZodIssue): string {
  return issue.code === 'invalid_key' ? (issue.issues[0]?.message ?? issue.message) : issue.message;
}

/** Returns the refusal of a request with invalid fields. */
export function invalidFields(...errors: FieldError[]): Problem<'invalid_request'> {
  return new Problem('invalid_request', 'Some fields are not valid; see `errors`.', { members: { errors } });
}

/** Returns a path as a JSON pointer (RFC 6901) in fragment form. */
function pointerOf(path: readonly PropertyKey[]): string {
  return `#${path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')}`;
}
