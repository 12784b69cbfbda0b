import { setTimeout as sleep } from 'node:timers/promises';
import type { Request, Response } from 'express';
import type { CampaignPolicy } from '../../shared/domain/campaign-policy.js';
import { type Code, normaliseCode } from '../../shared/domain/codes.js';
import type { Cart } from '../../shared/domain/discount.js';
import type { DeviceId, OrderId, ReservationId, UserId } from '../../shared/domain/ids.js';
import { type ErrorCode, Problem } from '../../shared/errors/catalogue.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { AttemptRecorder } from '../../shared/postgres/attempt-recorder.js';
import type { Attempt } from '../../shared/postgres/redemption-attempts.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';
import { networkOf } from '../guards/address.js';
import type { Admission } from '../guards/admission.js';
import type { Attestation, GenuineToken } from '../guards/attestation.js';
import type { Bans } from '../guards/bans.js';
import type { Entry } from '../guards/entry.js';
import type { Failures } from '../guards/failures.js';
import { derivedDevice, namedDevice } from '../guards/fingerprint.js';
import type { LocalQuota } from '../guards/local-quota.js';
import type { PolicyBook } from '../guards/policy-book.js';
import { type CampaignQuota, policyField, type Quota } from '../guards/quotas.js';
import type { ShopperIdentity } from '../guards/shopper-identity.js';
import type { Velocity } from '../guards/velocity.js';
import { retryAfter, sendData } from '../http/exchange.js';
import { idempotencyKey } from '../http/idempotency-key.js';
import { readJson } from '../http/json-body.js';
import type { Route, RouteContract } from '../http/route.js';
import { validate } from '../http/validate.js';
import { assertHis, type CodeFinder, codeNotFound, type IssuedCode } from './code-finder.js';
import {
  placeData,
  type RedeemBody,
  redeemBody,
  redeemedData,
  tokenData,
  tokenQuery,
  validateBody,
  validData,
} from './coupon.contract.js';
import type { OneTimeTokens } from './one-time-token.js';
import type { Redeemed, Redemption } from './redemption.js';
import type { Judged, Shopper, Validation } from './validation.js';

export type CouponParts = {
  admission: Admission;
  finder: CodeFinder;
  /** Made-up codes by user, in this process. */
  guesses: LocalQuota;
  redemption: Redemption;
  validation: Validation;
  oneTimeTokens: OneTimeTokens;
  attestation: Attestation;
  bans: Bans;
  entry: Entry;
  policies: PolicyBook;
  velocity: Velocity;
  failures: Failures;
  validateQuota: CampaignQuota;
  redeemQuota: CampaignQuota;
  shopper: ShopperIdentity;
  attempts: AttemptRecorder;
  clock: RedisClock;
  tokenQuota: Quota;
  metrics: Metrics;
  log: Log;
  limits: { oneTimeTokenMs: number; uniformRefusalMs: number; deviceQuota: number; deviceWindowMs: number };
};

const REFUSALS: readonly ErrorCode[] = [
  'invalid_request',
  'invalid_json',
  'unsupported_media_type',
  'body_too_large',
  'unauthorized',
  'forbidden',
  'blocked',
  'code_not_found',
  'code_not_usable',
  'audience_mismatch',
  'already_redeemed',
  'campaign_not_started',
  'campaign_ended',
  'campaign_paused',
  'sold_out',
  'waiting_room_full',
  'rate_limited',
  'temporarily_unavailable',
];

const contract = (path: string, rest: Pick<RouteContract, 'summary' | 'answers'> & Partial<RouteContract>) =>
  ({ method: 'post', path: `/coupons${path}`, tag: 'coupons', caller: 'shopper', errors: REFUSALS, ...rest }) as const;

/** What whoever guesses codes meets; each counts towards his wait and his ban. */
const FAILURES: ReadonlySet<ErrorCode> = new Set(['code_not_found', 'audience_mismatch', 'token_invalid']);
/** Told also by a campaign that tells nothing else: the shopper has to know what to do. */
const NEVER_MASKED: ReadonlySet<ErrorCode> = new Set(['rate_limited', 'challenge_required', 'blocked']);

/** POST /coupons/validate and /coupons/redeem, GET /coupons/token. */
export function couponRoutes(parts: CouponParts): Route[] {
  return [validateRoute(parts), redeemRoute(parts), tokenRoute(parts)];
}

