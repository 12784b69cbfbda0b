import { type CampaignLimits, type CampaignPolicy, enforces } from '../../../shared/domain/campaign-policy.js';
import type { DeviceId, IdempotencyKey, ProductId, UserId } from '../../../shared/domain/ids.js';
import { Problem } from '../../../shared/errors/catalogue.js';
import type { GenuineToken } from '../attestation/attestation.js';
import type { ChallengeFor, Challenges } from '../attestation/challenges.js';
import { HumanChallenges } from '../attestation/human-challenges.js';
import type { PlatformAttestation } from '../attestation/platform-proof.js';
import { LocalQuota } from '../limits/local-quota.js';
import type { CampaignLimit } from '../limits/quotas.js';
import type { TokenBucket } from '../limits/token-bucket.js';
import type { AddressBlocks, CountedClaim } from './address-blocks.js';
import { type Bans, blocked } from './bans.js';
import { callerOf } from './failed-attempt-limiter.js';
import type { AddressRule, Risk, RiskSubject } from './risk.js';

export type RiskGateRequest = RiskSubject & {
  policy: CampaignPolicy;
  /** Device, named or derived, that a challenge is bound to; null = none, so the challenge is bound to the user. */
  boundTo: DeviceId | null;
  /** Device token of the request; null = none. */
  token: GenuineToken | null;
  /** Solution of a challenge, as sent; null = none */
  solution: string | null;
  /** Identifies the use of a solution, so that a retry of the same request can use it again. */
  use: string;
  key: IdempotencyKey;
};

export type RiskGateDeps = {
  risk: Risk;
  bans: Bans;
  challenges: Challenges;
  /** null = no provider of challenges that a person solves is configured */
  human: HumanChallenges | null;
  platform: PlatformAttestation;
  /** Whether an idempotency record exists for a key. Called only if a request would be refused. */
  remembers: (product: ProductId, user: UserId, key: IdempotencyKey) => Promise<boolean>;
  addressLimits: { checkout: AddressLimit; redeem: AddressLimit };
  /** Of campaigns with `risk: strict`. */
  addressBlocks: AddressBlocks;
  /** Checkouts of a user, only if a campaign limits them. */
  checkoutsPerUser: CampaignLimit<TokenBucket>;
  nowMs: () => number;
  limits: { callersKept: number };
};

/**
 * Limit of calls from one network per minute. Each call above it needs a solved challenge. It never leads to a ban,
 * because other users share the address.
 */
export type AddressLimit = {
  rule: AddressRule;
  /** Its `limit` is the default. */
  quota: CampaignLimit;
  /** Returns the limit that a campaign sets; undefined = the default applies. */
  limitOf: (limits: CampaignLimits) => number | undefined;
  /** Reason of the challenge, for the caller. */
  why: string;
};

/** Whether a policy admits every request, without a count. */
export function admitsAll({ risk, limits }: CampaignPolicy): boolean {
  return risk === 'off' && !limits.attestationLevel && !limits.identityLevel && !limits.checkoutPerMinutePerUser;
}

/** What a challenge for a request is good for. */
function purposeOf({ policy, boundTo, user }: RiskGateRequest): ChallengeFor {
  return { product: policy.product, subject: boundTo ?? `user.${user}` };
}

/** How long a token of level 1 or 2 is bound to its user: longer than the token is valid. */
const PROVEN_TOKEN_MS = 180_000;

/**
 * Decides whether a request may claim a unit or a place of a campaign. If the policy enforces nothing, the decision
 * takes a few look-ups in memory. Otherwise it collects all requirements first; one solved challenge satisfies all of
 * them.
 */
export class RiskGate {
  /** Calls by network in campaigns that only observe the limits of addresses. */
  readonly #observed: Readonly<Record<'checkout' | 'redeem', LocalQuota>>;
  /** How to give back what a request has used up of the limits that count it, in case it is a replay. */
  readonly #used = new WeakMap<RiskGateRequest, (() => void)[]>();

  constructor(readonly deps: RiskGateDeps) {
    const counter = () => new LocalQuota(Number.MAX_SAFE_INTEGER, 60_000, deps.limits.callersKept);
    this.#observed = { checkout: counter(), redeem: counter() };
  }

  /**
   * Decides about a checkout.
   * @returns null = admitted without waiting
   * @throws Problem 403 · EngineUnavailable
   */
  checkout(request: RiskGateRequest): Promise<void> | null {
    const { checkoutPerMinutePerUser: most } = request.policy.limits;
    if (most === undefined) return this.#judge(request, 'checkout');
    return this.#unlessReplay(this.#perUser(request, most), request);
  }

