import type { CampaignLimits, CampaignPolicy } from '../../../shared/domain/campaign-policy.js';
import type { DeviceId, IdempotencyKey, UserId } from '../../../shared/domain/ids.js';
import { Problem } from '../../../shared/errors/catalogue.js';
import type { GenuineToken } from '../attestation/attestation.js';
import type { Challenges } from '../attestation/challenges.js';
import type { PlatformAttestation } from '../attestation/platform-proof.js';
import { LocalQuota } from '../limits/local-quota.js';
import type { CampaignQuota } from '../limits/quotas.js';
import type { Bans } from './bans.js';
import type { AddressRule, Risk, RiskSubject } from './risk.js';

export type RiskGateRequest = RiskSubject & {
  policy: CampaignPolicy;
  /** Named or derived: what a challenge is bound to. null = there is none, so it is bound to the user. */
  boundTo: DeviceId | null;
  /** That came with it; null = none did. */
  token: GenuineToken | null;
  /** as it was sent; null = none */
  solution: string | null;
  /** What a solution is used for: a repetition of the same request may use it again. */
  use: string;
  key: IdempotencyKey;
};

export type RiskGateDeps = {
  risk: Risk;
  bans: Bans;
  challenges: Challenges;
  platform: PlatformAttestation;
  /** Whether the response to a key is remembered; asked only when a request would be refused. */
  remembers: (user: UserId, key: IdempotencyKey) => Promise<boolean>;
  addressLimits: { checkout: AddressLimit; redeem: AddressLimit };
  nowMs: () => number;
  limits: { callersKept: number };
};

/** Calls from one network in a minute, beyond which each needs a solved challenge. No ban follows: others are behind the address too. */
export type AddressLimit = {
  rule: AddressRule;
  /** Its `limit` is the default one. */
  quota: CampaignQuota;
  /** What a campaign says instead of the default. */
  limitOf: (limits: CampaignLimits) => number | undefined;
  /** The challenge's reason, for the caller. */
  why: string;
};

/** A token that was worked or vouched for serves one user: longer than it can be shown. */
const PROVEN_TOKEN_MS = 180_000;

/**
 * Who may try to take something of a campaign. Where its policy does not enforce anything this is some look-ups in memory;
 * otherwise what is needed is found out first, and then one solved challenge serves all of it.
 */
export class RiskGate {
  /** Calls by network, where the limit of an address only observes. */
  readonly #observed: Readonly<Record<'checkout' | 'redeem', LocalQuota>>;

  constructor(readonly deps: RiskGateDeps) {
    const counter = () => new LocalQuota(Number.MAX_SAFE_INTEGER, 60_000, deps.limits.callersKept);
    this.#observed = { checkout: counter(), redeem: counter() };
  }

  /** @returns null when there is nothing to wait for. @throws Problem 403; EngineUnavailable */
  checkout(request: RiskGateRequest): Promise<void> | null {
    return this.#judge(request, 'checkout');
  }

  /** The same for codes, of which an address may try fewer. */
  redeem(request: RiskGateRequest): Promise<void> | null {
    return this.#judge(request, 'redeem');
  }

  #judge(request: RiskGateRequest, call: 'checkout' | 'redeem'): Promise<void> | null {
    const { policy } = request;
    if (policy.risk === 'enforce')
      return this.#unlessReplay(this.#enforce(request, this.deps.addressLimits[call]), request);
    let why: string | null = null;
    if (policy.risk === 'observe') {
      why = this.deps.risk.observe(policy, request);
      this.#observeAddress(request, call);
    }
    return why !== null || policy.limits.attestationLevel
      ? this.#unlessReplay(this.#enter(request, why), request)
      : null;
  }

  /** A repetition is answered with the first response, whatever a new request would need now. */
  async #unlessReplay(judged: Promise<void>, request: RiskGateRequest): Promise<void> {
    try {
      await judged;
    } catch (error) {
      if (!(error instanceof Problem) || !(await this.deps.remembers(request.user, request.key))) throw error;
    }
  }

  /** The request was promised a unit or a place. */
  promised({ policy, device, user }: Pick<RiskGateRequest, 'policy' | 'device' | 'user'>): void {
    if (policy.risk === 'observe' && device !== null) this.deps.risk.promised(device, user);
  }

  /** The request was a repetition, which does not count against its address. */
  replayed({ policy, network }: Pick<RiskGateRequest, 'policy' | 'network'>, call: 'checkout' | 'redeem'): void {
    if (policy.risk !== 'enforce') return;
    const { quota, limitOf } = this.deps.addressLimits[call];
    quota.of(limitOf(policy.limits)).giveBack(network);
  }

  async #enforce(request: RiskGateRequest, limit: AddressLimit): Promise<void> {
    const isOver = await this.#isAddressOver(request, limit);
    await this.#enter(request, isOver ? limit.why : null);
    // This call and the one that was answered with the challenge.
    if (isOver) limit.quota.of(limit.limitOf(request.policy.limits)).giveBack(request.network, 2);
  }

  async #enter(request: RiskGateRequest, why: string | null): Promise<void> {
    const { policy, solution, use } = request;
    const { challenges, platform, risk } = this.deps;
    const what = { product: policy.product, subject: request.boundTo ?? `user.${request.user}` };
    const isLevelMet = await this.#isLevelMet(request);
    // No work makes up for it.
    if (!isLevelMet && policy.limits.attestationLevel === 2)
      throw platform.demand(what, 'This campaign wants a token that the platform vouches for.');
    let needed = why;
    if (policy.risk === 'enforce' && (await risk.enforce(policy, request)) !== null)
      needed ??= 'This campaign wants a proof of work of you.';
    if (!isLevelMet) needed ??= 'This campaign wants a proof of work of everybody.';
    if (needed === null) return;
    if (solution !== null && (await challenges.use(solution, what, use)) === 'passed') return;
    throw await challenges.demand(what, solution === null ? needed : `The solution is not valid. ${needed}`);
  }

  /** A token that was worked or vouched for serves one user. */
  async #isLevelMet({ policy, token, user }: RiskGateRequest): Promise<boolean> {
    const wanted = policy.limits.attestationLevel ?? 0;
    if (wanted === 0) return true;
    if (token === null || token.level < wanted) return false;
    return this.deps.challenges.claim(`t:${token.id}`, user, PROVEN_TOKEN_MS);
  }

  /** Behind one address may be a city: beyond the limit each call needs work, and none is refused that brings it. */
  async #isAddressOver(request: RiskGateRequest, { rule, quota, limitOf }: AddressLimit): Promise<boolean> {
    const { bans, risk } = this.deps;
    const { policy, network } = request;
    if (bans.isAllowed(request)) return false;
    const wanted = limitOf(policy.limits);
    const counter = quota.of(wanted);
    if ((await counter.count(network)) <= (wanted ?? quota.limit)) return false;
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
