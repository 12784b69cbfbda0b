import { setTimeout as sleep } from 'node:timers/promises';
import type { Request } from 'express';
import type { ReservationId, UserId } from '../../shared/domain/ids.js';
import { type ErrorCode, Problem } from '../../shared/errors/catalogue.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { Attempt } from '../../shared/postgres/redemption-attempts.js';
import { networkOf } from '../guards/address.js';
import type { IssuedCode } from './code-finder.js';
import type { CouponParts } from './coupon-parts.js';
import type { Redeemed } from './redemption.js';

/** What whoever guesses codes meets; each counts towards his wait and his ban. */
const FAILURES: ReadonlySet<ErrorCode> = new Set(['code_not_found', 'audience_mismatch', 'token_invalid']);
/** Told also by a campaign that tells nothing else: the shopper has to know what to do. */
const NEVER_MASKED: ReadonlySet<ErrorCode> = new Set(['rate_limited', 'challenge_required', 'blocked']);

/** One call for one code. `guess`: how many made-up ones of this user it makes in this window; 0 = it is none. */
export type Attempted = { action: 'validate' | 'redeem'; user: UserId; typed: string; guess: number };

type About = (issued: IssuedCode, redeemed?: Redeemed) => void;

/**
 * Runs one attempt, records it with its outcome, counts and logs it. Of a campaign with uniform refusals nothing is told
 * but that the code cannot be used, after the same time whatever the reason.
 */
export async function recorded<Value>(
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

/**
 * A guess counts as much as a code that exists. The first ones of a user are noticed in this process alone: most made-up
 * codes are one person's slip or one of very many users, and cost no engine anything.
 */
export async function foundOrCounted<Counted>(
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
