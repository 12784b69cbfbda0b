import { type CampaignPolicy, enforces } from '../../../shared/domain/campaign-policy.js';
import type { IdempotencyKey, ProductId, UserId } from '../../../shared/domain/ids.js';
import { Problem } from '../../../shared/errors/catalogue.js';
import type { Challenges } from '../attestation/challenges.js';
import { HumanChallenges, type HumanOutcome } from '../attestation/human-challenges.js';
import type { PlatformAttestation } from '../attestation/platform-proof.js';
import { LocalQuota } from '../limits/local-quota.js';
import { once } from '../limits/once.js';
import type { CampaignLimit } from '../limits/quotas.js';
import type { TokenBucket } from '../limits/token-bucket.js';
import type { AttemptRate } from './attempt-rate.js';
import type { Bans } from './bans.js';
import { callerOf } from './failed-attempt-limiter.js';
import type { Accepted, PersonCheck } from './person-check.js';
import { requireOfPerson, requiresOfEvery } from './requirements.js';
import type { Risk } from './risk.js';
import { type AddressLimit, purposeOf, type RiskGateRequest } from './risk-request.js';
import type { StrictAddresses } from './strict-addresses.js';

export type RiskGateDeps = {
  risk: Risk;
  bans: Bans;
  challenges: Challenges;
  /** null = no provider of challenges that a person solves is configured */
  person: PersonCheck | null;
  platform: PlatformAttestation;
  /** Whether an idempotency record exists for a key. Called only if a request would be refused. */
  remembers: (product: ProductId, user: UserId, key: IdempotencyKey) => Promise<boolean>;
  attempts: Pick<AttemptRate, 'isSurging'>;
  addressLimits: { checkout: AddressLimit; redeem: AddressLimit };
  /** Of campaigns with `risk: strict`. */
  strictAddresses: StrictAddresses;
  /** Checkouts of a user, only if a campaign limits them. */
  checkoutsPerUser: CampaignLimit<TokenBucket>;
  limits: { callersKept: number };
};

