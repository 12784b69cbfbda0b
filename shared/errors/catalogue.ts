/**
 * Every error that a caller can get. docs/errors.md is generated from this table. `title` is the same for every
 * occurrence. `remedy` says in the documentation what to do.
 */
export const ERRORS = {
  invalid_request: {
    status: 400,
    title: 'The request is not valid',
    remedy: 'Correct the fields that `errors` points to.',
  },
  unknown_field: {
    status: 400,
    title: 'The request has a field or query parameter that this call does not have',
    remedy: 'Correct or remove the names that `errors` points to.',
  },
  invalid_json: { status: 400, title: 'The body is not valid JSON', remedy: 'Send one JSON object, UTF-8.' },
  attestation_invalid: {
    status: 401,
    title: 'The device token is missing or not genuine',
    remedy: 'Get a token for this device from GET /flash-sale/token.',
  },
  attestation_expired: {
    status: 401,
    title: 'The device token has expired',
    remedy: 'Get a new token and repeat the request with the same idempotency key.',
  },
  unauthorized: {
    status: 401,
    title: 'Credentials are missing or wrong',
    remedy: 'Send `Authorization: Bearer <secret>`; a shopper sends a JWT or `X-Shopper` (docs/identity.md).',
  },
  ticket_invalid: {
    status: 401,
    title: 'The ticket is missing or not genuine',
    remedy: 'Send the ticket from checkout in X-Ticket.',
  },
  forbidden: {
    status: 403,
    title: 'These credentials do not allow this',
    remedy: 'Use a key or ticket of the right kind, or one with the role in `required_role`.',
  },
  origin_not_allowed: {
    status: 403,
    title: 'Pages of this origin may not connect',
    remedy: 'Add the origin of the page to SHOP_ORIGINS.',
  },
  blocked: {
    status: 403,
    title: 'This user, device or network is blocked',
    remedy: 'Try again at `until`; null = an operator has to lift the ban.',
  },
  challenge_required: {
    status: 403,
    title: 'A proof of work is needed',
    remedy: 'Solve `challenge` and repeat the request with `challenge_solution`; see docs/challenges.md.',
  },
  verification_required: {
    status: 403,
    title: 'The shop has not verified this person',
    remedy: 'Let the person be verified in the shop, which signs `identity_level` then (docs/identity.md).',
  },
  wrong_role: {
    status: 421,
    title: 'This process does not serve the request',
    remedy: 'Send it to a process with the role in `role`; see API_ROLE in docs/deployment.md.',
  },
  ban_not_found: { status: 404, title: 'There is no such ban', remedy: 'List the bans.' },
  campaign_not_found: { status: 404, title: 'There is no such campaign', remedy: 'Check the product id.' },
  reservation_not_found: { status: 404, title: 'There is no such reservation', remedy: 'Check the reservation id.' },
  code_job_not_found: { status: 404, title: 'There is no such job', remedy: 'Use the address in `Location`.' },
  erasure_not_found: { status: 404, title: 'There is no such erasure', remedy: 'Use the address in `Location`.' },
  key_not_found: { status: 404, title: 'There is no such API key', remedy: 'List the keys.' },
  session_not_found: { status: 404, title: 'There is no such session', remedy: 'List the sessions.' },
  webhook_not_found: { status: 404, title: 'There is no such webhook endpoint', remedy: 'List the endpoints.' },
  event_not_found: {
    status: 404,
    title: 'There is no such event',
    remedy:
      'Events are kept for seven days. An endpoint can receive an event again only if it received the event before and wants its type.',
  },
  code_not_found: {
    status: 404,
    title: 'There is no such code',
    remedy: 'Check the code; spaces and case do not matter.',
  },
  code_not_usable: {
    status: 404,
    title: 'The code cannot be used',
    remedy: 'Check the code, or use another one. This campaign does not reveal the reason.',
  },
  audience_mismatch: {
    status: 403,
    title: 'The campaign is not for this user',
    remedy: 'Send the attributes of the user if they were left out; otherwise the user cannot take part.',
  },
  code_required: {
    status: 409,
    title: 'This campaign is redeemed by code',
    remedy: 'Use POST /coupons/redeem with the code of the user.',
  },
  checkout_required: {
    status: 409,
    title: 'Codes of this campaign are given by checkout',
    remedy: 'Use POST /flash-sale/checkout. The user gets a code with the unit.',
  },
  not_combinable: {
    status: 409,
    title: 'The code does not combine with another code on this order',
    remedy: 'Choose one code: release or refund the other one, or redeem this one for another order.',
  },
  token_invalid: {
    status: 401,
    title: 'The one-time token is missing, used, too old or not genuine',
    remedy: 'Get one from GET /coupons/token for this code and user.',
  },
  headers_too_large: {
    status: 431,
    title: 'The header fields are too large',
    remedy: 'Send fewer or shorter header fields.',
  },
  request_timeout: {
    status: 408,
    title: 'The request took too long to arrive',
    remedy: 'Send the request again, at once.',
  },
  expectation_failed: {
    status: 417,
    title: 'The Expect field asks for something that this server does not support',
    remedy: 'Leave the Expect field out, or send 100-continue.',
  },
  not_found: { status: 404, title: 'There is nothing at this path', remedy: 'See /docs for the paths.' },
  method_not_allowed: {
    status: 405,
    title: 'This path does not support this method',
    remedy: 'Use a method that `Allow` lists.',
  },
  already_redeemed: {
    status: 409,
    title: 'The code is used, or the user has reached the limit',
    remedy: 'See queue-status for the state of the user. To retry a call, send the same idempotency key.',
  },
  duplicate_request: {
    status: 409,
    title: 'This request has been answered before',
    remedy:
      '`original_status` and `data` are those of the first response. Send the key in the header to get the first response with its status.',
  },
  campaign_not_started: { status: 409, title: 'The sale has not started', remedy: 'Try again at `starts_at`.' },
  reservation_released: {
    status: 409,
    title: 'The reservation was released or expired before',
    remedy: 'Refund the payment.',
  },
  reservation_redeemed: { status: 409, title: 'The reservation is redeemed', remedy: 'Use refund instead of release.' },
  reservation_refunded: { status: 409, title: 'The reservation was refunded before', remedy: 'Nothing is left to do.' },
  reservation_voided: {
    status: 409,
    title: 'The reservation was voided',
    remedy: 'The database rejected the reservation; refund the payment.',
  },
  reservation_not_redeemed: { status: 409, title: 'The reservation was never redeemed', remedy: 'Release it instead.' },
  campaign_exists: { status: 409, title: 'There is a campaign for this product', remedy: 'Change it instead.' },
  buckets_unavailable: {
    status: 400,
    title: 'The campaign cannot have so many buckets',
    remedy: 'Ask for fewer buckets, or raise SHARDS; see docs/buckets.md.',
  },
  campaign_conflict: {
    status: 409,
    title: 'The campaign is not in a state that allows this',
    remedy: 'Read the campaign first.',
  },
  signature_invalid: {
    status: 401,
    title: 'The webhook is not genuine, or too old',
    remedy: 'Compare the secret in the configuration with that of the provider, and send the body as it was signed.',
  },
  webhook_invalid: {
    status: 400,
    title: 'The webhook is malformed',
    remedy: 'Send the body that docs/payments.md describes.',
  },
  payment_event_not_found: {
    status: 404,
    title: 'There is no such payment event',
    remedy: 'List the payment events.',
  },
  payment_provider_not_found: {
    status: 404,
    title: 'There is no such payment provider, or it has no secret',
    remedy: 'Set its secret in the configuration; see docs/payments.md.',
  },
  push_not_available: {
    status: 404,
    title: 'This service sends no notifications',
    remedy: 'Set VAPID_SUBJECT, VAPID_PUBLIC_KEY and VAPID_PRIVATE_KEY; see docs/push.md.',
  },
  extension_not_allowed: {
    status: 409,
    title: 'The campaign does not extend the time to pay',
    remedy: 'Set `extend_seconds` of the campaign. A closed campaign extends none.',
  },
  order_ambiguous: {
    status: 409,
    title: 'The order id does not say which reservation is meant',
    remedy:
      'Several users have it: send `user_id` as well. Else send `reservation_id`; `reservations` has the first ten.',
  },
  order_partly_decided: {
    status: 409,
    title: 'The reservations of the order are in different states',
    remedy:
      '`reservations` has the state of each. Repeat the call to complete it, or decide each by its `reservation_id`.',
  },
  already_extended: {
    status: 409,
    title: 'The reservation was extended before',
    remedy: '`pay_before` has its deadline. It is extended once.',
  },
  code_taken: {
    status: 409,
    title: 'The code was issued before',
    remedy: 'Choose another code. A code is issued only once, even after its campaign has ended.',
  },
  codes_limit: {
    status: 409,
    title: 'The campaign cannot have so many codes',
    remedy: 'Divide the codes among several campaigns.',
  },
  key_exists: {
    status: 409,
    title: 'An API key has this name',
    remedy: 'Choose another name. Names of revoked keys are not used again, because the audit log has them.',
  },
  key_limit: { status: 409, title: 'There are too many API keys', remedy: 'Revoke an unused key.' },
  webhook_disabled: { status: 409, title: 'The webhook endpoint is disabled', remedy: 'Enable it first.' },
  webhook_limit: { status: 409, title: 'There are too many webhook endpoints', remedy: 'Remove an unused endpoint.' },
  stock_insufficient: {
    status: 409,
    title: 'Fewer units are free than the request takes away',
    remedy: 'Take away at most `free`.',
  },
  not_waiting: {
    status: 409,
    title: 'The user does not wait in the line',
    remedy: 'See queue-status for the state of the user.',
  },
  sold_out: { status: 410, title: 'Sold out', remedy: 'Do not retry, unless units are added.' },
  waiting_room_full: { status: 410, title: 'The waiting room is full', remedy: 'Try again later.' },
  campaign_ended: { status: 410, title: 'The sale has ended', remedy: 'Do not retry: units are no longer sold.' },
  body_too_large: {
    status: 413,
    title: 'The body is too large',
    remedy: 'Send at most 16 KiB; of CSV at most 100,000,000 lines.',
  },
  unsupported_media_type: {
    status: 415,
    title: 'The type of the body is not supported here',
    remedy: 'Send `Content-Type: application/json`, or `text/csv` where the route accepts it.',
  },
  idempotency_key_reused: {
    status: 422,
    title: 'The idempotency key belongs to another request',
    remedy: 'Use a new key for every new intention.',
  },
  rate_limited: { status: 429, title: 'Too many requests', remedy: 'Wait `Retry-After` seconds.' },
  internal_error: { status: 500, title: 'Something went wrong on our side', remedy: 'Report `instance`.' },
  campaign_paused: { status: 503, title: 'The sale is paused', remedy: 'Wait `Retry-After` seconds.' },
  region_unavailable: {
    status: 503,
    title: 'The region that decides about this request cannot be reached',
    remedy: 'Retry with the same idempotency key after `Retry-After` seconds (docs/regions.md).',
  },
  temporarily_unavailable: {
    status: 503,
    title: 'The service is temporarily unavailable',
    remedy: 'Retry with the same idempotency key after `Retry-After` seconds.',
  },
} as const satisfies Record<string, { status: number; title: string; remedy: string }>;

export type ErrorCode = keyof typeof ERRORS;
export const ERROR_CODES = Object.keys(ERRORS) as ErrorCode[];

export type FieldError = { pointer: string; detail: string };

/** What a refusal has in addition to its code and its detail. */
export type ProblemExtras = {
  /** Members added to the problem document. */
  members?: Record<string, unknown>;
  headers?: Record<string, string>;
  /** Retry-After before jitter, seconds. */
  retryAfterSeconds?: number;
};

/** An expected refusal. api/http/problem.ts turns it into a response. */
export class Problem<Code extends ErrorCode = ErrorCode> extends Error {
  override readonly name = 'Problem';
  constructor(
    readonly code: Code,
    /** One sentence about this occurrence, without internals. */
    readonly detail: string,
    readonly extras: ProblemExtras = {},
  ) {
    // The stack is not captured: the code identifies an expected refusal, and capturing costs more than everything else
    // here.
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(detail);
    Error.stackTraceLimit = stackTraceLimit;
  }

  get status(): number {
    return ERRORS[this.code].status;
  }
}
