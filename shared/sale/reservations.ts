import { bucketOfReservation } from '../domain/buckets.js';
import type { OrderId, ProductId, ReservationId, UserId } from '../domain/ids.js';
import { ContractError } from '../errors/faults.js';
import { CallBatcher } from '../redis/call-batcher.js';
import { keys, saleKeys } from '../redis/keys.js';
import type { WithoutEntries } from '../redis/script-contract.js';
import type { OrderClaims } from './order-claims.js';
import type { Missed } from './recall.js';
import type { SaleCalls } from './sale-calls.js';
import { type ExpireOutcome, expireScript } from './scripts/line.js';
import {
  type ExtendOutcome,
  extendScript,
  type RefundOutcome,
  refundScript,
  type VoidOutcome,
  voidScript,
} from './scripts/payment.js';
import {
  CONFIRM_DECISIONS,
  type ConfirmCall,
  type ConfirmDecision,
  type ConfirmOutcome,
  type ConfirmRequest,
  confirmScript,
  decodeSettlements,
  MAX_SETTLEMENTS,
  RELEASE_DECISIONS,
  type ReleaseCall,
  type ReleaseDecision,
  type ReleaseOutcome,
  type ReleaseRequest,
  releaseScript,
} from './scripts/settlement.js';

/**
 * Who changes a reservation, for its history: `shopper`, or the name of a payment provider, of a key or of an operator;
 * "" = not known. `trace`: traceparent, "" = none.
 */
export type SettledBy = { actor: string; trace: string };

/** Fetches a unit into a bucket that has none. */
export type UnitFetch = {
  /** @returns false when no bucket has a unit. @throws EngineUnavailable */
  fetchUnit(product: ProductId, bucket: number): Promise<boolean>;
};

/** Other users may get the units that were fetched for a payment. */
const FETCHES = 3;

/** A payment, and the owner of its order once it is known. */
type Payment = { request: ConfirmRequest; owner: OrderOwner | null };
type OrderOwner = { user: UserId; order: OrderId };

/** Payments, releases and refunds of reservations. Every method throws EngineUnavailable when Redis cannot be used. */
export class Reservations {
  /** For late payments in divided campaigns; null = they get units of their own bucket only. */
  units: UnitFetch | null = null;
  readonly #confirms: CallBatcher<Payment, ConfirmDecision>;
  readonly #releases: CallBatcher<ReleaseRequest, ReleaseDecision>;

