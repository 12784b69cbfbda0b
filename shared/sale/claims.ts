import { campaignNoOf, type ProductId, type UserId } from '../domain/ids.js';
import type { VelocityVerdict } from '../domain/velocity.js';
import { CallBatcher } from '../redis/call-batcher.js';
import { decodeIdempotencyRecord } from '../redis/idempotency-record.js';
import { saleKeys } from '../redis/keys.js';
import { queuedEntry, repeatedAnswer, reservedEntry } from './checkout-entries.js';
import type { OrderClaims } from './order-claims.js';
import { decided, type Missed } from './recall.js';
import { orderOf, reserveCall } from './reserve-call.js';
import type { ReserveInput } from './reserve-input.js';
import type { SaleCalls } from './sale-calls.js';
import { type CheckRedeemableOutcome, checkRedeemableScript } from './scripts/checkout.js';
import {
  decodeDecisions,
  MAX_REQUESTS,
  type ReserveDecision,
  reserveScript,
  type StoreReserveOutcome,
} from './scripts/reserve.js';

/** Checkouts and redemptions by code. Every method throws EngineUnavailable when Redis cannot be used. */
export class Claims {
  readonly #reservations: CallBatcher<ReserveInput, ReserveDecision>;
  /** Receives the verdicts of the watch over velocity. */
  onVelocity: (product: ProductId, verdict: VelocityVerdict) => void = () => {};

  constructor(
    readonly calls: SaleCalls,
    readonly orders: OrderClaims,
    /** Receives the number of claims of each call. */
    onBatch?: (size: number) => void,
  ) {
    this.#reservations = new CallBatcher({
      maxBatch: MAX_REQUESTS,
      send: (_group, inputs) => this.#reserveAll(inputs),
      ...(onBatch ? { onBatch } : {}),
    });
  }

  /**
   * Decides one claim, in one call with claims of the same campaign that arrive meanwhile. In a divided campaign the
   * decision may not be final (BucketClaims).
   */
  async reserve(input: ReserveInput): Promise<StoreReserveOutcome> {
    let outcome = await this.#reserve(input);
    if (outcome.kind === 'not_combinable') {
      outcome = await this.orders.whileLive(input.claim.user, orderOf(input), outcome, () => this.#reserve(input));
    }
    if (outcome.kind === 'archived') return this.#replayOrEnded(input, outcome);
    if (outcome.kind === 'replayed' || outcome.kind === 'waiting') await this.#rememberAgain(input, outcome);
    else this.#rememberCheckout(input, outcome);
    return outcome;
  }

  #reserve(input: ReserveInput): Promise<ReserveDecision> {
    // One key for all requests of a call: a server that changes its key meanwhile makes two groups.
    return this.#reservations.run(`${input.claim.product} ${input.ticketKey}`, input);
  }

  async #reserveAll(inputs: readonly ReserveInput[]): Promise<readonly (ReserveDecision | Error)[]> {
    const outcome = await this.calls.keep(
      this.calls.scripts.run(reserveScript, reserveCall(inputs, this.calls.limits)),
    );
    if (outcome.kind === 'decided') {
      const decisions = decodeDecisions(outcome.decisions, outcome.lastId, inputs, (verdict) =>
        this.onVelocity((inputs[0] as ReserveInput).claim.product, verdict),
      );
      return decisions.map((one) => this.calls.scripts.located('reserve', one));
    }
    return inputs.map(() => ({ kind: outcome.kind }));
  }

  /** Checks whether a user could redeem a code now. @param code number of the code; 0 = the campaign's only code */
  checkRedeemable(product: ProductId, user: UserId, code: number): Promise<CheckRedeemableOutcome> {
    return this.calls.scripts.run(checkRedeemableScript, { keys: saleKeys(product), args: { user, code } });
  }

  /** In an archived campaign: replays the first response to the key, else rejects the claim with `ended`. */
  #replayOrEnded(input: ReserveInput, missed: Missed): Promise<StoreReserveOutcome> {
    return decided<ReserveDecision>(
      () => this.#reserve(input),
      (recall, pass) => recall.answer(input.claim.product, input.claim.user, input.claim.key, pass),
      () => ({ kind: 'ended' }),
      this.calls.recall,
      missed,
    );
  }

  #rememberCheckout(input: ReserveInput, outcome: StoreReserveOutcome): void {
    const { promises, limits } = this.calls;
    if (!promises) return;
    if (outcome.kind === 'reserved') {
      promises.remember(outcome.journalId, () =>
        reservedEntry(input, outcome, campaignNoOf(outcome.reservationId), limits.waitReplicas),
      );
    } else if (outcome.kind === 'queued') {
      promises.remember(outcome.journalId, () => queuedEntry(input, outcome));
    }
  }

  /**
   * Keeps a promise that is acknowledged again, with its response under this key. A durable response waits for its
   * commit instead.
   * @throws EngineUnavailable if it cannot be read; the retry gets the response
   */
  async #rememberAgain(input: ReserveInput, outcome: Repeated): Promise<void> {
    if (outcome.durable) return;
    const { product, user, key } = input.claim;
    const answer = repeatedAnswer(input, outcome);
    const reservation = outcome.kind === 'waiting' ? outcome.reservationId : reservationIn(outcome.answer);
    await this.calls.acknowledge(product, reservation, { user, key, answer });
  }
}

type Repeated = Extract<StoreReserveOutcome, { kind: 'replayed' | 'waiting' }>;

/** Returns the reservation, or the place, that a replayed response has; "" = a place without a ticket. */
function reservationIn(answer: string): string {
  return decodeIdempotencyRecord(answer).reservationId ?? '';
}
