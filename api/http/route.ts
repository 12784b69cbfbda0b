import type { Request, Response } from 'express';
import type { z } from 'zod';
import type { ErrorCode } from '../../shared/errors/catalogue.js';

/**
 * What refuses callers before the body of a request is read, by name, with the codes that each adds to the contract of
 * a route. The composition binds the names to the guards; they run in the order in which a contract lists them.
 */
export const GUARD_REFUSALS = {
  network_ban: ['blocked'],
  token_quota: ['rate_limited'],
  coupon_token_quota: ['rate_limited'],
  document_quota: ['rate_limited'],
} as const satisfies Record<string, readonly ErrorCode[]>;
export type GuardName = keyof typeof GUARD_REFUSALS;

export type Caller = 'anyone' | 'shopper' | 'ticket' | 'service' | 'service or ticket' | 'admin';

export type Answer = {
  description: string;
  data?: z.ZodType;
  /** Members beside `data`. */
  members?: z.ZodObject;
  /** Media types whose body is no JSON. */
  contentTypes?: readonly string[];
  /** Fields of every such response. */
  headers?: readonly HeaderName[];
  /** Fields of some of them. */
  optionalHeaders?: readonly HeaderName[];
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

/** Fields of problems by status, beside those of every response. */
export const HEADERS_OF_ERRORS: Readonly<Record<number, Pick<Answer, 'headers' | 'optionalHeaders'>>> = {
  401: { headers: ['WWW-Authenticate'] },
  405: { headers: ['Allow'] },
  429: { headers: ['Retry-After'], optionalHeaders: ['RateLimit', 'RateLimit-Policy'] },
  503: { headers: ['Retry-After'] },
};

/**
 * All that a route takes and returns. Types, validation and the OpenAPI document come from it; `defineRoute` binds the
 * handler to it, and every response of a test is compared with it (docs/decisions/0035-contracts-bind.md). Write one
 * with `satisfies RouteContract`, which keeps its statuses and codes as types.
 */
export type RouteContract = {
  method: 'get' | 'post' | 'patch' | 'delete';
  /** Express's form: `/admin/campaigns/:id`. */
  path: string;
  summary: string;
  description?: string;
  tag: 'flash sale' | 'coupons' | 'waiting room' | 'payment' | 'admin' | 'operations';
  caller: Caller;
  /** What refuses a caller before the body is read. */
  guards?: readonly GuardName[];
  params?: z.ZodObject;
  query?: z.ZodObject;
  /** Query parameters are judged by a part that is not ours: none is unknown. */
  anyQuery?: true;
  headers?: z.ZodObject;
  body?: z.ZodType;
  /** Bodies of other media types that it takes too. */
  otherBodies?: Record<string, z.ZodType>;
  answers: Record<number, Answer>;
  /** Those of the route itself; `errorsOf` adds those of its guards and what every route of its kind may return. */
  errors: readonly ErrorCode[];
};

/** Statuses with which a route may reply. */
export type StatusOf<Contract extends RouteContract> = keyof Contract['answers'] & number;

/** What a route sends as `data` with a status. */
export type DataOf<Contract extends RouteContract, Status extends StatusOf<Contract>> = Status extends unknown
  ? Contract['answers'][Status] extends { data: infer Schema extends z.ZodType }
    ? z.input<Schema>
    : never
  : never;

/** What a route sends beside `data` with a status. */
export type MembersOf<Contract extends RouteContract, Status extends StatusOf<Contract>> = Status extends unknown
  ? Contract['answers'][Status] extends { members: infer Schema extends z.ZodObject }
    ? z.input<Schema>
    : Record<never, never>
  : never;

/** Codes with which the handler of a route may refuse. */
export type RefusalOf<Contract extends RouteContract> =
  | Contract['errors'][number]
  | (typeof OF_EVERY_ROUTE)[number]
  | (Contract extends { body: z.ZodType } ? (typeof BODY_REFUSALS)[number] : never);

/**
 * Refuses a request by what its head says; returns whether it did. It runs before the body is read, and whichever
 * spelling of the target has led to the route. It may run twice for a request that it lets pass.
 */
export type Guard = (req: Request, res: Response) => boolean;

export type Route = {
  contract: RouteContract;
  /** The guards of the contract, bound by `withGuards`. */
  guard?: Guard;
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
/** Of a request whose body cannot be read. Routes with a `body` in their contract have them anyway. */
export const BODY_REFUSALS = ['invalid_json', 'body_too_large', 'unsupported_media_type'] as const;
const OF_KEYS = ['unauthorized', 'forbidden', 'rate_limited'] as const;

/** The routes with the guards that their contracts name. */
export function withGuards(routes: readonly Route[], guards: Readonly<Record<GuardName, Guard>>): Route[] {
  return routes.map((route) => {
    const [first, ...others] = (route.contract.guards ?? []).map((name) => guards[name]);
    if (!first) return route;
    const guard: Guard =
      others.length === 0 ? first : (req, res) => first(req, res) || others.some((other) => other(req, res));
    return { ...route, guard };
  });
}

const errorsOfContracts = new WeakMap<RouteContract, readonly ErrorCode[]>();

/** Every error that a route may return. */
export function errorsOf(contract: RouteContract): readonly ErrorCode[] {
  let errors = errorsOfContracts.get(contract);
  if (!errors) {
    errors = allErrorsOf(contract);
    errorsOfContracts.set(contract, errors);
  }
  return errors;
}

function allErrorsOf({ errors, guards = [], body, caller, tag }: RouteContract): readonly ErrorCode[] {
  const needsKey = caller === 'admin' || caller === 'service' || caller === 'service or ticket';
  const all: ErrorCode[] = [...errors, ...guards.flatMap((name) => GUARD_REFUSALS[name]), ...OF_EVERY_ROUTE];
  if (body) all.push(...BODY_REFUSALS);
  if (needsKey) all.push(...OF_KEYS);
  if (needsKey || tag === 'admin') all.push('unknown_field');
  return [...new Set(all)];
}
