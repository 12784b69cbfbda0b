import type { Request } from 'express';
import { Problem } from '../../shared/errors/catalogue.js';

/** Node keeps the first of several; two servers on the way could go by different ones (RFC 9112, 3.2). */
function hostFields({ rawHeaders }: Request): number {
  let found = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    if (name.length === 4 && name.toLowerCase() === 'host') found += 1;
  }
  return found;
}

/** RFC 9112, 3.2.1, and nothing that a router may read in another way: no authority, no fragment, no blank. */
const ORIGIN_FORM = /^\/[!"$-~]*$/;

/** RFC 9112, 3.2, and 3986: a name or address, and a port. */
const HOST = /^[\w.~!$&'()*+,;=:%[\]-]*$/;

/** What Node lets through and Express would answer in its own way. */
export function wrongRequest(req: Request, expectationMet: boolean): Problem | null {
  if (!expectationMet) return new Problem('expectation_failed', 'Only 100-continue can be expected.');
  return wrongTarget(req);
}

/** What is wrong with where a request goes, an offer of a WebSocket too. */
export function wrongTarget(req: Request): Problem | null {
  const hosts = hostFields(req);
  if (hosts !== 1 && (hosts > 1 || req.httpVersion === '1.1')) {
    return new Problem('invalid_request', `The Host field ${hosts === 0 ? 'is missing' : 'is there more than once'}.`);
  }
  if (!HOST.test(req.headers.host ?? '')) return new Problem('invalid_request', 'The Host field is not valid.');
  if (!ORIGIN_FORM.test(req.url) && req.url !== '*') {
    return new Problem('invalid_request', 'The request target must be a path with an optional query.');
  }
  return null;
}
