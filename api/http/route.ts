import type { Request, Response } from 'express';
import type { z } from 'zod';
import type { ErrorCode } from '../../shared/errors/catalogue.js';

export type Caller = 'anyone' | 'shopper' | 'ticket' | 'service' | 'service or ticket' | 'admin';

export type Answer = {
  description: string;
  data?: z.ZodType;
  /** Media types whose body is text. */
  contentTypes?: readonly string[];
  headers?: readonly HeaderName[];
};

/** Response fields that callers may rely on, with their meaning. */
export const RESPONSE_HEADERS = {
  'X-Request-Id': 'the id of the request: as it was sent, or a new one',
  'Retry-After': 'whole seconds, with jitter',
  'WWW-Authenticate': 'what is to be sent',
  RateLimit: 'what is left of the quota',
  'RateLimit-Policy': 'the quota',
  Location: 'where the result is found',
  ETag: 'for `If-None-Match`',
  Link: 'the next page, rel="next"',
  'Idempotent-Replayed': '`true`: the first response to this key',
  'Set-Cookie': 'the session of the operator',
  'Content-Disposition': 'a file name',
  Allow: 'the methods of this path',
} as const;
export type HeaderName = keyof typeof RESPONSE_HEADERS;

/** What the OpenAPI document says of a route; types and validation come from the same schemas. */
export type RouteContract = {
  method: 'get' | 'post' | 'patch' | 'delete';
  /** Express's form: `/admin/campaigns/:id`. */
  path: string;
  summary: string;
  description?: string;
  tag: 'flash sale' | 'coupons' | 'waiting room' | 'payment' | 'admin' | 'operations';
  caller: Caller;
  params?: z.ZodObject;
  query?: z.ZodObject;
  /** Query parameters are judged by a part that is not ours: none is unknown. */
  anyQuery?: true;
  headers?: z.ZodObject;
  body?: z.ZodType;
  /** Bodies of other media types that it takes too. */
  otherBodies?: Record<string, z.ZodType>;
  answers: Record<number, Answer>;
  /** Those of the route itself; `errorsOf` adds what every route of its kind may return. */
  errors: readonly ErrorCode[];
};

export type Route = {
  contract: RouteContract;
  /**
   * Answers a request that may not come here at all, from what its head says; returns whether it did. It runs before the body
   * is read, and whichever spelling of the target has led to the route. It may run twice for a request that it lets pass.
   */
  guard?(req: Request, res: Response): boolean;
  handle(req: Request, res: Response): Promise<void> | void;
};

const OF_EVERY_ROUTE = [
  'invalid_request',
  'request_timeout',
  'expectation_failed',
  'headers_too_large',
  'internal_error',
  'temporarily_unavailable',
] as const;
const OF_BODIES = ['invalid_json', 'body_too_large', 'unsupported_media_type'] as const;
const OF_KEYS = ['unauthorized', 'forbidden', 'rate_limited'] as const;

/** Every error that a route may return. */
export function errorsOf({ errors, body, caller, tag }: RouteContract): readonly ErrorCode[] {
  const needsKey = caller === 'admin' || caller === 'service' || caller === 'service or ticket';
  const all: ErrorCode[] = [...errors, ...OF_EVERY_ROUTE];
  if (body) all.push(...OF_BODIES);
  if (needsKey) all.push(...OF_KEYS);
  if (needsKey || tag === 'admin') all.push('unknown_field');
  return [...new Set(all)];
}
