import { createHash } from 'node:crypto';
import type { EventType, OwnDataOf } from '../contracts/events.js';
import type { EntryOf, JournalEntry, RawEntry } from '../contracts/journal.js';
import type { Verdict } from '../contracts/verdict.js';
import { ACTORS } from '../domain/actors.js';
import { campaignOfNumber } from '../domain/buckets.js';
import { ContractError } from '../errors/faults.js';

/** An event before Postgres adds the fields of the redemption and its campaign. */
export type NewEvent = {
  type: EventType;
  no: number;
  /** null = the event is about the campaign */
  reservation: string | null;
  /**
   * Identifies the event together with its type, so that it is written once: the reservation, because each type happens
   * to it at most once, or else the journal entry.
   */
  once: string;
  /** null = now */
  atMs: number | null;
  trace: string;
  data: Record<string, unknown>;
  /** Whether the event is of the entry that made the reservation. Its data then follow from the row. */
  initial?: true;
};

/** The events of a batch of journal entries, in order. Joining and leaving the line make no events. */
export function eventsOf(entries: readonly JournalEntry[]): NewEvent[] {
  return entries.flatMap((entry, position) => {
    const events = eventsOfEntry(entry);
    return events.length > 0 && (entry.kind === 'extended' || entry.kind === 'paid_again')
      ? withQty(events, qtyBeforeReduction(entries, entry.reservation, position))
      : events;
  });
}

/**
 * The units that a reservation has at a position of a batch, if it gives back units later in the batch. Its row already
 * has the number after the batch. null = it gives back nothing later, so the row has the number.
 */
function qtyBeforeReduction(entries: readonly JournalEntry[], reservation: string, position: number): number | null {
  for (let i = position + 1; i < entries.length; i += 1) {
    const later = entries[i];
    if (later?.kind === 'reduced' && later.reservation === reservation) return later.before;
  }
  return null;
}

function withQty(events: NewEvent[], qty: number | null): NewEvent[] {
  return qty === null ? events : events.map((event) => ({ ...event, data: { ...event.data, qty } }));
}

/** The event of a reservation that Postgres rejected (worker/persist/refused-entries.ts). */
export function voidedEvent(no: number, reservation: string, reason: string): NewEvent {
  const type = 'dev.doorbuster.redemption.voided.v1';
  return { type, no, reservation, once: reservation, atMs: null, trace: '', data: { reason } };
}

/**
 * The event of differences that a reconciliation could not repair (worker/reconcile). The same verdict makes the same
 * event.
 */
export function driftedEvent(no: number, campaignId: string, verdict: Verdict): NewEvent {
  const { lost, duplicated, over_cap, drift } = verdict;
  const differences = verdict.differences
    .slice(0, 10)
    .map(({ reservation, side, why }) => ({ reservation, side, why }));
  const data = { lost, duplicated, over_cap, drift, differences };
  const once = `${campaignId} ${JSON.stringify(data)}`;
  return { type: 'dev.doorbuster.campaign.drifted.v1', no, reservation: null, once, atMs: null, trace: '', data };
}

/** The event of an acknowledged change that Postgres rejected (`journal_rejects`). An operator must decide. */
export function rejectedEvent({ journalId, fields }: RawEntry, reason: string): NewEvent {
  const data = {
    journal_id: journalId,
    kind: fields.kind ?? null,
    rejected_reservation_id: fields.reservation ?? null,
    rejected_user_id: fields.user ?? null,
    reason,
  };
  const type = 'dev.doorbuster.campaign.change_rejected.v1';
  return {
    type,
    no: campaignOfNumber(Number(fields.no ?? 0)),
    reservation: null,
    once: `rejected ${journalId}`,
    atMs: null,
    trace: '',
    data,
  };
}

/**
 * The event of a payment for a reservation that has ended. Two events of a provider about one payment make it once.
 * @param eventId identifies a payment without a reference
 */