  constructor(
    readonly calls: SaleCalls,
    readonly orders: OrderClaims,
  ) {
    this.#confirms = new CallBatcher({
      maxBatch: MAX_SETTLEMENTS,
      send: (product, payments) => eachAlone(payments, (some) => this.#confirmAll(product as ProductId, some)),
    });
    this.#releases = new CallBatcher({
      maxBatch: MAX_SETTLEMENTS,
      send: (product, requests) => eachAlone(requests, (some) => this.#releaseAll(product as ProductId, some)),
    });
  }

  confirm(product: ProductId, reservation: ReservationId, paymentRef: string, by: SettledBy): Promise<ConfirmOutcome> {
    return this.calls.of(product, reservation, () => this.#confirmOrFetch(product, reservation, paymentRef, by));
  }

  /** Fetches units for a late payment whose bucket has none, while another bucket has some. */
  async #confirmOrFetch(
    product: ProductId,
    reservation: ReservationId,
    paymentRef: string,
    by: SettledBy,
  ): Promise<Confirmed> {
    for (let fetches = 0; ; fetches += 1) {
      const reply = await this.#confirm(product, reservation, paymentRef, by);
      if (reply.kind !== 'short') return reply;
      const isFetched = fetches < FETCHES && (await this.units?.fetchUnit(product, bucketOfReservation(reservation)));
      if (!isFetched) return { ...reply, kind: 'ended' };
    }
  }

  /** Does the same for a reservation that is held, paid or ended, but reacquires nothing for one that has ended. */
  confirmHeld(
    product: ProductId,
    reservation: ReservationId,
    paymentRef: string,
    by: SettledBy,
  ): Promise<ConfirmOutcome> {
    return this.calls.of(
      product,
      reservation,
      () => this.#askConfirm(product, reservation, paymentRef, by)('taken') as Promise<Confirmed>,
    );
  }

  /**
   * Confirms a payment. A late payment reacquires a unit only if its order still combines. For this the script needs
   * the key of the order, in a second call.
   */
  async #confirm(product: ProductId, reservation: ReservationId, paymentRef: string, by: SettledBy) {
    const ask = this.#askConfirm(product, reservation, paymentRef, by);
    const first = await ask('unknown');
    if (first.kind !== 'order_needed') return first as Confirmed | Short;
    const { user, order } = first;
    const again = () => ask('known', { user, order });
    const reply = await this.orders.whileLive(user, order, await again(), again);
    return (reply.kind === 'not_combinable' ? await ask('taken') : reply) as Confirmed | Short;
  }

  #askConfirm(product: ProductId, reservation: ReservationId, paymentRef: string, by: SettledBy) {
    return (order_state: ConfirmRequest['order_state'], owner: OrderOwner | null = null) => {
      const request = { reservation_id: reservation, payment_ref: paymentRef, ...by, order_state };
      return this.calls.keepAcknowledged(
        product,
        { reservation, user: '' },
        this.#confirms.run(product, { request, owner }),
      );
    };
  }

  /**
   * Releases a reservation.
   * @param holder the user of the ticket; null = a service, which may release any reservation
   * @param keep number of units that the reservation keeps; 0 = it ends
   */
  release(
    product: ProductId,
    reservation: ReservationId,
    holder: UserId | null,
    reason: string,
    by: SettledBy,
    keep = 0,
  ): Promise<ReleaseOutcome> {
    const request = { reservation_id: reservation, holder: holder ?? '', reason, ...by };
    return this.calls.of(product, reservation, () =>
      this.calls.keepAcknowledged(
        product,
        { reservation, user: '' },
        this.#releases.run(product, keep > 0 ? { ...request, keep } : request),
      ),
    );
  }

  /** Refunds a reservation. @param keep number of units that the reservation keeps; 0 = it ends */
  refund(product: ProductId, reservation: ReservationId, by: SettledBy, keep = 0): Promise<RefundOutcome> {
    return this.calls.of(product, reservation, () =>
      this.calls.keepAcknowledged(
        product,
        { reservation, user: '' },
        this.calls.scripts.run(refundScript, {
          keys: saleKeys(product),
          args: { reservation_id: reservation, keep, ...by },
        }),
      ),
    );
  }

  /** Extends the deadline of a reservation once. @param extendMs 0 = the campaign extends none */
  extend(product: ProductId, reservation: ReservationId, extendMs: number, by: SettledBy): Promise<ExtendOutcome> {
    return this.calls.of(product, reservation, () =>
      this.calls.keepAcknowledged(
        product,
        { reservation, user: '' },
        this.calls.scripts.run(extendScript, {
          keys: saleKeys(product),
          args: { reservation_id: reservation, extend_ms: extendMs, ...by },
        }),
      ),
    );
  }

  void(
    product: ProductId,
    reservation: ReservationId,
    unit: 'returns' | 'never_existed' | 'code_used',
    reason: string,
  ): Promise<VoidOutcome> {
    return this.calls.of(product, reservation, () =>
      this.calls.keep(
        this.calls.scripts.run(voidScript, {
          keys: saleKeys(product),
          args: { reservation_id: reservation, unit, reason },
        }),
      ),
    );
  }

  expire(product: ProductId, limit: number): Promise<ExpireOutcome> {
    return this.calls.keep(this.calls.scripts.run(expireScript, { keys: saleKeys(product), args: { limit } }));
  }

  async #confirmAll(product: ProductId, payments: readonly Payment[]): Promise<readonly ConfirmDecision[]> {
    const orderKeys: string[] = [];
    const requests = payments.map(({ request, owner }) =>
      owner ? { ...request, order_key: orderKeys.push(keys.order(owner.user, owner.order)) } : request,
    );
    const input: ConfirmCall = { requests, order_ttl_ms: this.calls.limits.orderMemoryMs };
    const outcome = await this.calls.scripts.run(confirmScript, {
      keys: { ...saleKeys(product), request_keys: orderKeys },
      args: { input },
    });
    if (outcome.kind === 'decided') return decodeSettlements(CONFIRM_DECISIONS, outcome.decisions, outcome.entries);
    return payments.map(() => ({ kind: outcome.kind }));
  }

  async #releaseAll(product: ProductId, requests: readonly ReleaseRequest[]): Promise<readonly ReleaseDecision[]> {
    const input: ReleaseCall = { requests };
    const outcome = await this.calls.scripts.run(releaseScript, { keys: saleKeys(product), args: { input } });
    if (outcome.kind === 'decided') return decodeSettlements(RELEASE_DECISIONS, outcome.decisions, outcome.entries);
    return requests.map(() => ({ kind: outcome.kind }));
  }
}

/**
 * Makes one call for several requests. A script that fails has written nothing. Then each request gets a call of its
 * own, so that one malformed record does not fail the others.
 */
async function eachAlone<Request, Reply>(
  requests: readonly Request[],
  call: (some: readonly Request[]) => Promise<readonly Reply[]>,
): Promise<readonly (Reply | Error)[]> {
  try {
    return await call(requests);
  } catch (error) {
    if (!(error instanceof ContractError) || requests.length === 1) throw error;
    const replies = await Promise.allSettled(requests.map((request) => call([request])));
    return replies.map((reply) => (reply.status === 'fulfilled' ? (reply.value[0] as Reply) : (reply.reason as Error)));
  }
}

/** The decisions of `confirm`, without the request for the key of the order. */
type Confirmed = ConfirmOutcome | Missed;
type Short = Extract<WithoutEntries<ConfirmDecision>, { kind: 'short' }>;
