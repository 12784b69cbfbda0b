import { setTimeout as sleep } from 'node:timers/promises';
import type { Request } from 'express';
import type { CampaignPolicy } from '../../shared/domain/campaign-policy.js';
import type { ReservationId } from '../../shared/domain/ids.js';
import { type ErrorCode, Problem } from '../../shared/errors/catalogue.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { Attempt } from '../../shared/postgres/redemption-attempts.js';
import { callerOf, type FailedAttemptLimiter, type Guesser } from '../guards/abuse/failed-attempt-limiter.js';
import type { LocalQuota } from '../guards/limits/local-quota.js';
import type { PolicyCache } from '../guards/limits/policy-cache.js';
import { rateLimited } from '../guards/limits/quotas.js';
import type { AttemptRecorder } from './attempt-recorder.js';
import type { CodeResolver, IssuedCode } from './code-resolver.js';
import type { Redeemed } from './redemption.js';

/** Refusals that somebody meets who guesses codes; each request with one counts towards the caller's wait. */
const FAILURES: ReadonlySet<ErrorCode> = new Set([
  'code_not_found',
  'code_not_usable',
  'audience_mismatch',
  'token_invalid',
]);
/** Refusals that do not say whether the code exists. */
const UNKNOWN: ReadonlySet<ErrorCode> = new Set(['code_not_found', 'code_not_usable']);
/** Sent by a campaign with uniform refusals too: the shopper has to know what to do. */
const NEVER_MASKED: ReadonlySet<ErrorCode> = new Set(['rate_limited', 'challenge_required', 'blocked']);
export const UNKNOWN_CODES = 'unknown-codes';

/** One request with codes. `failed`: whether one of its codes has counted as a failure, which happens once. */
export type Attempted = { action: 'validate' | 'redeem'; guesser: Guesser; failed: boolean };

/** What counts and records attempts, the same for both actions. */
export type AttemptDeps = {
  finder: CodeResolver;
  policies: PolicyCache;
  /** Failed requests by caller (`callerOf`), in this process. */
  guesses: LocalQuota;
  /** Codes that were never issued, or of which nothing is told, by network, in this process. */
  unknownCodes: LocalQuota;
  failures: FailedAttemptLimiter;
  attempts: AttemptRecorder;
  metrics: Metrics;
  log: Log;
  limits: { uniformRefusalMs: number };
};

type About = (issued: IssuedCode, redeemed?: Redeemed) => void;

/**
 * Runs one attempt with one code, records it with its outcome, counts and logs it. Of a campaign with uniform refusals nothing is
 * told but that the code cannot be used, after the same time whatever the reason; a made-up code that looks like one of its codes
 * is treated alike in all that is counted.
 */
export async function recorded<Value>(
  deps: AttemptDeps,
  req: Request,
  attempted: Attempted,
  typed: string,
  attempt: (about: About) => Promise<Value>,
): Promise<Value> {
  const { action } = attempted;
  const { attempts, metrics, log } = deps;
  let issued: IssuedCode | undefined;
  let redeemed: Redeemed | undefined;
  let outcome = 'failed';
  let isFlood = false;
  try {
    const value = await attempt((code, result) => {
      issued = code;
      redeemed = result;
    });
    outcome = action === 'validate' ? 'valid' : redeemed?.replayed ? 'replayed' : String(redeemed?.answer.data.status);
    return value;
  } catch (error) {
    outcome = error instanceof Problem ? error.code : error instanceof EngineUnavailable ? 'unavailable' : 'failed';
    const isUniform = issued ? issued.terms.uniformRefusals : deps.finder.looksUniform(typed);
    const refusal = isUniform ? masked(error) : error;
    const flood = refusal instanceof Problem ? countFailure(deps, attempted, refusal) : null;
    isFlood = flood !== null;
    // Outside of the admission: who waits here holds no place of others.
    if (isUniform && refusal instanceof Problem) await untilMs(deps.limits.uniformRefusalMs, req);
    throw flood ?? refusal;
  } finally {
    const reservation = redeemed?.answer.status === 201 ? redeemed.answer.data.reservation_id : undefined;
    metrics.coupons.inc({ action, outcome });
    // A flood is counted; a line and a row for each would only fill disks.
    if (!isFlood || !req.logged)
      log.info(
        { request_id: req.requestId, trace: req.trace || undefined, campaign: issued?.product, reservation, outcome },
        action,
      );
    req.logged = true;
    if (!isFlood) attempts.record(attemptOf(req, attempted, outcome, issued, reservation as ReservationId | undefined));
  }
}

