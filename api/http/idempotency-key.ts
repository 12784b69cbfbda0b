import type { Request } from 'express';
import type { IdempotencyKey } from '../../shared/domain/ids.js';
import { Problem } from '../../shared/errors/catalogue.js';

const PATTERN = /^[A-Za-z0-9._~:-]{8,255}$/;

export type KeySource = { key: IdempotencyKey; from: 'header' | 'body' };

/**
 * The idempotency key of a request, from the header (bare or quoted) or from the body. A client that sends it in the header
 * knows the IETF draft and gets a replay with its first status; with the body alone it gets seed B's 409.
 * @throws Problem 400 when it is malformed or the two differ
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

/** @throws Problem 400 when there is none as well */
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
