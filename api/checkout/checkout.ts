import type { Attributes } from '../../shared/domain/audience.js';
import type { CampaignPolicy } from '../../shared/domain/campaign-policy.js';
import type { Claim, ClaimLimits, ClaimRequest, ClaimResult, HeldUnit } from '../claim/claim.js';
import type { CodeTexts } from '../claim/code-texts.js';
import { type JudgedTerms, judgedClaim } from '../claim/judged-claim.js';
import type { Claimed } from '../claim/send-claim.js';
import type { TermsCache } from '../claim/terms-cache.js';
import type { CompletedData } from './checkout.contract.js';

export type CheckoutResult = Claimed<{ status: 200; data: CompletedData }>;

/** Without an audience there is nothing to judge: the script confirms that it is so. */
const NO_AUDIENCE: JudgedTerms = { version: 0, audience: null };

/** Checkout: a claim by product, told to the shopper. In a pool the winner is handed the next code. */
export class Checkout {
  constructor(
    readonly claim: Claim,
    readonly codes: CodeTexts,
    readonly terms: Pick<TermsCache, 'inForce'>,
  ) {}

  get limits(): ClaimLimits {
    return this.claim.limits;
  }

  /**
   * @param policy what this process knows of the campaign; the script refuses it when it is out of date
   * @param attributes of the user, for the campaign's audience
   * @throws Problem for every refusal; EngineUnavailable when an engine that is needed did not answer
   */
  async run(request: ClaimRequest, policy: CampaignPolicy, attributes: Attributes): Promise<CheckoutResult> {
    const { replayed, promise, quotaLeft } = await this.#claim(request, policy, attributes);
    if (promise.kind === 'place') return { replayed, quotaLeft, answer: { status: 202, data: promise.data } };
    const data = completed(promise);
    if (promise.code !== null) data.code = await this.codes.textOf(promise.campaignNo, promise.code);
    return { replayed, quotaLeft, answer: { status: 200, data } };
  }

  #claim(request: ClaimRequest, policy: CampaignPolicy, attributes: Attributes): Promise<ClaimResult> {
    return judgedClaim<JudgedTerms, ClaimResult>(
      policy.audience === null ? NO_AUDIENCE : policy,
      attributes,
      async (version, before) => (await this.terms.inForce(request.product, version)) ?? before,
      (_, judged) => this.claim.run(request, judged),
    );
  }
}

function completed(unit: HeldUnit): CompletedData {
  return {
    status: 'completed',
    order_id: unit.orderId,
    reservation_id: unit.reservationId,
    pay_before: unit.payBefore,
    ticket: unit.ticket,
    durability: unit.durability,
  };
}