function validateRoute(parts: CouponParts): Route {
  const { admission, bans, policies, validateQuota, validation, shopper } = parts;
  return {
    contract: contract('/validate', {
      summary: 'What one code, or several, would give',
      description:
        'Reads only. One code: its campaign and discount, or the refusal that redeeming it would meet. Several: the best ' +
        'combination that their campaigns allow, and why the others are not in it.',
      body: validateBody,
      answers: { 200: { description: 'What can be used.', data: validData } },
    }),
    async handle(req, res) {
      const body = validate(validateBody, await readJson(req));
      bans.admit({ user: body.user_id as UserId });
      bans.admitPaused(body.user_id as UserId);
      if (shopper.required) await shopper.require(req, body.user_id);
      const who = shopperOf(body);
      // One call is counted once, by the limit of the campaign whose code is found first.
      let counted: Promise<string[]> | null = null;
      const count = (product: string) => {
        counted ??= validateQuota.of(policies.of(product).limits.validatePerMinutePerUser).take(who.user);
        return counted;
      };
      const judge = (typed: string) =>
        recorded(parts, req, { action: 'validate', user: who.user, typed, guess: 0 }, (about, attempt) =>
          admission.admit(async () => {
            const issued = await foundOrCounted(parts, attempt, () => count(''));
            await count(issued.product);
            about(issued);
            assertHis(issued, who.user);
            return { issued, data: await validation.one(issued, who) };
          }),
        );
      const data =
        body.code !== undefined
          ? (await judge(body.code)).data
          : validation.several(await Promise.all((body.codes ?? []).map((typed) => judgedOf(typed, judge))), who.cart);
      sendData(req, res, 200, data, (await counted) ?? []);
    },
  };
}

/**
 * A guess counts as much as a code that exists. The first ones of a user are noticed in this process alone: most made-up
 * codes are one person's slip or one of very many users, and cost no engine anything.
 */
async function foundOrCounted<Counted>(
  { finder, guesses, policies }: CouponParts,
  attempt: Attempted,
  count: () => Promise<Counted>,
) {
  try {
    return await finder.find(attempt.typed);
  } catch (error) {
    if (!(error instanceof Problem) || error.code !== 'code_not_found') throw error;
    attempt.guess = guesses.count(attempt.user);
    // Where some campaign wants work of everybody, a made-up code must not be told from a real one by being let off.
    const { risk, limits } = policies.ofNone;
    const isWanted = risk === 'enforce' || Boolean(limits.attestationLevel);
    if (isWanted || attempt.guess >= guesses.limit) await count();
    throw error;
  }
}

async function judgedOf(typed: string, judge: (typed: string) => Promise<{ issued: IssuedCode }>): Promise<Judged> {
  try {
    return { typed, issued: (await judge(typed)).issued };
  } catch (refusal) {
    if (refusal instanceof Problem && refusal.status < 500 && refusal.status !== 429) return { typed, refusal };
    throw refusal;
  }
}

