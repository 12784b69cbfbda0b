import type { CampaignPolicy } from '../../shared/domain/campaign-policy.js';
import type { DeviceId } from '../../shared/domain/ids.js';
import type { GenuineToken } from './attestation.js';
import { type Bans, blocked } from './bans.js';
import type { Challenges } from './challenges.js';
import { LocalQuota } from './local-quota.js';
import type { PlatformAttestation } from './platform-proof.js';
import type { CampaignQuota } from './quotas.js';
import type { Risk, RiskSubject } from './risk.js';

export type EntryRequest = RiskSubject & {
  policy: CampaignPolicy;
  /** Named or derived: what a challenge is bound to. null = there is none, so it is bound to the user. */
  boundTo: DeviceId | null;
  /** That came with it; null = none did. */
  token: GenuineToken | null;
  /** as it was sent; null = none */
  solution: string | null;
  /** What a solution is used for: a repetition of the same request may use it again. */
  use: string;
};

export type EntryParts = {
  risk: Risk;
  bans: Bans;
  challenges: Challenges;
  platform: PlatformAttestation;
  redeemsPerAddress: CampaignQuota;
  nowMs: () => number;
  limits: { addressPatience: number; addressBanMs: number; callersKept: number };
};

/** A token that was worked or vouched for serves one user: longer than it can be shown. */
const PROVEN_TOKEN_MS = 180_000;

/**
 * Who may try to take something of a campaign. Where its policy does not enforce anything this is some look-ups in memory;
 * otherwise what is needed is found out first, and then one solved challenge serves all of it.
 */
export class Entry {
  readonly #observed: LocalQuota;

  constructor(readonly parts: EntryParts) {
    this.#observed = new LocalQuota(Number.MAX_SAFE_INTEGER, 60_000, parts.limits.callersKept);
  }

  /** @returns null when there is nothing to wait for. @throws Problem 403; EngineUnavailable */
  checkout(request: EntryRequest): Promise<void> | null {
    const { policy } = request;
    if (policy.risk === 'observe') this.parts.risk.observe(policy, request);
    const wanted = policy.limits.attestationLevel ?? 0;
    if (policy.risk !== 'enforce' && wanted === 0) return null;
    return this.#enter(request, null);
  }

  /** The same for codes, where an address has a limit of its own. */
  async redeem(request: EntryRequest): Promise<void> {
    const { policy } = request;
    if (policy.risk === 'observe') this.parts.risk.observe(policy, request);
    if (policy.risk === 'observe') this.#observeAddress(request);
    const isOver = policy.risk === 'enforce' && (await this.#isAddressOver(request));
    if (policy.risk !== 'enforce' && (policy.limits.attestationLevel ?? 0) === 0) return;
    await this.#enter(request, isOver ? 'Many codes have been tried from this address.' : null);
    // This call and the one that was answered with the challenge.
    if (isOver) this.parts.redeemsPerAddress.of(policy.limits.redeemPerMinutePerAddress).giveBack(request.network, 2);
  }

  async #enter(request: EntryRequest, why: string | null): Promise<void> {
    const { policy, solution, use } = request;
    const { challenges, platform, risk } = this.parts;
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
  async #isLevelMet({ policy, token, user }: EntryRequest): Promise<boolean> {
    const wanted = policy.limits.attestationLevel ?? 0;
    if (wanted === 0) return true;
    if (token === null || token.level < wanted) return false;
    return this.parts.challenges.claim(`t:${token.id}`, user, PROVEN_TOKEN_MS);
  }

  /** Behind one address may be a city: it is asked for work first, and blocked only when it goes on without. */
  async #isAddressOver(request: EntryRequest): Promise<boolean> {
    const { bans, redeemsPerAddress, risk, limits, nowMs } = this.parts;
    const { policy, network } = request;
    if (bans.isAllowed(request)) return false;
    const quota = redeemsPerAddress.of(policy.limits.redeemPerMinutePerAddress);
    const count = await quota.count(network);
    const limit = policy.limits.redeemPerMinutePerAddress ?? redeemsPerAddress.limit;
    if (count <= limit) return false;
    quota.onLimited(redeemsPerAddress.name);
    if (count <= quota.limit) {
      risk.parts.onVerdict('redeem_per_address', 'challenge', 'enforce');
      return true;
    }
    risk.parts.onVerdict('redeem_per_address', 'block', 'enforce');
    await bans
      .byRule('network', network, limits.addressBanMs, `${quota.limit} redemptions in a minute`, 'redeem_per_address')
      .catch(() => null);
    throw blocked('network', nowMs() + limits.addressBanMs, nowMs());
  }

  #observeAddress({ policy, network }: EntryRequest): void {
    const { redeemsPerAddress, risk } = this.parts;
    const limit = policy.limits.redeemPerMinutePerAddress ?? redeemsPerAddress.limit;
    if (this.#observed.count(network) <= limit) return;
    redeemsPerAddress.of(policy.limits.redeemPerMinutePerAddress).onLimited(redeemsPerAddress.name);
    risk.parts.onVerdict('redeem_per_address', 'challenge', 'observe');
  }
}
