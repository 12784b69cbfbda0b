import { assertNever } from '../domain/assert-never.js';
import { bucketOfReservation } from '../domain/buckets.js';
import { madeAtMs, type ProductId } from '../domain/ids.js';
import { Problem } from '../errors/catalogue.js';
import { EngineUnavailable } from '../errors/faults.js';
import type { PaymentEventRow, PaymentEventsTable } from '../postgres/payment-events.js';
import {
  type NewEvent,
  paymentLateEvent,
  paymentMismatchedEvent,
  paymentPartialEvent,
  paymentRefundedBeforeEvent,
} from '../projection/events-of-entries.js';
import type { SettledBy } from '../sale/reservations.js';
import type { SalesOf } from '../sale/sales.js';
import { NEEDS_ACTION, type PaymentEvent, type PaymentOutcome } from './payment-event.js';
import type { Found, Located, ReservationLookup, ReservationName } from './reservation-lookup.js';

export type PaymentEventsDeps = {
  sales: SalesOf;
  acknowledgements: {
    /** Resolves when a change may be acknowledged. @throws EngineUnavailable if that takes too long */
    held(product: ProductId, change: { durable: boolean; journalId: string }, bucket: number): Promise<void>;
  };
  lookup: ReservationLookup;
  table: PaymentEventsTable;
  /**
   * Stores an event, a row for each reservation, with the rows of the outbox that it makes.
   * @returns false when it is stored already
   */
  store: (rows: readonly PaymentEventRow[], at: Located | null, events: readonly NewEvent[]) => Promise<boolean>;
  /** Resolves when Postgres has everything that happened to a campaign before. @throws EngineUnavailable */
  untilPersisted: (at: Located) => Promise<void>;
  onDuplicate: () => void;
};

export type Handled = { outcome: PaymentOutcome; repeated: boolean; reservation: string | null };
type Decided = { at: Located; outcome: PaymentOutcome };
type StoredOutcome = { outcome: PaymentOutcome; reservation: string | null; receivedAt: Date };

/**
 * Acts on the events of payment providers. An event may come twice, late or before an earlier one, and two events may
 * come at the same time. Each decision is one of the scripts `confirm`, `release` and `refund`, which can be repeated,
 * and the event is stored after it. So an event that fails in between is done again.
 */
export class PaymentEvents {
  constructor(readonly deps: PaymentEventsDeps) {}

  /** @throws EngineUnavailable if the event could not be decided and stored; the provider has to send it again */
  async handle(provider: string, event: PaymentEvent, trace: string): Promise<Handled> {
    const by = { actor: provider, trace };
    const before = await this.#before(provider, event, by);
    const known = before.filter(({ reservation }) => reservation !== null);
    const [kept] = before;
    if (known.length > 0) {
      await this.#settleAgain(known, event, by);
      return { outcome: mostUrgent(known), repeated: true, reservation: null };
    }
    // The end of an attempt to pay says nothing about reservations that were made later.
    if (kept && (event.kind === 'expired' || event.kind === 'failed'))
      return { outcome: 'unknown', repeated: true, reservation: null };
    const names = await this.#namesIn(provider, event);
    // An event without a reservation is not stored: the account may sell other things, too.
    if (names === null) return { outcome: 'unrelated', repeated: false, reservation: null };
    const all = await this.#concerned(names, event, kept?.receivedAt ?? null, by);
    const whole = await this.#withPart(provider, event, all);
    const outcomes: Decided[] = [];
    for (const at of all) outcomes.push({ at, outcome: await this.#decide(at, whole, by) });
    const decided = outcomes.filter(({ outcome }) => outcome !== 'unknown');
    if (decided.length === 0 && kept) return { outcome: 'unknown', repeated: true, reservation: null };
    leavePartsToTheShop(decided);
    await this.#markMismatch(decided, whole, provider);
    await this.#store(provider, whole, names[0] ?? {}, outcomes);
    for (const { at } of decided) await this.#settleCrossed(at, whole, by);
    return { outcome: mostUrgent(outcomes), repeated: kept !== undefined, reservation: decided[0]?.at.id ?? null };
  }

  /** What is stored of an event that was received before, a row for each reservation; empty = it is new. */
  async #before(provider: string, event: PaymentEvent, by: SettledBy): Promise<StoredOutcome[]> {
    try {
      return await this.deps.table.before(provider, event.id);
    } catch (error) {
      const { reservation } = event;
      if (reservation && error instanceof EngineUnavailable && error.engine === 'postgres')
        await this.#decideBlind((await this.#located(reservation, event)).reservations, event, by);
      throw error;
    }
  }

  /**
   * Does what can be done at once, so that a unit that is paid does not expire while Postgres is away or behind. The
   * event is not stored, so the provider sends it again, and the repetition decides the rest. It may be a repetition
   * itself: a payment that was late before gets no unit now, because it may have been refunded.
   */
  async #decideBlind(
    all: readonly Located[],
    { kind, partial, paymentRef }: PaymentEvent,
    by: SettledBy,
  ): Promise<void> {
    if (partial || (kind !== 'succeeded' && kind !== 'expired')) return;
    for (const at of all) {
      const { reservations } = this.deps.sales.of(at.product, bucketOfReservation(at.id));
      if (kind === 'succeeded') await reservations.confirmHeld(at.product, at.id, paymentRef, by);
      else await reservations.release(at.product, at.id, null, REASONS[kind], by);
    }
  }

