import type { EntryOf, JournalEntry } from '../contracts/journal.js';
import type { CampaignStatus } from '../domain/campaign.js';
import type { RedemptionStatus } from '../domain/reservation.js';

/** The row of a new reservation, as it is at the end of the batch. */
export type NewRedemption = Omit<EntryOf<'reserved'>, 'kind' | 'journalId' | 'state' | 'trace' | 'answer' | 'key'> & {
  key: string;
  answer: string;
  trace: string;
  metadata: string | null;
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
  /** The new deadline, if it was extended. */
  extendedToMs: number | null;
  /** The units that the reservation has kept, if some were given back. */
  kept: KeptUnits | null;
};

/** Units of a reservation after some were given back, and how many were. */
export type KeptUnits = { qty: number; released: number; refunded: number; burned: number; atMs: number };

export type NewTicket = Omit<EntryOf<'queued'>, 'kind' | 'journalId'> & TicketChange & { metadata: string | null };
export type TicketChange = {
  no: number;
  lineNo: number;
  status: 'waiting' | 'promoted' | 'left' | 'closed';
  endedMs: number | null;
};

export type RevokedPlace = { no: number; lineNo: number };

/** An idempotency record that no other row contains. */
export type IdempotencyRow = { no: number; key: string; answer: string; atMs: number };

/** Units and codes that leave a bucket for another one, or arrive there. `codes`: empty when they arrive. */
export type StockTransfer = {
  no: number;
  from: number;
  to: number;
  units: number;
  out: number;
  atMs: number;
  codes: readonly number[];
};

/** A payment for a reservation that is paid already. */
export type FurtherPayment = { no: number; reservation: string; payment: string; atMs: number };

export type AuditRow = {
  atMs: number;
  actor: string;
  action: string;
  no: number;
  before: Record<string, unknown> | null;
  after: Record<string, unknown>;
  request: string;
};

type Removal = NonNullable<EntryOf<'left'>['removed']>;

/** One change of a reservation. Its first state is its own row, so making it is none. */
export type HistoryRow = {
  journalId: string;
  no: number;
  reservation: string;
  kind: HistoryKind;
  atMs: number;
  by: string;
  reason: string;
  /** What else changed; null = nothing. */
  detail: Record<string, unknown> | null;
};
export const HISTORY_KINDS = [
  ...(['redeemed', 'paid_again', 'extended', 'reduced', 'released', 'expired', 'refunded', 'voided'] as const),
] as const;
export type HistoryKind = (typeof HISTORY_KINDS)[number];

