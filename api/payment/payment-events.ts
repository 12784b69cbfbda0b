import { assertNever } from '../../shared/domain/assert-never.js';
import { bucketOfReservation } from '../../shared/domain/buckets.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { PaymentEventRow, PaymentEventsTable } from '../../shared/postgres/payment-events.js';
import { type NewEvent, paymentLateEvent } from '../../shared/projection/events-of-entries.js';
import type { SettledBy } from '../../shared/sale/reservations.js';
import type { SalesOf } from '../../shared/sale/sales.js';
import type { Acknowledgements } from '../claim/acknowledgement.js';
import type { PaymentEvent } from './providers/provider.js';
import type { Located, ReservationLookup, ReservationName } from './reservation-lookup.js';

/** What was done about an event. docs/payments.md describes each. */
export const PAYMENT_OUTCOMES = {
  confirmed: 'the reservation is redeemed',
  reacquired: 'the reservation had ended, and a free unit was reserved and redeemed',
  duplicate: 'the reservation was paid before by another payment: refund one of them',
  repeated: 'the payment was counted before',
  late: 'the reservation had ended: refund the payment',
  released: 'the reservation was released',
  refunded: 'the reservation is refunded',
  refunded_before: 'the payment was refunded already; an unpaid reservation was released',
  unpaid: 'the payment that was refunded is not known yet, or came too late',
  still_paid: 'another payment of the reservation is left',
  partial: 'a part of the amount changes nothing: the shop decides',
  settled: 'the reservation is paid, refunded or voided, so that there is nothing to release',
  unknown: 'no such reservation exists',
  unrelated: 'the event names no reservation',
} as const;
export type PaymentOutcome = keyof typeof PAYMENT_OUTCOMES;

export type PaymentEventsDeps = {
  sales: SalesOf;
  acknowledgements: Acknowledgements;
  lookup: ReservationLookup;
  table: PaymentEventsTable;
  /** Stores an event with the rows of the outbox that it makes. @returns false when it is stored already */
  store: (row: PaymentEventRow, at: Located, events: readonly NewEvent[]) => Promise<boolean>;
  /** Resolves when Postgres has everything that happened to a campaign before. @throws EngineUnavailable */
  untilPersisted: (at: Located) => Promise<void>;
  onDuplicate: () => void;
};

type Handled = { outcome: PaymentOutcome; repeated: boolean; reservation: string | null };

/**
 * Acts on the events of payment providers. An event may come twice, late or before an earlier one, and two events may
 * come at the same time. Each decision is one of the scripts `confirm`, `release` and `refund`, which can be repeated,
 * and the event is stored after it. So an event that fails in between is done again.
 */
export class PaymentEvents {
  constructor(readonly deps: PaymentEventsDeps) {}

  /** @throws EngineUnavailable if the event could not be decided and stored; the provider has to send it again */
  async handle(provider: string, event: PaymentEvent, trace: string): Promise<Handled> {
    const { table } = this.deps;
    const by = { actor: provider, trace };
    const before = await table.outcomeOf(provider, event.id);
    if (before !== null) return { outcome: before as PaymentOutcome, repeated: true, reservation: null };
    const name = event.reservation ?? (await this.#nameByPayment(provider, event.paymentRef));
    // An event without a reservation is not stored: the account may sell other things, too.
    if (name === null) return { outcome: 'unrelated', repeated: false, reservation: null };
    const at = await this.#located(name);
    const reservation = at?.id ?? null;
    const outcome = at === null ? 'unknown' : await this.#decide(at, event, by);
    const { id: eventId, kind, paymentRef, partial } = event;
    const row = { provider, eventId, kind, reservation, paymentRef, partial, outcome };
    if (at === null) await table.insert(row);
    else {
      await this.deps.store(row, at, outcome === 'late' ? [paymentLateEvent(at, provider, paymentRef, event.id)] : []);
      if (kind === 'succeeded' || kind === 'refunded') await this.#settleCrossed(at, event, by);
    }
    return { outcome, repeated: false, reservation };
  }

  /** Names the reservation of a payment that was reported before. A refund may lack the metadata of its payment. */
  async #nameByPayment(provider: string, paymentRef: string): Promise<ReservationName | null> {
    const reservation_id = paymentRef === '' ? null : await this.deps.table.reservationOf(provider, paymentRef);
    return reservation_id === null ? null : { reservation_id };
  }