function redeemRoute(parts: CouponParts): Route {
  const { admission, attestation, bans, entry, failures, policies, redeemQuota, redemption, velocity } = parts;
  const { shopper } = parts;
  return {
    contract: contract('/redeem', {
      summary: 'Use a code',
      description:
        'Needs an idempotency key, in the header or in the body, as checkout does. The same request means the same code, ' +
        'user_id and order_id. Device fields are optional; given, they are checked as in checkout.',
      body: redeemBody,
      answers: {
        201: { description: 'It is used; pay before `pay_before` where that is given.', data: redeemedData },
        202: { description: 'You are in line. `Location` is your queue-status.', data: placeData },
      },
      errors: [
        ...REFUSALS,
        'token_invalid',
        'attestation_invalid',
        'attestation_expired',
        'challenge_required',
        'duplicate_request',
        'idempotency_key_reused',
      ],
    }),
    async handle(req, res) {
      const network = networkOf(req);
      const body = validate(redeemBody, await readJson(req));
      const user = body.user_id as UserId;
      bans.admit({ user, device: body.device_fp as DeviceId | undefined });
      bans.admitPaused(user);
      const { key, from } = idempotencyKey(req, body.idempotency_key);
      const named = (body.device_fp as DeviceId | undefined) ?? namedDevice(req);
      const device = body.attestation === undefined ? named : (named ?? derivedDevice(req));
      if (body.device_fp === undefined) bans.admit({ device });
      if (shopper.required) await shopper.require(req, user);
      const who = shopperOf(body);
      /** The guards that cost a round trip. Those of a guess are the same, so that a challenge tells nothing. */
      const enter = async (policy: CampaignPolicy, token: GenuineToken | null) => {
        velocity.count(policy.product);
        const rateLimit = await redeemQuota.of(policy.limits.redeemPerMinutePerUser).take(user);
        const accountCreatedAt = body.attributes.account_created_at;
        const solution = body.challenge_solution ?? null;
        const use = `${user}|${key}`;
        await entry.redeem({
          policy,
          user,
          device: named,
          boundTo: device,
          network,
          accountCreatedAt,
          token,
          solution,
          use,
        });
        return rateLimit;
      };
      const attempted: Attempted = { action: 'redeem', user, typed: body.code, guess: 0 };
      const { issued, redeemed, rateLimit } = await recorded(parts, req, attempted, (about, attempt) =>
        admission.admit(async () => {
          const found = await foundOrCounted(parts, attempt, () => enter(policies.ofNone, null));
          about(found);
          const policy = policies.of(found.product);
          const token = attested(body, device, attestation, found.product);
          const headers = await enter(policy, token?.genuine ?? null);
          assertHis(found, user);
          const result = await redemption.run(found, {
            ...who,
            device,
            attestation: token,
            order: body.order_id as OrderId,
            oneTimeToken: body.token ?? null,
            key,
            trace: req.trace,
          });
          about(found, result);
          if (result.replayed) redeemQuota.of(policy.limits.redeemPerMinutePerUser).giveBack(user);
          else failures.succeeded(user);
          return { issued: found, redeemed: result, rateLimit: headers };
        }),
      );
      tell(parts, req, res, { product: issued.product, user }, redeemed, from, redeemed.replayed ? [] : rateLimit);
    },
  };
}

function tokenRoute({ bans, oneTimeTokens, clock, tokenQuota, limits }: CouponParts): Route {
  return {
    contract: {
      ...contract('/token', {
        summary: 'A one-time token for a code and a user',
        description: 'For campaigns with `require_token`. Lives five minutes, is used up by the first redemption.',
        query: tokenQuery,
        answers: { 200: { description: 'Send it as `token`.', data: tokenData } },
      }),
      method: 'get',
      caller: 'anyone',
      errors: ['invalid_request', 'blocked', 'code_not_found', 'rate_limited', 'temporarily_unavailable'],
    },
    async handle(req, res) {
      const { code, user_id } = validate(tokenQuery, req.query);
      bans.admit({ user: user_id as UserId });
      const rateLimit = await tokenQuota.take(networkOf(req));
      const expiresAt = Math.floor(clock.nowMs()) + limits.oneTimeTokenMs;
      // Whether the code was issued is not said here: a token would be a way to ask.
      const token = oneTimeTokens.sign(canonical(code), user_id, expiresAt);
      sendData(req, res, 200, { token, expires_at: new Date(expiresAt).toISOString() }, rateLimit);
    },
  };
}

function canonical(typed: string): Code {
  const normalised = normaliseCode(typed);
  if (normalised.kind !== 'code') throw codeNotFound();
  return normalised.code;
}

function shopperOf(body: {
  user_id: string;
  attributes: Record<string, unknown>;
  cart?: { subtotal: number; currency: string } | undefined;
}): Shopper {
  return { user: body.user_id as UserId, attributes: body.attributes, cart: (body.cart as Cart | undefined) ?? null };
}

/** A device that is named has a quota; one with a token is checked as in checkout. */
function attested(body: RedeemBody, device: DeviceId | null, attestation: Attestation, product: string) {
  const { attestation: token, expires_at: expiresAtSeconds } = body;
  if (token === undefined) return null;
  const genuine =
    device === null || expiresAtSeconds === undefined
      ? null
      : attestation.read(token, device, expiresAtSeconds, product);
  if (expiresAtSeconds === undefined || !genuine)
    throw new Problem('attestation_invalid', 'The token is not ours for this device and expiry.');
  return { expiresAtSeconds, genuine };
}

