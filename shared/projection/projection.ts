import type { EntryOf, JournalEntry } from '../contracts/journal.js';
import type { CampaignStatus } from '../domain/campaign.js';
import type { RedemptionStatus } from '../domain/reservation.js';

/** The row of a new reservation, as it is at the end of the batch. */
export type NewRedemption = Omit<EntryOf<'reserved'>, 'kind' | 'journalId' | 'state' | 'trace' | 'answer' | 'key'> & {
  key: string;
  answer: string;
  trace: string;
} & RedemptionChange;

/** The change of an existing reservation by a batch. null = unchanged. */
export type RedemptionChange = {
  no: number;
  reservation: string;
  status: RedemptionStatus | null;
  slot: number | null;
  burned: boolean | null;
  reacquired: boolean | null;
  redeemedMs: number | null;
  releasedMs: number | null;
  refundedMs: number | null;
  reason: string | null;
  payment: string | null;
};

export type NewTicket = Omit<EntryOf<'queued'>, 'kind' | 'journalId'> & TicketChange;
export type TicketChange = {
  no: number;
  lineNo: number;
  status: 'waiting' | 'promoted' | 'left' | 'closed';
  endedMs: number | null;
};

/** An idempotency record that no other row contains. */
export type IdempotencyRow = { no: number; key: string; answer: string; atMs: number };

/** A payment for a reservation that is paid already. */
export type FurtherPayment = { no: number; reservation: string; payment: string; atMs: number };

export type AuditRow = {
  atMs: number;
  actor: string;
  action: string;
  no: number;
  before: Record<string, unknown>;
  after: Record<string, unknown>;
  request: string;
};

/** The net effect of a batch of journal entries, one set of rows for each table. */
export type Projection = {
  newRedemptions: NewRedemption[];
  redemptionChanges: RedemptionChange[];
  newTickets: NewTicket[];
  ticketChanges: TicketChange[];
  /** Campaign number → status at the end of the batch. */
  statuses: Map<number, CampaignStatus>;
  /** Campaign number → ms at which an operator opened it. */
  begun: Map<number, number>;
  /** Campaign number → units that the batch added (negative: removed). */
  added: Map<number, number>;
  /** Campaign number → the last line number that no longer waits, and since when (ms). */
  closedLines: Map<number, { upTo: number; atMs: number }>;
  answers: IdempotencyRow[];
  furtherPayments: FurtherPayment[];
  audit: AuditRow[];
};

/** A batch that changes nothing. */
export function emptyProjection(): Projection {
  return projectEntries([]);
}

/**
 * Folds entries, oldest first, into the rows that result from them. So a reservation that was made, paid and refunded
 * within a batch is one insert. It is a pure function.
 */
