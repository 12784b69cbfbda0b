import type { Attributes } from '../../shared/domain/audience.js';
import type { CampaignPolicy } from '../../shared/domain/campaign-policy.js';
import type { ClaimRequest } from '../../shared/sale/reserve-input.js';
import type { Claim, ClaimLimits, ClaimResult, HeldUnit } from '../claim/claim.js';
import type { CodeTexts } from '../claim/code-texts.js';
import { type JudgedTerms, judgedClaim } from '../claim/judged-claim.js';
import type { PayLinks } from '../claim/pay-links.js';
import type { Claimed } from '../claim/send-claim.js';
import type { TermsCache } from '../claim/terms-cache.js';
import type { CompletedData } from './checkout.contract.js';

export type CheckoutResult = Claimed<{ status: 200; data: CompletedData }>;

/** Terms of a campaign without an audience. The script checks that it still has none. */
const NO_AUDIENCE: JudgedTerms = { version: 0, audience: null };

/** Checkout: a claim by product. In a pool campaign, the unit comes with the next code. */
export class Checkout {
  constructor(
    readonly claim: Claim,
    readonly codes: CodeTexts,
    readonly terms: Pick<TermsCache, 'inForce'>,
    readonly links: PayLinks,
  ) {}

  get limits(): ClaimLimits {
    return this.claim.limits;
  }

  /**
   * @param policy cached policy of the campaign; the script rejects an outdated one
   * @param attributes attributes of the user, for the campaign's audience
   * @throws Problem for every refusal · EngineUnavailable if Redis or Postgres is unavailable
   */
  async run(request: ClaimRequest, policy: CampaignPolicy, attributes: Attributes): Promise<CheckoutResult> {
    const { replayed, promise, quotaLeft } = await this.#claim(request, policy, attributes);
    if (promise.kind === 'place') return { replayed, quotaLeft, answer: { status: 202, data: promise.data } };
    const data = completed(promise);
    if (promise.linkMark !== '') {
      const { reservationId, orderId, expiresAtMs } = promise;
      const unit = {
        product: request.product,
        user: request.user,
        qty: request.qty,
        reservationId,
        orderId,
        expiresAtMs,
      };
      const link = await this.links.markedLinkOf(unit, promise.linkMark);
      if (link !== null) data.checkout_url = link;
    }
    if (promise.code !== null) data.code = await this.codes.textOf(promise.campaignNo, promise.code);
    return { replayed, quotaLeft, answer: { status: 200, data } };
  }

  #claim(request: ClaimRequest, policy: CampaignPolicy, attributes: Attributes): Promise<ClaimResult> {
    return judgedClaim<JudgedTerms, ClaimResult>(
      policy.audience === null ? NO_AUDIENCE : policy,
      attributes,
      async (version, before) => (await this.terms.inForce(request.product, version)) ?? before,
      (_, judged) => this.claim.run(request, judged, this.links.markOf(request.product)),
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
