import { setTimeout as sleep } from 'node:timers/promises';
import type { Request } from 'express';
import { type CampaignPolicy, enforces } from '../../shared/domain/campaign-policy.js';
import type { ReservationId } from '../../shared/domain/ids.js';
import { type ErrorCode, Problem } from '../../shared/errors/catalogue.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { Attempt } from '../../shared/postgres/redemption-attempts.js';
import { callerOf, type FailedAttemptLimiter, type Guesser } from '../guards/abuse/failed-attempt-limiter.js';
import { REQUIREMENT_CODES } from '../guards/abuse/requirements.js';
import type { LocalQuota } from '../guards/limits/local-quota.js';
import type { PolicyCache } from '../guards/limits/policy-cache.js';
import { rateLimited } from '../guards/limits/quotas.js';
import type { AttemptRecorder } from './attempt-recorder.js';
import type { CodeResolver, IssuedCode } from './code-resolver.js';
import type { Redeemed } from './redemption.js';
import type { UnknownCodes } from './unknown-codes.js';

/** Error codes that count as a failed guess, and thus towards the caller's cooldown. */
const FAILURES: ReadonlySet<ErrorCode> = new Set([
  'code_not_found',
  'code_not_usable',
  'audience_mismatch',
  'token_invalid',
]);
/** Error codes that do not reveal whether the code exists. */
const UNKNOWN: ReadonlySet<ErrorCode> = new Set(['code_not_found', 'code_not_usable']);
/** Error codes that campaigns with uniform refusals send as well, because the shopper has to react to them. */
const NEVER_MASKED: ReadonlySet<ErrorCode> = new Set([...REQUIREMENT_CODES, 'rate_limited', 'blocked']);
export const UNKNOWN_CODES = 'unknown-codes';

/** One request with codes. `failed`: whether it has already counted as a failure; it counts at most once. */
export type Attempted = { action: 'validate' | 'redeem'; guesser: Guesser; failed: boolean };

/** Dependencies that count and record attempts, shared by both actions. */
export type AttemptDeps = {
  finder: CodeResolver;
  policies: PolicyCache;
  /** Counts failed requests by caller (`callerOf`), in this process. */
  guesses: LocalQuota;
  /** Counts unknown codes, and codes with uniform refusals, by network: in this process, or with a role in Redis. */
  unknownCodes: UnknownCodes;
  failures: FailedAttemptLimiter;
  attempts: AttemptRecorder;
  metrics: Metrics;
  log: Log;
  limits: { uniformRefusalMs: number };
};

type About = (issued: IssuedCode, redeemed?: Redeemed) => void;

/**
 * Runs one attempt with one code, and records, counts and logs its outcome. A campaign with uniform refusals only
 * reveals that the code cannot be used, after the same time whatever the reason. An invented code that looks like one
 * of its codes gets the same response and counts in the same way.
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
    const flood = refusal instanceof Problem ? await countFailure(deps, attempted, refusal) : null;
    isFlood = flood !== null;
    // The delay happens outside of the load shedder, so that a delayed request takes no slot of another.
    if (isUniform && refusal instanceof Problem) await untilMs(deps.limits.uniformRefusalMs, req);
    throw flood ?? refusal;
  } finally {
    const reservation = redeemed?.answer.status === 201 ? redeemed.answer.data.reservation_id : undefined;
    metrics.coupons.inc({ action, outcome });
    // A flood is only counted: a row for each code would fill the disks. The edge logs a line for each refusal.
    const about = attemptOf(req, attempted, outcome, issued, reservation as ReservationId | undefined);
    if (!isFlood && attempts.record(about)) {
      const trace = req.trace || undefined;
      log.info({ request_id: req.requestId, trace, campaign: issued?.product, reservation, outcome }, action);
      req.logged = true;
    }
  }
}

/** Returns the policy for a code: that of its campaign, or the shared one of campaigns with uniform refusals. */
export function policyOf({ policies }: Pick<AttemptDeps, 'policies'>, { terms, product }: IssuedCode): CampaignPolicy {
  return terms.uniformRefusals ? policies.ofUniform : policies.of(product);
}

/**
 * Finds a code. If it was never issued, it takes the same quotas as an existing code wherever the difference would
 * reveal which codes exist, or where the quotas deter guesses. Otherwise the first failures of a caller are counted in
 * this process only: most are typing errors, which then take no quota of their caller.
 * @param count takes the quotas of the request according to a policy
 */
export async function foundOrCounted<Counted>(
  { finder, guesses, policies, unknownCodes }: AttemptDeps,
  { guesser }: Attempted,
  typed: string,
  count: (policy: CampaignPolicy) => Promise<Counted>,
) {
  try {
    return await finder.find(typed, guesser.user);
  } catch (error) {
    if (!(error instanceof Problem) || error.code !== 'code_not_found') throw error;
    if (finder.looksUniform(typed)) await count(policies.ofUniform);
    else if (unknownCodes.waitOf(guesser.network) === 0) {
      // If a campaign requires a proof of work, an invented code must require it too, or it would differ from a real
      // one.
      const { risk, limits } = policies.ofNone;
      const isWanted = enforces(risk) || Boolean(limits.attestationLevel);
      if (isWanted || guesses.countOf(callerOf(guesser)) + 1 >= guesses.limit) await count(policies.ofNone);
    }
    throw error;
  }
}

/**
 * Counts a refused code for its network, and its request once for its caller. Valid codes from a limited network are
 * still served.
 * @returns the refusal to send instead if the network has sent too many unknown codes; null = none
 */
async function countFailure(deps: AttemptDeps, attempted: Attempted, { code }: Problem): Promise<Problem | null> {
  if (!FAILURES.has(code)) return null;
  const { guesser } = attempted;
  noteFailure(deps, attempted);
  if (!UNKNOWN.has(code) || deps.failures.bans.isAllowed(guesser)) return null;
  const { unknownCodes, metrics } = deps;
  const waitMs = await unknownCodes.take(guesser.network);
  if (waitMs === 0) return null;
  metrics.limited.inc({ policy: UNKNOWN_CODES });
  return rateLimited(UNKNOWN_CODES, unknownCodes.limit, unknownCodes.windowMs / 1000, waitMs);
}

/**
 * Counts a failed request once. The first failures of a caller may be typing errors and are counted in this process; at
 * the limit they are added together to the count of all processes.
 */
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

/**
 * Replaces an error by the uniform refusal. This includes a pause, which would reveal the codes of a paused campaign.
 */
function masked(error: unknown): unknown {
  if (!(error instanceof Problem) || NEVER_MASKED.has(error.code)) return error;
  if (error.status >= 500 && error.code !== 'campaign_paused') return error;
  return new Problem('code_not_usable', 'The code cannot be used.');
}

async function untilMs(afterMs: number, req: Request): Promise<void> {
  await sleep(Math.max(0, afterMs - (performance.now() - req.startedAt)));
}
