import type { z } from 'zod';
import { type FieldError, Problem } from '../../shared/errors/catalogue.js';
import { knownNames, unknownFields } from './unknown-fields.js';

const MAX_ERRORS = 20;

/**
 * Checks what came in against a route's contract.
 * @throws Problem 400 `invalid_request` with a JSON pointer to each field that is wrong, or `unknown_field` where a strict schema does
 * not have a name
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
    issue.code === 'unrecognized_keys' ? [] : [{ pointer: pointerOf(issue.path), detail: issue.message }],
  );
  if (unknown.length > 0) throw unknownFields(unknown, wrong);
  throw invalidFields(...wrong);
}

/** The refusal of a request some of whose fields are wrong. */
export function invalidFields(...errors: FieldError[]): Problem<'invalid_request'> {
  return new Problem('invalid_request', 'Some fields are not valid; see `errors`.', { members: { errors } });
}

/** RFC 6901, as a fragment. */
function pointerOf(path: readonly PropertyKey[]): string {
  return `#${path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')}`;
}