  async #perUser(request: RiskGateRequest, most: number): Promise<void> {
    const [bucket, caller] = [this.deps.checkoutsPerUser.of(most), callerOf({ ...request, ...request.identity })];
    await bucket.take(caller);
    let isTaken = true;
    const giveBack = () => {
      if (isTaken) bucket.giveBack(caller);
      isTaken = false;
    };
    this.#uses(request, giveBack);
    // Gives back that of the call which received the challenge.
    if (await this.#decide(request, 'checkout')) giveBack();
  }

  /** Decides about a redemption, as `checkout` with the limit for codes. */
  redeem(request: RiskGateRequest): Promise<void> | null {
    return this.#judge(request, 'redeem');
  }

  #judge(request: RiskGateRequest, call: 'checkout' | 'redeem'): Promise<void> | null {
    const decided = this.#decide(request, call);
    return decided && this.#unlessReplay(decided, request);
  }

  /** @returns null = admitted without waiting; else whether the request has brought a solution that was needed */
  #decide(request: RiskGateRequest, call: 'checkout' | 'redeem'): Promise<boolean> | null {
    const { policy } = request;
    if (policy.risk === 'strict') return this.#beStrict(request, this.deps.addressLimits[call]);
    if (policy.risk === 'enforce') return this.#enforce(request, this.deps.addressLimits[call]);
    let why: string | null = null;
    if (policy.risk === 'observe') {
      why = this.deps.risk.observe(policy, request);
      this.#observeAddress(request, call);
    }
    return why !== null || policy.limits.attestationLevel || policy.limits.identityLevel
      ? this.#enter(request, why)
      : null;
  }

  /** Admits a replay, whatever a new request would need now. */
  async #unlessReplay(decided: Promise<unknown>, request: RiskGateRequest): Promise<void> {
    try {
      await decided;
    } catch (error) {
      if (!(error instanceof Problem) || !(await this.#isReplay(request))) throw error;
    }
  }

  #isReplay({ policy, user, key }: RiskGateRequest): Promise<boolean> {
    return this.deps.remembers(policy.product as ProductId, user, key);
  }

  /** Records that the request got a unit or a place. */
  promised({ policy, device, user }: Pick<RiskGateRequest, 'policy' | 'device' | 'user'>): void {
    if (policy.risk === 'observe' && device !== null) this.deps.risk.promised(device, user);
  }

  /** Uncounts a replay, which does not count against its user and address. */
  replayed(request: RiskGateRequest): void {
    for (const giveBack of this.#used.get(request) ?? []) giveBack();
  }

  #uses(request: RiskGateRequest, giveBack: () => void): void {
    this.#used.set(request, [...(this.#used.get(request) ?? []), giveBack]);
  }

  async #enforce(request: RiskGateRequest, limit: AddressLimit): Promise<boolean> {
    const isOver = await this.#isAddressOver(request, limit);
    const isSolved = await this.#enter(request, isOver ? limit.why : null);
    // Uncounts this call and the one that received the challenge.
    if (isOver) limit.quota.of(limit.limitOf(request.policy.limits)).giveBack(request.network, 2);
    return isSolved;
  }

  async #beStrict(request: RiskGateRequest, limit: AddressLimit): Promise<boolean> {
    const counted = await this.#countAddress(request);
    const isSolved = counted !== null && (await this.#admitAddress(request, limit, counted));
    const isSolvedNow = await this.#enter(request, null, isSolved);
    // Uncounts the call that received the challenge.
    if (isSolvedNow) counted?.giveBack();
    return isSolved || isSolvedNow;
  }

  /**
   * @param why a challenge is needed in any case; null = it is not
   * @param isSolved whether the request has brought a solution that was accepted already
   * @returns whether the request has brought one that was needed here
   */
  async #enter(request: RiskGateRequest, why: string | null, isSolved = false): Promise<boolean> {
    const { policy, solution, use, identity } = request;
    const { challenges, human, platform, risk } = this.deps;
    if (identity.level < (policy.limits.identityLevel ?? 0))
      throw new Problem('verification_required', 'This campaign is for persons whom the shop has verified.');
    const what = purposeOf(request);
    const isLevelMet = await this.#isLevelMet(request);
    // A proof of work does not replace a token of level 2.
    if (!isLevelMet && policy.limits.attestationLevel === 2)
      throw platform.demand(what, 'This campaign requires a device token that is attested by the platform.');
    let needed = why;
    const work = enforces(policy.risk) ? await risk.enforce(policy, request) : null;
    if (work) needed ??= 'This campaign requires a proof of work for this request.';
    if (!isLevelMet) needed ??= 'This campaign requires a proof of work for every request.';
    if (needed === null || isSolved) return false;
    if (human && work?.byPerson) {
      await this.#requirePerson(human, request, needed);
      return true;
    }
    if (human && solution !== null && HumanChallenges.isSolution(solution)) {
      if ((await human.use(solution, what, use, request.network)) === 'passed') return true;
    } else if (solution !== null && (await challenges.use(solution, what, use)) === 'passed') return true;
    throw await challenges.demand(
      what,
      solution === null ? needed : `The solution is not valid. ${needed}`,
      work?.isHard,
    );
  }

  /** Whether the token has the level of the campaign. A token of level 1 or 2 is valid for one user only. */
  async #isLevelMet({ policy, token, user }: RiskGateRequest): Promise<boolean> {
    const wanted = policy.limits.attestationLevel ?? 0;
    if (wanted === 0) return true;
    if (token === null || token.level < wanted) return false;
    return this.deps.challenges.claim(`t:${token.id}`, user, PROVEN_TOKEN_MS);
  }

  /**
   * Counts a call of an address and returns whether it is over the limit. A whole city may share an address, so a call
   * over the limit needs a proof of work and is accepted with one.
   */
  async #isAddressOver(request: RiskGateRequest, { rule, quota, limitOf }: AddressLimit): Promise<boolean> {
    const { bans, risk } = this.deps;
    const { policy, network } = request;
    if (bans.isAllowed(request)) return false;
    const wanted = limitOf(policy.limits);
    const counter = quota.of(wanted);
    const count = await counter.count(network);
    if (Number.isFinite(count)) this.#uses(request, () => counter.giveBack(network));
    if (count <= (wanted ?? quota.limit)) return false;
    counter.onLimited(quota.name);
    risk.deps.onVerdict(rule, 'challenge', 'enforce');
    return true;
  }

  /**
   * Counts a claim of an address in a strict campaign.
   * @returns null = the caller proves to be a user, or an operator has allowed them: who shares their address would pay
   * for a count
   */
  async #countAddress(request: RiskGateRequest): Promise<CountedClaim | null> {
    const { policy, network, identity } = request;
    if (identity.proven || this.deps.bans.isAllowed(request)) return null;
    const counted = await this.deps.addressBlocks.count(policy.product, network);
    this.#uses(request, counted.giveBack);
    return counted;
  }

  /**
   * Blocks the address if it has sent too many claims in this minute. A replay does not have it blocked.
   * @returns whether it is blocked and a person has solved a challenge
   * @throws Problem 403 if the address is blocked · EngineUnavailable
   */
  async #admitAddress(request: RiskGateRequest, limit: AddressLimit, counted: CountedClaim): Promise<boolean> {
    const { risk, addressBlocks, human, nowMs } = this.deps;
    const { policy, network } = request;
    let { blockedMs } = counted;
    if (blockedMs === 0) {
      const isOver = counted.inMinute > (limit.limitOf(policy.limits) ?? limit.quota.limit);
      if (!isOver || (await this.#isReplay(request))) return false;
      blockedMs = await addressBlocks.block(policy.product, network);
    }
    risk.deps.onVerdict(limit.rule, 'block', 'strict');
    if (!human) throw blocked('network', nowMs() + blockedMs, nowMs());
    await this.#requirePerson(human, request, limit.why);
    return true;
  }

  /** Requires a challenge that a person solves; while its provider does not respond, a proof of work instead. */
  async #requirePerson(human: HumanChallenges, request: RiskGateRequest, why: string): Promise<void> {
    const { solution, use, network } = request;
    const { challenges } = this.deps;
    const what = purposeOf(request);
    // No device or user has this name: only this server asks for such work, if the provider did not respond.
    const instead = { ...what, subject: `instead|${what.subject}` };
    if (solution === null) throw human.demand(what, why);
    if (!HumanChallenges.isSolution(solution)) {
      if ((await challenges.use(solution, instead, use)) === 'passed') return;
      throw human.demand(what, why);
    }
    const outcome = await human.use(solution, what, use, network);
    if (outcome === 'passed') return;
    if (outcome === 'failed') throw human.demand(what, `The solution is not valid. ${why}`);
    throw await challenges.demand(instead, `The challenge for persons does not work now. ${why}`, true);
  }

  #observeAddress({ policy, network }: RiskGateRequest, call: 'checkout' | 'redeem'): void {
    const { rule, quota, limitOf } = this.deps.addressLimits[call];
    const wanted = limitOf(policy.limits);
    if (this.#observed[call].count(network) <= (wanted ?? quota.limit)) return;
    quota.of(wanted).onLimited(quota.name);
    this.deps.risk.deps.onVerdict(rule, 'challenge', 'observe');
  }
}
