import { randomUUID } from 'node:crypto';
import type { CampaignPolicy } from '../../shared/domain/campaign-policy.js';
import type { UserId } from '../../shared/domain/ids.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { AttemptRate } from '../guards/abuse/attempt-rate.js';
import type { BlocklistGuard } from '../guards/abuse/blocklist-guard.js';
import { callerOf, type Guesser } from '../guards/abuse/failed-attempt-limiter.js';
import { requireOfPerson } from '../guards/abuse/requirements.js';
import type { Challenges } from '../guards/attestation/challenges.js';
import { assertProofFor, type ShopperIdentity } from '../guards/auth/shopper-identity.js';
import { networkOf } from '../guards/caller/address.js';
import type { Degradation } from '../guards/limits/degradation.js';
import type { LoadShedder } from '../guards/limits/load-shedding.js';
import type { CampaignLimit } from '../guards/limits/quotas.js';
import type { TokenBucket } from '../guards/limits/token-bucket.js';
import { defineRoute } from '../http/define-route.js';
import { readJson } from '../http/json-body.js';
import { unavailable } from '../http/problem.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import { type AttemptDeps, type Attempted, foundOrCounted, policyOf, recorded, UNKNOWN_CODES } from './attempt.js';
import { assertOwner, type IssuedCode } from './code-resolver.js';
import { validateBody, validateContract } from './coupon.contract.js';
import { type Judged, shopperOf, type Validation } from './validation.js';

export type ValidateDeps = AttemptDeps & {
  loadShedder: LoadShedder;
  degradation: Pick<Degradation, 'isOff'>;
  blocklist: BlocklistGuard;
  challenges: Challenges;
  /** Raises the price of work with the rate of checks; null = redemptions raise it. */
  checkRate: AttemptRate | null;
  validateQuota: CampaignLimit<TokenBucket>;
  validation: Validation;
  shopper: ShopperIdentity;
};

/** POST /coupons/validate. */
export function validateRoute(deps: ValidateDeps): Route {
  const { loadShedder, blocklist, validateQuota, validation, shopper } = deps;
  return defineRoute(validateContract, async (call) => {
    const { req, res } = call;
    if (deps.degradation.isOff('validate')) throw unavailable();
    const body = validate(validateBody, await readJson(req));
    if (blocklist.refuses(req, res, { user: body.user_id as UserId })) return;
    const identity = await shopper.identify(req, body.user_id);
    const who = shopperOf(body, identity);
    const guesser = { user: who.user, network: networkOf(req), proven: identity.proven };
    blocklist.bans.admitPaused(callerOf(guesser));
    await requireWork(deps, guesser, body.challenge_solution ?? null);
    // A call counts once, in the quota of the campaign whose code is found first.
    let counted: Promise<string[]> | null = null;
    const count = async (policy: CampaignPolicy) => {
      counted ??= validateQuota.of(policy.limits.validatePerMinutePerUser).take(callerOf(guesser));
      await counted;
      // Here, because an invented code that looks like one with uniform refusals must meet it as well.
      requireOfPerson(policy, identity);
    };
    const attempted: Attempted = { action: 'validate', guesser, failed: false };
    const judge = (typed: string) =>
      recorded(deps, req, attempted, typed, (about) =>
        loadShedder.admit(async () => {
          const issued = await foundOrCounted(deps, attempted, typed, count);
          about(issued);
          await count(policyOf(deps, issued));
          assertProofFor(identity, issued.product);
          assertOwner(issued, who.user);
          return { issued, data: await validation.one(issued, who) };
        }),
      );
    const data =
      body.code !== undefined
        ? (await judge(body.code)).data
        : validation.several(await judgedEach(body.codes ?? [], judge), who.cart);
    call.reply(200, data, (await counted) ?? []);
  });
}

/**
 * Requires a proof of work for each check from a network that has sent too many unknown codes, while a campaign
 * enforces its rules. This deters guessing, and valid codes are still served.
 * @throws Problem 403 with the challenge
 */
async function requireWork(deps: ValidateDeps, guesser: Guesser, solution: string | null): Promise<void> {
  const { challenges, checkRate, blocklist, policies, unknownCodes } = deps;
  if (policies.enforcing.length === 0 || unknownCodes.waitOf(guesser.network) === 0) return;
  if (guesser.proven || blocklist.bans.isAllowed(guesser)) return;
  checkRate?.add(policies.ofNone, guesser.network);
  const what = { product: '', subject: `user.${guesser.user}`, network: guesser.network };
  if (solution !== null && (await challenges.use(solution, what, randomUUID())) === 'passed') return;
  throw await challenges.demand(what, 'Too many unknown codes were sent from this address.');
}

type Judge = (typed: string) => Promise<{ issued: IssuedCode }>;

/**
 * Judges the first code before the others, so that a caller over the quota costs as much with ten codes as with one.
 * @throws Problem 429 if every code was refused because the network has sent too many unknown ones
 */
async function judgedEach([first = '', ...others]: readonly string[], judge: Judge): Promise<Judged[]> {
  const judged = [await judgedOf(first, judge)];
  judged.push(...(await Promise.all(others.map((typed) => judgedOf(typed, judge)))));
  const refusals = judged.flatMap((one) => ('refusal' in one && one.refusal.status === 429 ? [one.refusal] : []));
  if (refusals[0] && refusals.length === judged.length) throw refusals[0];
  return judged;
}

async function judgedOf(typed: string, judge: Judge): Promise<Judged> {
  try {
    return { typed, issued: (await judge(typed)).issued };
  } catch (refusal) {
    if (refusal instanceof Problem && isOfThisCode(refusal)) return { typed, refusal };
    throw refusal;
  }
}

/** Whether a refusal concerns only its code, so that other codes of the same call may still be valid. */
const isOfThisCode = ({ status, extras }: Problem): boolean =>
  status === 429 ? extras.members?.policy === UNKNOWN_CODES : status < 500 && !('challenge' in (extras.members ?? {}));