  /** @returns null when the reservation does not exist, or the order has several, which no retry changes */
  async #located(name: ReservationName): Promise<Located | null> {
    try {
      return await this.deps.lookup.find(name);
    } catch (error) {
      if (error instanceof Problem) return null;
      throw error;
    }
  }

  #decide(at: Located, event: PaymentEvent, by: SettledBy): Promise<PaymentOutcome> | PaymentOutcome {
    if (event.partial) return 'partial';
    switch (event.kind) {
      case 'succeeded':
        return this.#succeeded(at, event.paymentRef, by);
      case 'failed':
      case 'expired':
        return this.#release(at, `payment ${event.kind}`, by);
      case 'refunded':
        return this.#refunded(at, event.paymentRef, by);
      default:
        return assertNever(event.kind);
    }
  }

  async #succeeded(at: Located, paymentRef: string, by: SettledBy): Promise<PaymentOutcome> {
    const { sales, acknowledgements, table, onDuplicate } = this.deps;
    // A refund may be reported before its payment.
    if (paymentRef !== '' && (await table.refunded(at.id)).includes(paymentRef)) {
      await this.#release(at, 'payment refunded', by);
      return 'refunded_before';
    }
    const outcome = await sales
      .of(at.product, bucketOfReservation(at.id))
      .reservations.confirm(at.product, at.id, paymentRef, by);
    if (outcome.kind === 'not_found') return 'unknown';
    await acknowledgements.held(at.product, outcome, bucketOfReservation(at.id));
    if (outcome.kind === 'ended') return (await this.#isKnown(at, paymentRef)) ? 'repeated' : 'late';
    if (outcome.paidBy !== '') {
      if (outcome.journalId !== '') onDuplicate();
      return 'duplicate';
    }
    if (outcome.journalId === '') return 'repeated';
    return outcome.reacquired ? 'reacquired' : 'confirmed';
  }

  async #release(at: Located, reason: string, by: SettledBy): Promise<PaymentOutcome> {
    const { sales, acknowledgements } = this.deps;
    const outcome = await sales
      .of(at.product, bucketOfReservation(at.id))
      .reservations.release(at.product, at.id, null, reason, by);
    if (outcome.kind !== 'released' && outcome.kind !== 'settled') return 'unknown';
    await acknowledgements.held(at.product, outcome, bucketOfReservation(at.id));
    return outcome.kind;
  }

  /** Refunds a reservation when none of its payments is left. */
  async #refunded(at: Located, paymentRef: string, by: SettledBy): Promise<PaymentOutcome> {
    const { sales, acknowledgements, table, untilPersisted } = this.deps;
    await untilPersisted(at);
    const payments = await table.paymentsOf(at.campaignNo, at.id);
    if (!payments) return 'unknown';
    const { status, first, further } = payments;
    if (first !== null && paymentRef !== '') {
      const known = [first, ...further];
      if (!known.includes(paymentRef)) return 'unpaid';
      const gone = new Set([paymentRef, ...(await table.refunded(at.id))]);
      if (known.some((one) => !gone.has(one))) return 'still_paid';
    }
    if (status !== 'redeemed' && status !== 'refunded') return 'unpaid';
    const outcome = await sales.of(at.product, bucketOfReservation(at.id)).reservations.refund(at.product, at.id, by);
    if (outcome.kind !== 'refunded') return outcome.kind === 'unpaid' ? 'unpaid' : 'unknown';
    await acknowledgements.held(at.product, outcome, bucketOfReservation(at.id));
    return 'refunded';
  }

  /**
   * Finds a payment and its refund that were decided at the same time, neither of which saw the other. Both are stored
   * by now, so at least one of the two calls finds both.
   */
  async #settleCrossed(at: Located, { paymentRef, partial }: PaymentEvent, by: SettledBy): Promise<void> {
    if (paymentRef === '' || partial || !(await this.deps.table.refunded(at.id)).includes(paymentRef)) return;
    await this.#refunded(at, paymentRef, by);
  }

  /** Whether a payment of an ended reservation was counted before it ended. */
  async #isKnown(at: Located, paymentRef: string): Promise<boolean> {
    // The event of a late payment needs the row of its reservation.
    await this.deps.untilPersisted(at);
    if (paymentRef === '') return false;
    const payments = await this.deps.table.paymentsOf(at.campaignNo, at.id);
    return payments !== null && [payments.first, ...payments.further].includes(paymentRef);
  }
}