/** Whether a policy admits every request, without a count. */
export function admitsAll({ risk, limits }: CampaignPolicy): boolean {
  return risk === 'off' && !requiresOfEvery(limits) && !limits.checkoutPerMinutePerUser;
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
    const giveBack = once(() => bucket.giveBack(caller));
    this.#uses(request, giveBack);
    // Gives back that of the call which received the challenge. A repetition gives nothing back: it would be free.
    if ((await this.#decide(request, 'checkout')) === 'passed') giveBack();
  }

  /** Decides about a redemption, as `checkout` with the limit for codes. */
  redeem(request: RiskGateRequest): Promise<void> | null {
    return this.#judge(request, 'redeem');
  }

  #judge(request: RiskGateRequest, call: 'checkout' | 'redeem'): Promise<void> | null {
    const decided = this.#decide(request, call);
    return decided && this.#unlessReplay(decided, request);
  }

  /** @returns null = admitted without waiting; else how a solution that was needed was accepted */
  #decide(request: RiskGateRequest, call: 'checkout' | 'redeem'): Promise<Accepted | null> | null {
    const { policy } = request;
    if (policy.risk === 'strict') return this.#beStrict(request, this.deps.addressLimits[call]);
    if (policy.risk === 'enforce') return this.#enforce(request, this.deps.addressLimits[call]);
    let why: string | null = null;
    if (policy.risk === 'observe') {
      why = this.deps.risk.observe(policy, request);
      this.#observeAddress(request, call);
    }
    return why !== null || requiresOfEvery(policy.limits) ? this.#enter(request, why) : null;
  }

  /** Admits a replay, whatever a new request would need now. */
  async #unlessReplay(decided: Promise<unknown>, request: RiskGateRequest): Promise<void> {
    try {
      await decided;
    } catch (error) {
      if (!(error instanceof Problem) || !(await this.#isReplay(request))) throw error;
    }
  }

  #isReplay({ product, user, key }: RiskGateRequest): Promise<boolean> {
    return this.deps.remembers(product, user, key);
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

  async #enforce(request: RiskGateRequest, limit: AddressLimit): Promise<Accepted | null> {
    const isOver = await this.#isAddressOver(request, limit);
    const accepted = await this.#enter(request, isOver ? limit.why : null);
    // Uncounts this call and the one that received the challenge. A repetition uncounts nothing.
    if (isOver && accepted === 'passed')
      limit.quota.of(limit.limitOf(request.policy.limits)).giveBack(request.network, 2);
    return accepted;
  }

  async #beStrict(request: RiskGateRequest, limit: AddressLimit): Promise<Accepted | null> {
    const { strictAddresses } = this.deps;
    const counted = await strictAddresses.count(request);
    if (counted) this.#uses(request, counted.giveBack);
    const isReplay = () => this.#isReplay(request);
    const before = counted && (await strictAddresses.admit(request, { limit, counted, isReplay }));
    const accepted = await this.#enter(request, null, before);
    // Uncounts the call that received the challenge.
    if (accepted === 'passed') counted?.giveBack();
    return accepted;
  }

  /**
   * @param why a challenge is needed in any case; null = it is not
   * @param before how the solution of the request was accepted already; null = it was not
   * @returns how it was accepted; null = none was needed
   */
  async #enter(request: RiskGateRequest, why: string | null, before: Accepted | null = null): Promise<Accepted | null> {
    const { policy, solution, identity } = request;
    const { challenges, person, platform, risk } = this.deps;
    requireOfPerson(policy, identity);
    const what = purposeOf(request);
    const isLevelMet = await this.#isLevelMet(request);
    // A proof of work does not replace a token of level 2.
    if (!isLevelMet && policy.limits.attestationLevel === 2)
      throw platform.demand(what, 'This campaign requires a device token that is attested by the platform.');
    let needed = why;
    const work = enforces(policy.risk) ? await risk.enforce(policy, request) : null;
    if (work) needed ??= 'This campaign requires a proof of work for this request.';
    if (this.#isSurging(request)) needed ??= 'Very many claims for this campaign are coming in.';
    if (!isLevelMet) needed ??= 'This campaign requires a proof of work for every request.';
    if (needed === null || before !== null) return before;
    if (person && work?.byPerson) return person.require(request, what, needed);
    const outcome = await this.#outcomeOf(request);
    if (outcome === 'passed' || outcome === 'repeated') return outcome;
    throw await challenges.demand(
      what,
      solution === null ? needed : `The solution is not valid. ${needed}`,
      work?.isHard,
    );
  }

  #outcomeOf(request: RiskGateRequest): Promise<HumanOutcome> | null {
    const { solution, use, network } = request;
    const { challenges, person } = this.deps;
    if (solution === null) return null;
    return person && HumanChallenges.isSolution(solution)
      ? person.human.use(solution, purposeOf(request), use, network)
      : challenges.use(solution, purposeOf(request), use);
  }

  /**
   * Whether the campaign is stormed. Work that was done for the token, a proven user or an allowance is enough then.
   * `strict` limits each address itself.
   */
  #isSurging(request: RiskGateRequest): boolean {
    const { policy, network, token, identity } = request;
    // Invented codes and those with uniform refusals share a policy without a product. Networks limit their number.
    if (policy.risk !== 'enforce' || policy.product === '') return false;
    if (identity.proven || (token !== null && token.level > 0)) return false;
    return this.deps.attempts.isSurging(policy, network) && !this.deps.bans.isAllowed(request);
  }

  /** Whether the token has the level of the campaign. A token of level 1 or 2 is valid for one user only. */
  async #isLevelMet({ policy, token, user }: RiskGateRequest): Promise<boolean> {
    const wanted = policy.limits.attestationLevel ?? 0;
    if (wanted === 0) return true;
    if (token === null || token.level < wanted) return false;
    return (await this.deps.challenges.claim(`t:${token.id}`, user, PROVEN_TOKEN_MS)) !== 'taken';
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

  #observeAddress({ policy, network }: RiskGateRequest, call: 'checkout' | 'redeem'): void {
    const { rule, quota, limitOf } = this.deps.addressLimits[call];
    const wanted = limitOf(policy.limits);
    if (this.#observed[call].count(network) <= (wanted ?? quota.limit)) return;
    quota.of(wanted).onLimited(quota.name);
    this.deps.risk.deps.onVerdict(rule, 'challenge', 'observe');
  }
}