  /** Completes a payment and its refund that crossed, if the first call could not. */
  async #settleAgain(known: readonly StoredOutcome[], event: PaymentEvent, by: SettledBy): Promise<void> {
    for (const { reservation } of known)
      for (const at of (await this.#located({ reservation_id: String(reservation) }, event)).reservations)
        await this.#settleCrossed(at, event, by);
  }

  /**
   * The names of the reservations of an event. A refund may lack the metadata of its payment, reported before.
   * @returns empty = they are not known yet · null = it is about something else
   */
  async #namesIn(
    provider: string,
    { reservation, paymentRef }: PaymentEvent,
  ): Promise<readonly ReservationName[] | null> {
    if (reservation && Object.keys(reservation).length > 0) return [reservation];
    const names = await this.deps.table.namesOf(provider, paymentRef);
    return names.length === 0 && reservation === null ? null : names;
  }

  /**
   * The reservations that an event is about. @param receivedAt when it was received first; null = now
   * @throws EngineUnavailable if not all are known, after what can be done at once
   */
  async #concerned(
    names: readonly ReservationName[],
    event: PaymentEvent,
    receivedAt: Date | null,
    by: SettledBy,
  ): Promise<readonly Located[]> {
    const all: Located[] = [];
    for (const name of names) {
      const { reservations, missing } = await this.#located(name, event);
      if (missing) await this.#decideBlind(reservations, event, by);
      if (missing) throw missing;
      all.push(...reservations);
    }
    if (all.length === 0) all.push(...(await this.#ofSamePayment(event, by)));
    if (event.kind !== 'refunded') return all;
    const older = receivedAt === null ? all : all.filter(({ id }) => madeAtMs(id) <= receivedAt.getTime());
    if (older.length < 2) return older;
    // Others of the order may not be paid yet.
    const paid: Located[] = [];
    for (const at of older) {
      await this.deps.untilPersisted(at);
      if ((await this.#paymentsOf(at)).includes(event.paymentRef)) paid.push(at);
    }
    return paid.length > 0 ? paid : older;
  }

  /**
   * The reservations of an event whose name is the shop's own, by what the provider has reported of its payment. One of
   * another amount may be for something else.
   */
  async #ofSamePayment(event: PaymentEvent, { actor }: SettledBy): Promise<readonly Located[]> {
    const { kind, paymentRef, money } = event;
    const { table } = this.deps;
    const isSame = async () => money !== null && (await table.amountOf(actor, paymentRef, [])) === money.amount;
    if (kind !== 'refunded' && (kind !== 'succeeded' || !(await isSame()))) return [];
    const all: Located[] = [];
    for (const name of await table.namesOf(actor, paymentRef))
      all.push(...(await this.#located(name, event)).reservations);
    return all;
  }

  /** @returns none when no reservation has the name, or several users have the order */
  async #located(name: ReservationName, event: PaymentEvent): Promise<Found> {
    const none: Found = { reservations: [], missing: null };
    if (name.reservation_id === undefined && name.order_id === undefined) return none;
    try {
      // A payment is for all of its order, also for what has ended before it came.
      return await this.deps.lookup.find(name, event.kind === 'succeeded' ? 'call' : 'event');
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      const { reservation_id, ...order } = name;
      return reservation_id === undefined ? none : this.#located(order, event);
    }
  }

  /** A refund of less than was paid is one of a part, also if the provider does not say so. */
  async #withPart(provider: string, event: PaymentEvent, all: readonly Located[]): Promise<PaymentEvent> {
    const { kind, partial, money, paymentRef } = event;
    if (kind !== 'refunded' || partial || money === null) return event;
    const ids = all.map(({ id }) => id);
    const paid = paymentRef === '' ? null : await this.deps.table.amountOf(provider, paymentRef, ids);
    const [at, ...others] = all;
    const cost = paid === null && at && others.length === 0 ? await this.#costOf(at) : null;
    const whole = paid ?? cost?.amount ?? 0;
    return money.amount < whole ? { ...event, partial: true } : event;
  }

  /** @param outcomes of each reservation; one that Redis lacks is listed as unknown beside the others */
  async #store(
    provider: string,
    event: PaymentEvent,
    name: ReservationName,
    outcomes: readonly Decided[],
  ): Promise<void> {
    const { id: eventId, kind, paymentRef, partial, money, mayBeUnpaid = false } = event;
    const row = { provider, eventId, kind, paymentRef, partial, money, mayBeUnpaid };
    const decided = outcomes.filter(({ outcome }) => outcome !== 'unknown');
    const missing = outcomes.find(({ outcome }) => outcome === 'unknown');
    const named = missing && decided.length > 0 ? { reservation_id: missing.at.id } : name;
    const rows = [
      ...decided.map(({ at, outcome }) => ({ ...row, reservation: at.id, named: null, outcome })),
      ...(missing || decided.length === 0 ? [{ ...row, reservation: null, named, outcome: 'unknown' }] : []),
    ];
    const events = decided.flatMap((one) => eventOf(one, provider, event) ?? []);
    // An event needs the row of its reservation.
    if (events.length > 0) for (const { at } of decided) await this.deps.untilPersisted(at);
    await this.deps.store(rows, decided[0]?.at ?? null, events);
    if (paymentRef !== '')
      for (const { at, outcome } of decided)
        if (outcome === 'reacquired') await this.deps.table.forgetLate(at.id, paymentRef);
  }

  #decide(at: Located, event: PaymentEvent, by: SettledBy): Promise<PaymentOutcome> | PaymentOutcome {
    if (event.partial) return 'partial';
    switch (event.kind) {
      case 'succeeded':
        return this.#succeeded(at, event.paymentRef, by);
      case 'failed':
        return 'recorded';
      case 'expired':
        return this.#release(at, REASONS.expired, by);
      case 'refunded':
        return this.#refunded(at, event, by);
      default:
        return assertNever(event.kind);
    }
  }

  async #succeeded(at: Located, paymentRef: string, by: SettledBy): Promise<PaymentOutcome> {
    const { sales, acknowledgements, table, onDuplicate } = this.deps;
    // A refund may be reported before its payment.
    if (paymentRef !== '' && (await table.isRefunded(by.actor, at.id, paymentRef))) {
      // It was confirmed while Postgres could not say so.
      if ((await this.#release(at, REASONS.refunded, by)) === 'settled') await this.#refunded(at, { paymentRef }, by);
      return 'refunded_before';
    }
    const bucket = bucketOfReservation(at.id);
    const outcome = await sales.of(at.product, bucket).reservations.confirm(at.product, at.id, paymentRef, by);
    if (outcome.kind === 'not_found') return 'unknown';
    await acknowledgements.held(at.product, outcome, bucket);
    if (outcome.kind === 'ended') return (await this.#isKnown(at, paymentRef)) ? 'repeated' : 'late';
    if (outcome.reacquired) {
      // Postgres voids it if a code of another shard on its order excludes it.
      await this.deps.untilPersisted(at);
      if ((await table.paymentsOf(at.campaignNo, at.id))?.status === 'voided') return 'late';
    }
    if (outcome.paidBy !== '') {
      if (outcome.journalId !== '') onDuplicate();
      return 'duplicate';
    }
    // An event whose first try was interrupted is not counted yet.
    if (outcome.journalId === '' && (paymentRef === '' || (await table.isCounted(at.id, paymentRef))))
      return 'repeated';
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

  /** Refunds a reservation when none of its payments is left. One that is not paid yet is released. */
  async #refunded(
    at: Located,
    { paymentRef, mayBeUnpaid }: Pick<PaymentEvent, 'paymentRef' | 'mayBeUnpaid'>,
    by: SettledBy,
  ): Promise<PaymentOutcome> {
    const { sales, acknowledgements, table, untilPersisted } = this.deps;
    await untilPersisted(at);
    const payments = await table.paymentsOf(at.campaignNo, at.id);
    if (!payments) return 'unknown';
    const { status, first, further } = payments;
    if (status === 'reserved') {
      const outcome = await this.#release(at, REASONS.refunded, by);
      return outcome === 'settled' ? 'unpaid' : outcome;
    }
    // The shop has confirmed it by a payment of which it did not say which.
    if (first === null && mayBeUnpaid && !(await table.isCounted(at.id, paymentRef))) return 'unpaid';
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
  async #settleCrossed(at: Located, event: PaymentEvent, by: SettledBy): Promise<void> {
    const { kind, paymentRef, partial } = event;
    if ((kind !== 'succeeded' && kind !== 'refunded') || paymentRef === '' || partial) return;
    if (!(await this.deps.table.isRefunded(by.actor, at.id, paymentRef))) return;
    await this.#refunded(at, event, by);
  }

  /** Compares what was paid with what the reservation costs. An order with several has its discounts from coupons. */
  async #markMismatch(decided: Decided[], { kind, money, paymentRef }: PaymentEvent, provider: string): Promise<void> {
    const [one, ...others] = decided;
    if (!one || others.length > 0 || money === null || kind !== 'succeeded' || !PAID.includes(one.outcome)) return;
    // The events before it may have had no amount.
    const isSeen = async () => (await this.deps.table.amountOf(provider, paymentRef, [one.at.id])) !== null;
    if (one.outcome === 'repeated' && (paymentRef === '' || (await isSeen()))) return;
    const cost = await this.#costOf(one.at);
    if (cost === null) return;
    if (cost.amount !== money.amount || cost.currency !== money.currency) one.outcome = 'mismatch';
  }

  /** What a reservation costs; null = its campaign has no price. An event about it then follows its own events. */
  async #costOf(at: Located) {
    const { table, untilPersisted } = this.deps;
    if ((await table.costOf(at.campaignNo, at.id)) === null) return null;
    await untilPersisted(at);
    const cost = await table.costOf(at.campaignNo, at.id);
    return cost === 'missing' ? null : cost;
  }

  async #paymentsOf(at: Located): Promise<string[]> {
    const payments = await this.deps.table.paymentsOf(at.campaignNo, at.id);
    return payments === null ? [] : [payments.first, ...payments.further].filter((one) => one !== null);
  }

  /** Whether a payment of an ended reservation was counted before it ended. */
  async #isKnown(at: Located, paymentRef: string): Promise<boolean> {
    await this.deps.untilPersisted(at);
    return paymentRef !== '' && (await this.#paymentsOf(at)).includes(paymentRef);
  }
}

