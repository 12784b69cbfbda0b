import type { CodeTexts } from '../../shared/postgres/code-texts.js';
import type { Claim, ClaimLimits, ClaimRequest, HeldUnit } from '../claim/claim.js';

export type Answer = { status: 200 | 202; data: Record<string, unknown> };
export type CheckoutResult = { replayed: boolean; answer: Answer; quotaLeft: number | null };

/** Checkout: a claim by product, told to the shopper. In a pool the winner is handed the next code. */
export class Checkout {
  constructor(
    readonly claim: Claim,
    readonly codes: CodeTexts,
  ) {}

  get limits(): ClaimLimits {
    return this.claim.limits;
  }

  /** @throws Problem for every refusal; EngineUnavailable when Redis did not answer */
  async run(request: ClaimRequest): Promise<CheckoutResult> {
    const { replayed, promise, quotaLeft } = await this.claim.run(request);
    if (promise.kind === 'place') return { replayed, quotaLeft, answer: { status: 202, data: promise.data } };
    const data = completed(promise);
    if (promise.code !== null) data.code = await this.codes.textOf(promise.campaignNo, promise.code);
    return { replayed, quotaLeft, answer: { status: 200, data } };
  }
}

function completed(unit: HeldUnit): Record<string, unknown> {
  return {
    status: 'completed',
    order_id: unit.orderId,
    reservation_id: unit.reservationId,
    pay_before: unit.payBefore,
    ticket: unit.ticket,
    durability: unit.durability,
  };
}