/** The net effect of a batch of journal entries, one set of rows for each table. */
export type Projection = {
  newRedemptions: NewRedemption[];
  redemptionChanges: RedemptionChange[];
  newTickets: NewTicket[];
  ticketChanges: TicketChange[];
  /** Places that the service or an operator ended alone, not with their line, and not by anything that the user did. */
  revokedPlaces: RevokedPlace[];
  /** Campaign number → status at the end of the batch. */
  statuses: Map<number, CampaignStatus>;
  /** Campaign number → ms at which an operator opened it. */
  begun: Map<number, number>;
  /** Campaign number → units that the batch added (negative: removed). */
  added: Map<number, number>;
  /** The same by bucket, for the campaigns that are divided. */
  addedTo: { no: number; bucket: number; units: number }[];
  sealed: { no: number; bucket: number; atMs: number }[];
  movedOut: StockTransfer[];
  movedIn: StockTransfer[];
  /** Campaign number → the last line number that no longer waits, since when (ms), and in which bucket. */
  closedLines: Map<number, { upTo: number; atMs: number; bucket: number }>;
  answers: IdempotencyRow[];
  furtherPayments: FurtherPayment[];
  audit: AuditRow[];
  /** In the order of the entries. Several changes of one reservation are several rows. */
  history: HistoryRow[];
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
  const rest: Omit<Projection, 'newRedemptions' | 'redemptionChanges' | 'newTickets' | 'ticketChanges'> = {
    ...{ revokedPlaces: [], answers: [], furtherPayments: [], audit: [], history: [] },
    ...{ statuses: new Map(), begun: new Map(), added: new Map(), closedLines: new Map() },
    ...{ addedTo: [], sealed: [], movedOut: [], movedIn: [] },
  };

  const changeOf = ({ no, reservation }: { no: number; reservation: string }): RedemptionChange => {
    const existing = newRedemptions.get(reservation) ?? redemptionChanges.get(reservation);
    if (existing) return existing;
    const change = unchanged(no, reservation);
    redemptionChanges.set(reservation, change);
    return change;
  };
  const keep = (entry: EntryOf<HistoryKind>, detail: HistoryRow['detail'] = null): void => {
    const { journalId, no, reservation, kind, atMs, by = '' } = entry;
    // Of an expiry the kind says it all.
    const reason = 'reason' in entry && entry.kind !== 'expired' ? entry.reason : '';
    rest.history.push({ journalId, no, reservation, kind, atMs, by, reason, detail });
  };
  const reduce = (entry: EntryOf<'reduced'>): void => {
    const { qty, released, refunded, burned, atMs } = entry;
    const row = newRedemptions.get(entry.reservation);
    // The row is inserted with the units that are left, because users in line may have got the others.
    // A restated reservation has this number already, and its reductions count down to it.
    if (row) row.qty = Math.min(row.qty, qty);
    changeOf(entry).kept = { qty, released, refunded, burned, atMs };
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
        newTickets.set(`${entry.no}/${entry.lineNo}`, {
          ...entry,
          ...{ metadata: entry.metadata ?? null, status: 'waiting', endedMs: null },
        });
        break;
      case 'left':
        Object.assign(ticketOf(entry.no, entry.lineNo), { status: entry.ending, endedMs: entry.atMs });
        if (entry.reason === 'absent' || entry.reason === 'unservable' || entry.removed)
          rest.revokedPlaces.push({ no: entry.no, lineNo: entry.lineNo });
        if (entry.removed) rest.audit.push(removalOf(entry, entry.removed));
        break;
      case 'line_closed':
        rest.closedLines.set(entry.no, { upTo: entry.upTo, atMs: entry.atMs, bucket: entry.bucket ?? 0 });
        break;
      case 'redeemed':
        Object.assign(changeOf(entry), {
          status: 'redeemed',
          slot: entry.slot,
          reacquired: entry.reacquired || null,
          redeemedMs: entry.atMs,
          payment: entry.payment || null,
        });
        keep(entry, {
          ...(entry.payment ? { payment_ref: entry.payment } : {}),
          ...(entry.reacquired ? { reacquired: true } : {}),
        });
        break;
      case 'extended':
        changeOf(entry).extendedToMs = entry.dueMs;
        keep(entry, { pay_before: new Date(entry.dueMs).toISOString() });
        break;
      case 'reduced':
        reduce(entry);
        keep(entry, { qty_before: entry.before, qty: entry.qty, ending: entry.ending });
        break;
      case 'paid_again':
        rest.furtherPayments.push({
          no: entry.no,
          reservation: entry.reservation,
          payment: entry.payment,
          atMs: entry.atMs,
        });
        keep(entry, { payment_ref: entry.payment });
        break;
      case 'released':
      case 'expired':
      case 'voided':
        Object.assign(changeOf(entry), {
          status: entry.kind,
          releasedMs: entry.atMs,
          reason: entry.reason || null,
        });
        keep(entry);
        break;
      case 'refunded':
        Object.assign(changeOf(entry), {
          status: 'refunded',
          burned: entry.burned,
          refundedMs: entry.atMs,
        });
        keep(entry, { burned: entry.burned });
        break;
      case 'status':
        if (entry.status === 'closed')
          rest.closedLines.set(entry.no, {
            upTo: Number.MAX_SAFE_INTEGER,
            atMs: entry.atMs,
            bucket: entry.bucket ?? 0,
          });
        // Each bucket has its status in Redis; bucket 0 speaks for the campaign.
        if (entry.bucket !== undefined) break;
        rest.statuses.set(entry.no, entry.status);
        if (entry.action === 'open') rest.begun.set(entry.no, entry.atMs);
        rest.audit.push({
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
        rest.added.set(entry.no, (rest.added.get(entry.no) ?? 0) + entry.delta);
        rest.addedTo.push({ no: entry.no, bucket: entry.bucket ?? 0, units: entry.delta });
        rest.audit.push({
          atMs: entry.atMs,
          actor: entry.actor,
          action: 'campaign.restock',
          no: entry.no,
          before: { total_limit: entry.before },
          after: { total_limit: entry.total },
          request: entry.request,
        });
        break;
      case 'sealed':
        rest.sealed.push({ no: entry.no, bucket: entry.bucket ?? 0, atMs: entry.atMs });
        break;
      case 'moved_out':
        rest.movedOut.push(transferOf(entry, entry.bucket ?? 0, entry.to, entry.codes));
        break;
      case 'moved_in':
        rest.movedIn.push(transferOf(entry, entry.from, entry.bucket ?? 0, []));
        break;
      case 'answered':
        rest.answers.push({ no: entry.no, key: entry.key, answer: entry.answer, atMs: entry.atMs });
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
    ...rest,
  };
}

function removalOf({ atMs, no, user }: EntryOf<'left'>, { by, request, note }: Removal): AuditRow {
  const after = { user_id: user, ...(note ? { reason: note } : {}) };
  return { atMs, actor: by, action: 'line.remove', no, before: null, after, request };
}

function transferOf(
  { no, units, out, atMs }: EntryOf<'moved_out' | 'moved_in'>,
  from: number,
  to: number,
  codes: readonly number[],
): StockTransfer {
  return { no, from, to, units, out, atMs, codes };
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
    metadata: entry.metadata ?? place?.metadata ?? null,
    status: entry.state,
    burned: null,
    reacquired: null,
    redeemedMs: entry.state === 'redeemed' ? entry.atMs : null,
    releasedMs: null,
    refundedMs: null,
    reason: null,
    payment: null,
    extendedToMs: null,
    kept: null,
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
    extendedToMs: null,
    kept: null,
  };
}