function tell(
  { limits }: CouponParts,
  req: Request,
  res: Response,
  claimed: { product: string; user: string },
  { status, data, replayed, quotaLeft }: Redeemed,
  keyFrom: 'header' | 'body',
  rateLimit: readonly string[],
): void {
  if (replayed && keyFrom === 'body') {
    throw new Problem('duplicate_request', 'This request was answered before; `data` is that answer.', {
      members: { original_status: status, data },
    });
  }
  const headers = replayed ? ['Idempotent-Replayed', 'true'] : [...rateLimit];
  if (quotaLeft !== null) {
    const seconds = limits.deviceWindowMs / 1000;
    const policy = policyField('device', limits.deviceQuota, seconds);
    headers.push('RateLimit-Policy', policy, 'RateLimit', `"device";r=${quotaLeft};t=${seconds}`);
  }
  if (status === 202) {
    const query = new URLSearchParams({ product_id: claimed.product, user_id: claimed.user });
    headers.push(
      'Location',
      `/flash-sale/queue-status?${query}`,
      'Retry-After',
      retryAfter(Number(data.poll_after_seconds)),
    );
  }
  sendData(req, res, status, data, headers);
}

/** One call for one code. `guess`: how many made-up ones of this user it makes in this window; 0 = it is none. */
type Attempted = { action: 'validate' | 'redeem'; user: UserId; typed: string; guess: number };

type About = (issued: IssuedCode, redeemed?: Redeemed) => void;

/**
 * Runs one attempt, records it with its outcome, counts and logs it. Of a campaign with uniform refusals nothing is told
 * but that the code cannot be used, after the same time whatever the reason.
 */
async function recorded<Value>(
  parts: CouponParts,
  req: Request,
  attempted: Attempted,
  attempt: (about: About, attempted: Attempted) => Promise<Value>,
): Promise<Value> {
  const { action, user, typed } = attempted;
  const { attempts, metrics, log } = parts;
  let issued: IssuedCode | undefined;
  let redeemed: Redeemed | undefined;
  let outcome = 'failed';
  try {
    const value = await attempt((code, result) => {
      issued = code;
      redeemed = result;
    }, attempted);
    outcome = action === 'validate' ? 'valid' : redeemed?.replayed ? 'replayed' : String(redeemed?.data.status);
    return value;
  } catch (error) {
    outcome = error instanceof Problem ? error.code : error instanceof EngineUnavailable ? 'unavailable' : 'failed';
    if (error instanceof Problem && FAILURES.has(error.code)) noteFailure(parts, attempted);
    const isUniform = issued ? issued.terms.uniformRefusals : parts.finder.looksUniform(typed);
    throw isUniform ? await masked(parts, req, error) : error;
  } finally {
    const reservation = redeemed?.data.reservation_id;
    metrics.coupons.inc({ action, outcome });
    req.logged = true;
    log.info(
      { request_id: req.requestId, trace: req.trace || undefined, campaign: issued?.product, reservation, outcome },
      action,
    );
    attempts.record(attemptOf(req, action, user, outcome, issued, reservation as ReservationId | undefined));
  }
}

/** Guesses are told of when they are no slip any more, all of them at once. */
function noteFailure({ failures, guesses }: CouponParts, { user, guess }: Attempted): void {
  if (guess === guesses.limit) failures.failed(user, guess);
  else if (guess === 0 || guess > guesses.limit) failures.failed(user);
}

function attemptOf(
  req: Request,
  action: 'validate' | 'redeem',
  userId: UserId,
  outcome: string,
  issued: IssuedCode | undefined,
  reservation: ReservationId | undefined,
): Attempt {
  return {
    action,
    outcome,
    campaignId: issued?.terms.campaignId ?? null,
    code: issued?.code ?? null,
    codeExists: issued !== undefined,
    userId,
    deviceFp: req.headers['x-device-fingerprint']?.toString() ?? null,
    network: networkOf(req),
    reservationId: reservation ?? null,
  };
}

/** Outside of the admission: who waits here holds no place of others. */
async function masked({ limits }: CouponParts, req: Request, error: unknown): Promise<unknown> {
  const isRefusal = error instanceof Problem && error.status < 500 && !NEVER_MASKED.has(error.code);
  if (!isRefusal) return error;
  await sleep(Math.max(0, limits.uniformRefusalMs - (performance.now() - req.startedAt)));
  return new Problem('code_not_usable', 'The code cannot be used.');
}
