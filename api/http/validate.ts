import type { z } from 'zod';
import { Problem } from '../../shared/errors/catalogue.js';

/**
 * Checks what came in against a route's contract.
 * @throws Problem 400 with a JSON pointer to each field that is wrong
 */
export function validate<Schema extends z.ZodType>(schema: Schema, value: unknown): z.infer<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new Problem('invalid_request', 'Some fields are not valid; see `errors`.', {
    members: {
      errors: parsed.error.issues.slice(0, 20).map((issue) => ({
        pointer: `#${issue.path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')}`,
        detail: issue.message,
      })),
    },
  });
}
