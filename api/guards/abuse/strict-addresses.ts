import type { AddressBlocks, CountedClaim } from './address-blocks.js';
import { type Bans, blocked } from './bans.js';
import type { Accepted, PersonCheck } from './person-check.js';
import type { AddressRule } from './risk.js';
import { type AddressLimit, purposeOf, type RiskGateRequest } from './risk-request.js';

export type StrictAddressesDeps = {
  blocks: AddressBlocks;
  bans: Bans;
  /** null = no provider of challenges that a person solves is configured */
  person: PersonCheck | null;
  onBlocked: (rule: AddressRule) => void;
  nowMs: () => number;
};

/** Blocks addresses with too many claims in a minute, in campaigns with `risk: strict`. */
export class StrictAddresses {
  constructor(readonly deps: StrictAddressesDeps) {}

  /**
   * Counts a claim of an address.
   * @returns null = the caller proves to be a user, or an operator has allowed them: who shares their address would pay
   * for a count
   */
  async count(request: RiskGateRequest): Promise<CountedClaim | null> {
    const { policy, network, identity } = request;
    if (identity.proven || this.deps.bans.isAllowed(request)) return null;
    return this.deps.blocks.count(policy.product, network);
  }

  /**
   * Blocks the address if it has sent too many claims in this minute. A replay does not have it blocked.
   * @returns how a solution was accepted, if the address is blocked; null = it is not
   * @throws Problem 403 if the address is blocked · EngineUnavailable
   */
  async admit(
    request: RiskGateRequest,
    { limit, counted, isReplay }: { limit: AddressLimit; counted: CountedClaim; isReplay: () => Promise<boolean> },
  ): Promise<Accepted | null> {
    const { blocks, person, onBlocked, nowMs } = this.deps;
    const { policy, network } = request;
    let { blockedMs } = counted;
    if (blockedMs === 0) {
      const isOver = counted.inMinute > (limit.limitOf(policy.limits) ?? limit.quota.limit);
      if (!isOver || (await isReplay())) return null;
      blockedMs = await blocks.block(policy.product, network);
    }
    onBlocked(limit.rule);
    if (!person) throw blocked('network', nowMs() + blockedMs, nowMs());
    return person.require(request, purposeOf(request), limit.why);
  }
}
