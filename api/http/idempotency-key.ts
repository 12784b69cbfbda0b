import type { Request } from 'express';
import type { IdempotencyKey } from '../../shared/domain/ids.js';
import { Problem } from '../../shared/errors/catalogue.js';

const PATTERN = /^[A-Za-z0-9._~:-]{8,255}$/;

export type KeySource = { key: IdempotencyKey; from: 'header' | 'body' };

/**
 * Returns the idempotency key of a request, from the header (bare or quoted) or from the body. A replay returns the
 * first status if the key is in the header, as in the IETF draft, and 409 if it is only in the body.
 * @throws Problem 400 if the key is malformed or the two keys differ
 */
export function optionalIdempotencyKey(req: Request, inBody: string | undefined): KeySource | null {
  const header = req.headers['idempotency-key'];
  const inHeader = typeof header === 'string' ? bare(header) : undefined;
  if (inHeader !== undefined && inBody !== undefined && inHeader !== inBody) {
    throw invalid('#/idempotency_key', 'differs from the Idempotency-Key header');
  }
  const key = inHeader ?? inBody;
  if (key === undefined) return null;
  if (!PATTERN.test(key)) {
    throw invalid(
      inHeader === undefined ? '#/idempotency_key' : '#/headers/Idempotency-Key',
      'must have 8 to 255 characters of A-Z a-z 0-9 . _ ~ : -',
    );
  }
  return { key: key as IdempotencyKey, from: inHeader === undefined ? 'body' : 'header' };
}

function bare(header: string): string {
  return header.includes('"') ? header.trim().replace(/^"(.*)"$/, '$1') : header.trim();
}

/** As `optionalIdempotencyKey`, but requires a key. @throws Problem 400 also if the key is missing */
export function idempotencyKey(req: Request, inBody: string | undefined): KeySource {
  const source = optionalIdempotencyKey(req, inBody);
  if (!source) throw invalid('#/idempotency_key', 'is required, here or in the Idempotency-Key header');
  return source;
}

function invalid(pointer: string, detail: string): Problem {
  return new Problem('invalid_request', 'The idempotency key is not valid.', {
    members: { errors: [{ pointer, detail }] },
  });
}
