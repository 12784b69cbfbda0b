import type { CampaignLimits, CampaignPolicy } from '../../../shared/domain/campaign-policy.js';
import type { DeviceId, IdempotencyKey, ProductId, UserId } from '../../../shared/domain/ids.js';
import { Problem } from '../../../shared/errors/catalogue.js';
import type { GenuineToken } from '../attestation/attestation.js';
import type { Challenges } from '../attestation/challenges.js';
import type { PlatformAttestation } from '../attestation/platform-proof.js';
import { LocalQuota } from '../limits/local-quota.js';
import type { CampaignLimit } from '../limits/quotas.js';
import type { Bans } from './bans.js';
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
  platform: PlatformAttestation;
  /** Whether an idempotency record exists for a key. Called only if a request would be refused. */
  remembers: (product: ProductId, user: UserId, key: IdempotencyKey) => Promise<boolean>;
  addressLimits: { checkout: AddressLimit; redeem: AddressLimit };
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
    return this.#judge(request, 'checkout');
  }

  /** Decides about a redemption, as `checkout` with the limit for codes. */
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

  /** Admits a replay, whatever a new request would need now. */
  async #unlessReplay(judged: Promise<void>, request: RiskGateRequest): Promise<void> {
    try {
      await judged;
    } catch (error) {
      if (
        !(error instanceof Problem) ||
        !(await this.deps.remembers(request.policy.product as ProductId, request.user, request.key))
      )
        throw error;
    }
  }

  /** Records that the request got a unit or a place. */
  promised({ policy, device, user }: Pick<RiskGateRequest, 'policy' | 'device' | 'user'>): void {
    if (policy.risk === 'observe' && device !== null) this.deps.risk.promised(device, user);
  }

  /** Uncounts a replay, which does not count against its address. */
  replayed({ policy, network }: Pick<RiskGateRequest, 'policy' | 'network'>, call: 'checkout' | 'redeem'): void {
    if (policy.risk !== 'enforce') return;
    const { quota, limitOf } = this.deps.addressLimits[call];
    quota.of(limitOf(policy.limits)).giveBack(network);
  }

  async #enforce(request: RiskGateRequest, limit: AddressLimit): Promise<void> {
    const isOver = await this.#isAddressOver(request, limit);
    await this.#enter(request, isOver ? limit.why : null);
    // Uncounts this call and the one that received the challenge.
    if (isOver) limit.quota.of(limit.limitOf(request.policy.limits)).giveBack(request.network, 2);
  }

  async #enter(request: RiskGateRequest, why: string | null): Promise<void> {
    const { policy, solution, use } = request;
    const { challenges, platform, risk } = this.deps;
    const what = { product: policy.product, subject: request.boundTo ?? `user.${request.user}` };
    const isLevelMet = await this.#isLevelMet(request);
    // A proof of work does not replace a token of level 2.
    if (!isLevelMet && policy.limits.attestationLevel === 2)
      throw platform.demand(what, 'This campaign requires a device token that is attested by the platform.');
    let needed = why;
    if (policy.risk === 'enforce' && (await risk.enforce(policy, request)) !== null)
      needed ??= 'This campaign requires a proof of work for this request.';
    if (!isLevelMet) needed ??= 'This campaign requires a proof of work for every request.';
    if (needed === null) return;
    if (solution !== null && (await challenges.use(solution, what, use)) === 'passed') return;
    throw await challenges.demand(what, solution === null ? needed : `The solution is not valid. ${needed}`);
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