export function paymentLateEvent(at: PaidFor, provider: string, paymentRef: string, eventId: string): NewEvent {
  const type = 'dev.doorbuster.payment.late.v1';
  const data: OwnDataOf<typeof type> = { payment_ref: paymentRef || null, provider };
  return { ...aboutPayment(at, `${provider} ${paymentRef || eventId}`), type, data };
}

/** The event of a payment whose amount or currency is not what the reservation costs. Made once, as the late one. */
export function paymentMismatchedEvent(
  at: PaidFor,
  provider: string,
  paymentRef: string,
  eventId: string,
  { amount, currency }: { amount: number; currency: string },
): NewEvent {
  const type = 'dev.doorbuster.payment.mismatched.v1';
  const data: OwnDataOf<typeof type> = { payment_ref: paymentRef || null, provider, amount, currency };
  return { ...aboutPayment(at, `${provider} ${paymentRef || eventId}`), type, data };
}

/** The event of a part of an amount. Each refund of a part makes its own. */
export function paymentPartialEvent(
  at: PaidFor,
  provider: string,
  paymentRef: string,
  eventId: string,
  part: OwnDataOf<'dev.doorbuster.payment.partial.v1'>['part'],
  money: { amount: number; currency: string } | null,
): NewEvent {
  const type = 'dev.doorbuster.payment.partial.v1';
  const { amount = null, currency = null } = money ?? {};
  const data: OwnDataOf<typeof type> = { payment_ref: paymentRef || null, provider, part, amount, currency };
  const once = part === 'refunded' ? eventId : paymentRef || eventId;
  return { ...aboutPayment(at, `${provider} ${part} ${once}`), type, data };
}

/** The event of a payment whose refund came first. Made once, as the late one. */
export function paymentRefundedBeforeEvent(
  at: PaidFor,
  provider: string,
  paymentRef: string,
  eventId: string,
): NewEvent {
  const type = 'dev.doorbuster.payment.refunded_before.v1';
  const data: OwnDataOf<typeof type> = { payment_ref: paymentRef || null, provider };
  return { ...aboutPayment(at, `${provider} ${paymentRef || eventId}`), type, data };
}

type PaidFor = { campaignNo: number; id: string };

/** The members of an event about a payment. A digest, because a reference may have characters that `once` must not. */
function aboutPayment({ campaignNo, id }: PaidFor, payment: string): Omit<NewEvent, 'type' | 'data'> {
  const digest = createHash('sha256').update(payment).digest('hex');
  return {
    ...{ no: campaignOfNumber(campaignNo), reservation: id, once: `${id} ${digest}` },
    ...{ atMs: null, trace: '' },
  };
}

function eventsOfEntry(entry: JournalEntry): NewEvent[] {
  switch (entry.kind) {
    case 'reserved':
      return eventsOfReserved(entry);
    case 'redeemed':
      return [
        about(entry, 'dev.doorbuster.redemption.redeemed.v1', {
          payment_ref: entry.payment || null,
          reacquired: entry.reacquired,
        }),
      ];
    case 'paid_again':
      return eventsOfPaidAgain(entry);
    case 'released':
    case 'expired':
    case 'voided':
      return [about(entry, `dev.doorbuster.redemption.${entry.kind}.v1`, { reason: entry.reason || null })];
    case 'extended':
      return [
        about(entry, 'dev.doorbuster.redemption.extended.v1', { pay_before: new Date(entry.dueMs).toISOString() }),
      ];
    case 'reduced':
      return [reductionOf(entry)];
    case 'refunded':
      return [about(entry, 'dev.doorbuster.redemption.refunded.v1', { burned: entry.burned })];
    case 'status':
      // Bucket 0 speaks for the campaign.
      return entry.bucket !== undefined ? [] : [statusEvent(entry)];
    case 'restocked':
      return [
        ofCampaign(entry, 'dev.doorbuster.campaign.restocked.v1', { delta: entry.delta, total_limit: entry.total }),
      ];
    case 'line_closed':
      return entry.bucket !== undefined ? [] : [ofCampaign(entry, 'dev.doorbuster.campaign.line_closed.v1', {})];
    case 'sealed':
    case 'moved_out':
    case 'moved_in':
    case 'queued':
    case 'left':
    case 'answered':
      return [];
    default:
      return entry satisfies never;
  }
}