export function projectEntries(entries: readonly JournalEntry[]): Projection {
  const newRedemptions = new Map<string, NewRedemption>();
  const redemptionChanges = new Map<string, RedemptionChange>();
  const newTickets = new Map<string, NewTicket>();
  const ticketChanges = new Map<string, TicketChange>();
  const statuses = new Map<number, CampaignStatus>();
  const begun = new Map<number, number>();
  const added = new Map<number, number>();
  const closedLines: Projection['closedLines'] = new Map();
  const answers: IdempotencyRow[] = [];
  const furtherPayments: FurtherPayment[] = [];
  const audit: AuditRow[] = [];

  const changeOf = ({ no, reservation }: { no: number; reservation: string }): RedemptionChange => {
    const existing = newRedemptions.get(reservation) ?? redemptionChanges.get(reservation);
    if (existing) return existing;
    const change = unchanged(no, reservation);
    redemptionChanges.set(reservation, change);
    return change;
  };
  const ticketOf = (no: number, lineNo: number): TicketChange => {
    const id = `${no}/${lineNo}`;
    const existing = newTickets.get(id) ?? ticketChanges.get(id);
    if (existing) return existing;
    const change: TicketChange = { no, lineNo, status: 'waiting', endedMs: null };
    ticketChanges.set(id, change);
    return change;
  };

  for (const entry of entries) {
    switch (entry.kind) {
      case 'reserved':
        newRedemptions.set(entry.reservation, rowOf(entry, newTickets.get(`${entry.no}/${entry.lineNo}`)));
        if (entry.lineNo > 0) {
          Object.assign(ticketOf(entry.no, entry.lineNo), { status: 'promoted', endedMs: entry.atMs });
        }
        break;
      case 'queued':
        newTickets.set(`${entry.no}/${entry.lineNo}`, { ...entry, status: 'waiting', endedMs: null });
        break;
      case 'left':
        Object.assign(ticketOf(entry.no, entry.lineNo), { status: entry.ending, endedMs: entry.atMs });
        break;
      case 'line_closed':
        closedLines.set(entry.no, { upTo: entry.upTo, atMs: entry.atMs });
        break;
      case 'redeemed':
        Object.assign(changeOf(entry), {
          status: 'redeemed',
          slot: entry.slot,
          reacquired: entry.reacquired || null,
          redeemedMs: entry.atMs,
          payment: entry.payment || null,
        });
        break;
      case 'paid_again':
        furtherPayments.push({
          no: entry.no,
          reservation: entry.reservation,
          payment: entry.payment,
          atMs: entry.atMs,
        });
        break;
      case 'released':
      case 'expired':
      case 'voided':
        Object.assign(changeOf(entry), {
          status: entry.kind,
          releasedMs: entry.atMs,
          reason: entry.reason || null,
        });
        break;
      case 'refunded':
        Object.assign(changeOf(entry), {
          status: 'refunded',
          burned: entry.burned,
          refundedMs: entry.atMs,
        });
        break;
      case 'status':
        statuses.set(entry.no, entry.status);
        if (entry.action === 'open') begun.set(entry.no, entry.atMs);
        audit.push({
          atMs: entry.atMs,
          actor: entry.actor,
          action: `campaign.${entry.action}`,
          no: entry.no,
          before: { status: entry.before },
          after: { status: entry.status, ...(entry.reason ? { reason: entry.reason } : {}) },
          request: entry.request,
        });
        break;
      case 'restocked':
        added.set(entry.no, (added.get(entry.no) ?? 0) + entry.delta);
        audit.push({
          atMs: entry.atMs,
          actor: entry.actor,
          action: 'campaign.restock',
          no: entry.no,
          before: { total_limit: entry.before },
          after: { total_limit: entry.total },
          request: entry.request,
        });
        break;
      case 'answered':
        answers.push({ no: entry.no, key: entry.key, answer: entry.answer, atMs: entry.atMs });
        break;
      default:
        entry satisfies never;
    }
  }
  return {
    newRedemptions: [...newRedemptions.values()],
    redemptionChanges: [...redemptionChanges.values()],
    newTickets: [...newTickets.values()],
    ticketChanges: [...ticketChanges.values()],
    statuses,
    begun,
    added,
    closedLines,
    answers,
    furtherPayments,
    audit,
  };
}

/**
 * Lists every field, because this runs for every checkout: copying the object by `...` would add a tenth to the cost of
 * folding an entry.
 */
function rowOf(entry: EntryOf<'reserved'>, place: NewTicket | undefined): NewRedemption {
  return {
    reservation: entry.reservation,
    no: entry.no,
    atMs: entry.atMs,
    user: entry.user,
    order: entry.order,
    qty: entry.qty,
    slot: entry.slot,
    dueMs: entry.dueMs,
    lineNo: entry.lineNo,
    code: entry.code,
    terms: entry.terms,
    key: entry.key,
    answer: entry.answer,
    device: entry.device,
    trace: entry.trace,
    stacking: entry.stacking ?? place?.stacking ?? null,
    status: entry.state,
    burned: null,
    reacquired: null,
    redeemedMs: entry.state === 'redeemed' ? entry.atMs : null,
    releasedMs: null,
    refundedMs: null,
    reason: null,
    payment: null,
  };
}

function unchanged(no: number, reservation: string): RedemptionChange {
  return {
    no,
    reservation,
    status: null,
    slot: null,
    burned: null,
    reacquired: null,
    redeemedMs: null,
    releasedMs: null,
    refundedMs: null,
    reason: null,
    payment: null,
  };
}