/** The guards of a code: those of its campaign, or those that all codes share of whose existence nothing is told. */
export function policyOf({ policies }: Pick<AttemptDeps, 'policies'>, { terms, product }: IssuedCode): CampaignPolicy {
  return terms.uniformRefusals ? policies.ofUniform : policies.of(product);
}

/**
 * Finds a code. One that was never issued counts as much as one that exists, wherever the count would tell them apart or keeps
 * guesses away. Elsewhere the first ones of a caller are noticed in this process alone: most are a slip, and cost no engine
 * anything.
 * @param count takes the quotas of the request by a policy
 */
export async function foundOrCounted<Counted>(
  { finder, guesses, policies, unknownCodes }: AttemptDeps,
  { guesser }: Attempted,
  typed: string,
  count: (policy: CampaignPolicy) => Promise<Counted>,
) {
  try {
    return await finder.find(typed);
  } catch (error) {
    if (!(error instanceof Problem) || error.code !== 'code_not_found') throw error;
    if (finder.looksUniform(typed)) await count(policies.ofUniform);
    else if (unknownCodes.waitOf(guesser.network) === 0) {
      // Where a campaign wants work of everybody, a made-up code must not be told from a real one by being let off.
      const { risk, limits } = policies.ofNone;
      const isWanted = risk === 'enforce' || Boolean(limits.attestationLevel);
      if (isWanted || guesses.countOf(callerOf(guesser)) + 1 >= guesses.limit) await count(policies.ofNone);
    }
    throw error;
  }
}

/**
 * Counts a refused code for its network, and its request once for its caller. @returns the refusal to send instead when the network
 * has sent too many unknown codes. Right codes from the same network go on being served.
 */
function countFailure(deps: AttemptDeps, attempted: Attempted, { code }: Problem): Problem | null {
  if (!FAILURES.has(code)) return null;
  const { guesser } = attempted;
  noteFailure(deps, attempted);
  if (!UNKNOWN.has(code) || deps.failures.bans.isAllowed(guesser)) return null;
  const { unknownCodes, metrics } = deps;
  const waitMs = unknownCodes.take(guesser.network);
  if (waitMs === 0) return null;
  metrics.limited.inc({ policy: UNKNOWN_CODES });
  return rateLimited(UNKNOWN_CODES, unknownCodes.limit, unknownCodes.windowMs / 1000, waitMs);
}

/** FailedAttemptLimiter are counted for all processes when they are no slip any more, all of them at once. */
function noteFailure({ failures, guesses }: AttemptDeps, attempted: Attempted): void {
  if (attempted.failed) return;
  attempted.failed = true;
  const { guesser } = attempted;
  const count = guesses.count(callerOf(guesser));
  if (count === guesses.limit) failures.failed(guesser, count);
  else if (count > guesses.limit) failures.failed(guesser);
}

function attemptOf(
  req: Request,
  { action, guesser }: Attempted,
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
    userId: guesser.user,
    deviceFp: req.headers['x-device-fingerprint']?.toString() ?? null,
    network: guesser.network,
    reservationId: reservation ?? null,
  };
}

/** A paused campaign is hidden as well: otherwise its codes could be told from made-up ones while it is paused. */
function masked(error: unknown): unknown {
  if (!(error instanceof Problem) || NEVER_MASKED.has(error.code)) return error;
  if (error.status >= 500 && error.code !== 'campaign_paused') return error;
  return new Problem('code_not_usable', 'The code cannot be used.');
}

async function untilMs(afterMs: number, req: Request): Promise<void> {
  await sleep(Math.max(0, afterMs - (performance.now() - req.startedAt)));
}