/** Outcomes of a payment that is counted. */
const PAID: readonly PaymentOutcome[] = ['confirmed', 'reacquired', 'mismatch', 'repeated'];

/** Reasons of releases, for the history of the reservation. */
const REASONS = { expired: 'payment expired', refunded: 'payment refunded' } as const;

/**
 * A payment of an order of which some reservations had ended is not refunded as a whole: the shop decides what becomes
 * of their part.
 */
function leavePartsToTheShop(decided: Decided[]): void {
  if (!decided.some(({ outcome }) => PAID.includes(outcome))) return;
  for (const one of decided) if (one.outcome === 'late') one.outcome = 'partial';
}

/** Returns the event of ours that an outcome makes. */
function eventOf({ at, outcome }: Decided, provider: string, event: PaymentEvent): NewEvent | null {
  const { id, kind, paymentRef, partial, money } = event;
  if (outcome === 'late') return paymentLateEvent(at, provider, paymentRef, id);
  if (outcome === 'mismatch' && money) return paymentMismatchedEvent(at, provider, paymentRef, id, money);
  if (outcome === 'refunded_before') return paymentRefundedBeforeEvent(at, provider, paymentRef, id);
  if (outcome !== 'partial' || (kind !== 'succeeded' && kind !== 'refunded')) return null;
  const part = kind === 'refunded' ? 'refunded' : partial ? 'paid' : 'without_unit';
  return paymentPartialEvent(at, provider, paymentRef, id, part, money);
}

/** The outcome of an event with several reservations is the one that a person has to see first. */
function mostUrgent(all: readonly { outcome: PaymentOutcome }[]): PaymentOutcome {
  const outcomes = all.map(({ outcome }) => outcome);
  return NEEDS_ACTION.find((one) => outcomes.includes(one)) ?? outcomes[0] ?? 'unknown';
}
