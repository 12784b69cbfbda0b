import type { IncomingMessage } from 'node:http';
import type { Request } from 'express';
import { Problem } from '../../shared/errors/catalogue.js';

/**
 * Counts the Host fields. Node keeps only the first, but another server on the way could use a different one (RFC 9112,
 * 3.2).
 */
function hostFields({ rawHeaders }: Request): number {
  let found = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    if (name.length === 4 && name.toLowerCase() === 'host') found += 1;
  }
  return found;
}

/** Origin form (RFC 9112, 3.2.1), without anything that routers read differently: authority, fragment, space. */
const ORIGIN_FORM = /^\/[!"$-~]*$/;

/** RFC 9112, 3.2, and 3986: a name or address, and a port. */
const HOST = /^[\w.~!$&'()*+,;=:%[\]-]*$/;

/** Rejects requests that Node accepts, but to which Express would respond without a problem document; null = valid. */
export function wrongRequest(req: Request, expectationMet: boolean): Problem | null {
  if (!expectationMet) return new Problem('expectation_failed', 'The only supported expectation is 100-continue.');
  return wrongTarget(req);
}

/** Rejects an invalid Host field or target, also of a WebSocket upgrade; null = valid. */
export function wrongTarget(req: Request): Problem | null {
  const hosts = hostFields(req);
  if (hosts !== 1 && (hosts > 1 || req.httpVersion === '1.1')) {
    return new Problem('invalid_request', `The Host field ${hosts === 0 ? 'is missing' : 'occurs more than once'}.`);
  }
  if (!HOST.test(req.headers.host ?? '')) return new Problem('invalid_request', 'The Host field is not valid.');
  if (!ORIGIN_FORM.test(req.url) && req.url !== '*') {
    return new Problem('invalid_request', 'The request target must be a path with an optional query.');
  }
  return null;
}

/** @param allow the methods that the path has, as in `Allow` */
export const wrongMethod = ({ method }: IncomingMessage, allow: string): Problem =>
  new Problem('method_not_allowed', `This path does not support ${method}.`, { headers: { Allow: allow } });