/** Names of operators, and what they wrote, stay in the audit log. */
function statusEvent(entry: EntryOf<'status'>): NewEvent {
  const { before, status, actor, reason } = entry;
  const type = statusType(entry);
  if (type !== 'dev.doorbuster.campaign.paused.v1') return ofCampaign(entry, type, { before, status });
  const automatic = [ACTORS.velocity, ACTORS.clock].find((one) => one === actor);
  return ofCampaign(entry, type, {
    ...{ before, status },
    actor: automatic ?? 'operator',
    reason: (automatic && reason) || null,
  });
}

/**
 * A reservation is reduced several times, to fewer units each time. So the units that are left identify the event, and
 * a consumer that has the event ignores a restated one.
 */
function reductionOf(entry: EntryOf<'reduced'>): NewEvent {
  const { reservation, before, qty, ending, reason } = entry;
  const data = {
    ...{ qty, previous_qty: before, refunded: ending !== 'released', burned: ending === 'burned' },
    reason: reason || null,
  };
  return { ...about(entry, 'dev.doorbuster.redemption.reduced.v1', data), once: `${reservation} keeps ${qty}` };
}

type Begun = AboutReservation & Pick<EntryOf<'reserved'>, 'dueMs' | 'lineNo' | 'state'>;

function eventsOfReserved(entry: Begun): NewEvent[] {
  const pay_before = entry.dueMs === 0 ? null : new Date(entry.dueMs).toISOString();
  const events: NewEvent[] = [];
  if (entry.lineNo > 0)
    events.push(about(entry, 'dev.doorbuster.waiting.promoted.v1', { line_no: entry.lineNo, pay_before }));
  events.push(
    entry.state === 'redeemed'
      ? about(entry, 'dev.doorbuster.redemption.redeemed.v1', { payment_ref: null, reacquired: false })
      : about(entry, 'dev.doorbuster.redemption.reserved.v1', { pay_before }),
  );
  for (const event of events) event.initial = true;
  return events;
}

/** Each further reference makes an event of its own. Without a first reference, the payment is not a duplicate. */
function eventsOfPaidAgain(entry: EntryOf<'paid_again'>): NewEvent[] {
  const { reservation, payment, first } = entry;
  if (first === '') return [];
  // A digest, because a reference may contain characters that must not be in `once`.
  const digest = createHash('sha256').update(payment).digest('hex');
  const data = { payment_ref: payment, already_paid_by: first };
  return [{ ...about(entry, 'dev.doorbuster.payment.duplicated.v1', data), once: `${reservation} ${digest}` }];
}

function statusType(entry: EntryOf<'status'>) {
  switch (entry.status) {
    case 'open':
    case 'scheduled':
      if (entry.before === 'paused') return 'dev.doorbuster.campaign.resumed.v1';
      return entry.status === 'open' ? 'dev.doorbuster.campaign.opened.v1' : 'dev.doorbuster.campaign.scheduled.v1';
    case 'paused':
    case 'closed':
      return `dev.doorbuster.campaign.${entry.status}.v1` as const;
    case 'draft':
      throw new ContractError(`journal entry ${entry.journalId} makes a draft, for which there is no event`);
    default:
      return entry.status satisfies never;
  }
}

type AboutReservation = { no: number; reservation: string; atMs: number; trace: string };

function about<Type extends EventType>(entry: AboutReservation, type: Type, data: OwnDataOf<Type>): NewEvent {
  const { no, reservation, atMs, trace } = entry;
  return { type, no, reservation, once: reservation, atMs, trace, data };
}

type AboutCampaign = EntryOf<'status' | 'restocked' | 'line_closed'>;

function ofCampaign<Type extends EventType>(entry: AboutCampaign, type: Type, data: OwnDataOf<Type>): NewEvent {
  const once = `${entry.journalId} ${entry.no} ${entry.kind === 'line_closed' ? entry.kind : entry.request}`;
  return { type, no: entry.no, reservation: null, once, atMs: entry.atMs, trace: '', data };
}
