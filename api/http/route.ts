import type { Request, Response } from 'express';
import type { z } from 'zod';
import type { ErrorCode } from '../../shared/errors/catalogue.js';

/**
 * Guards by name, with the error codes that each adds to the contract of a route. A guard rejects a request before its
 * body is read. The composition binds the names to functions; they run in the order in which a contract lists them.
 */
export const GUARD_REFUSALS = {
  network_ban: ['blocked'],
  token_quota: ['rate_limited'],
  coupon_token_quota: ['rate_limited'],
  document_quota: ['rate_limited'],
  poll_quota: ['rate_limited'],
} as const satisfies Record<string, readonly ErrorCode[]>;
export type GuardName = keyof typeof GUARD_REFUSALS;

export type Caller = 'anyone' | 'shopper' | 'ticket' | 'service' | 'service or ticket' | 'admin';

export type Answer = {
  description: string;
  data?: z.ZodType;
  /** An example of `data` or of `file`. By default it is composed from its schema (api/http/examples.ts). */
  example?: unknown;
  /** Members beside `data`. */
  members?: z.ZodObject;
  /** Schema of a JSON body without `data`: a file that is streamed. */
  file?: z.ZodType;
  /** Media types of bodies that are not JSON. */
  contentTypes?: readonly string[];
  /** Headers that every such response has. */
  headers?: readonly HeaderName[];
  /** Headers that only some of these responses have. */
  optionalHeaders?: readonly HeaderName[];
};

/** Response headers that callers may rely on, with their meaning. */
export const RESPONSE_HEADERS = {
  'X-Request-Id': 'the id of the request: the one that the client sent, or a new one',
  'Retry-After': 'whole seconds, with jitter',
  'WWW-Authenticate': 'the authentication scheme that is required',
  RateLimit: 'the remaining quota',
  'RateLimit-Policy': 'the quota',
  Location: 'the URL of the result',
  ETag: 'the version of the body, for `If-None-Match`',
  Link: 'the next page, rel="next"',
  'Idempotent-Replayed': '`true` if this is a replay of the first response to this key',
  'Set-Cookie': 'the session of the operator in a browser',
  'Content-Disposition': 'the suggested file name',
  'Doorbuster-As-Of': 'with DATABASE_READ_URL: the journal entry up to which the response is complete',
  Allow: 'the methods that this path supports',
} as const;
export type HeaderName = keyof typeof RESPONSE_HEADERS;

/** Headers of problems by status, in addition to those of every response. */
export const HEADERS_OF_ERRORS: Readonly<Record<number, Pick<Answer, 'headers' | 'optionalHeaders'>>> = {
  401: { headers: ['WWW-Authenticate'] },
  405: { headers: ['Allow'] },
  429: { headers: ['Retry-After'], optionalHeaders: ['RateLimit', 'RateLimit-Policy'] },
  503: { headers: ['Retry-After'] },
};

/** Groups of operations, with their descriptions. */
export const TAGS = {
  'flash sale': 'Claims of shoppers by product: device tokens, checkout, the public data of a sale.',
  coupons: 'Claims of shoppers by code: check codes, redeem them.',
  'waiting room': 'A shopper’s place in line: its state, and how to leave it.',
  payment: 'Calls of the payment service: confirm, release and refund reservations.',
  admin: 'Calls of operators: campaigns, stock, codes, bans, webhooks, records.',
  operations: 'Health and metrics.',
  events:
    'Events of reservations and campaigns. A shop receives them at its webhook endpoints; no call of the API has this tag.',
} as const;
export type Tag = keyof typeof TAGS;

/**
 * The complete interface of a route. Types, validation and the OpenAPI document derive from it; `defineRoute` binds the
 * handler to it, and tests compare every response with it (docs/decisions/0035-contracts-bind.md). Declare a contract
 * with `satisfies RouteContract`, which keeps its statuses and codes as types.
 */
export type RouteContract = {
  /**
   * The name that code generators give the operation: camel case, unique, never changed. The schemas of its body and
   * its data are named after it, unless they have an `id` of their own.
   */
  operationId: string;
  method: 'get' | 'post' | 'patch' | 'delete';
  /** In Express's syntax: `/admin/campaigns/:id`. */
  path: string;
  summary: string;
  description?: string;
  tag: Tag;
  caller: Caller;
  /** Guards that run before the body is read. */
  guards?: readonly GuardName[];
  params?: z.ZodObject;
  query?: z.ZodObject;
  /** A third-party handler reads the query, so that no parameter counts as unknown. */
  anyQuery?: true;
  headers?: z.ZodObject;
  body?: z.ZodType;
  /** An example of the body. By default it is composed from its schema. */
  bodyExample?: unknown;
  /** Accepted bodies of other media types. */
  otherBodies?: Record<string, z.ZodType>;
  answers: Record<number, Answer>;
  /** Codes of the route itself; `errorsOf` adds those of its guards and those of every route of its kind. */
  errors: readonly ErrorCode[];
};

/** Statuses of a route's successful responses. */
export type StatusOf<Contract extends RouteContract> = keyof Contract['answers'] & number;

/** Type of `data` in the response with a status. */
export type DataOf<Contract extends RouteContract, Status extends StatusOf<Contract>> = Status extends unknown
  ? Contract['answers'][Status] extends { data: infer Schema extends z.ZodType }
    ? z.input<Schema>
    : never
  : never;

/** Type of the members beside `data` in the response with a status. */
export type MembersOf<Contract extends RouteContract, Status extends StatusOf<Contract>> = Status extends unknown
  ? Contract['answers'][Status] extends { members: infer Schema extends z.ZodObject }
    ? z.input<Schema>
    : Record<never, never>
  : never;

/** Error codes that the handler of a route may throw. */
export type RefusalOf<Contract extends RouteContract> =
  | Contract['errors'][number]
  | (typeof OF_EVERY_ROUTE)[number]
  | (Contract extends { body: z.ZodType } ? (typeof BODY_REFUSALS)[number] : never);

/**
 * Rejects a request by its head, before the body is read; returns whether it did. It runs for every spelling of the
 * target that matches the route, and may run twice for a request that it accepts.
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
  'wrong_role',
  'internal_error',
  'temporarily_unavailable',
] as const;
/** Codes for a body that cannot be read. `errorsOf` adds them for contracts with a `body`. */
export const BODY_REFUSALS = ['invalid_json', 'body_too_large', 'unsupported_media_type'] as const;
const OF_KEYS = ['unauthorized', 'forbidden', 'rate_limited'] as const;

/** Returns the routes, each bound to the guards that its contract names. */
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

/** Returns every error code that a route may return. */
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
