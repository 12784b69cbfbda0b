import type { EntryOf, JournalEntry, JournalKind, PlaceThatEnded } from '../contracts/journal.js';
import type { CampaignStatus } from '../domain/campaign.js';
import { compareJournalIds } from '../redis/journal-ids.js';
import type { Place, Reservation, ReservationState, Units } from './facts.js';

/** What a journal entry says about a fact as it was before the entry. */
export type Before =
  /** before: the states that are possible; none = the reservation did not exist. void: why it was voided */
  | { fact: 'state'; of: string; before: readonly ReservationState[]; void?: string }
  | { fact: 'units'; of: string; before: Units }
  /** of: the user. before: null = the user did not wait. left: the place that the user had, if it ended */
  | { fact: 'place'; of: string; before: Place | null; left?: PlaceThatEnded }
  /** The places up to this number ended, each of them or none. */
  | { fact: 'line'; of: ''; upTo: number }
  | { fact: 'status'; of: ''; before: CampaignStatus }
  | { fact: 'total'; of: ''; added: number }
  /** The deadline of a reservation was earlier. */
  | { fact: 'due'; of: string }
  /** of: the reservation. payment: reference of a payment that was not known */
  | { fact: 'payment'; of: string; payment: string }
  /** Transfers of a bucket that had not left, or not arrived. `out`: number of the transfer in the giving bucket. */
  | { fact: 'left'; of: ''; out: number }
  | { fact: 'arrived'; of: ''; from: number; out: number }
  /** The bucket was not sealed. */
  | { fact: 'sealed'; of: '' };

type OfReservation = { reservation: string };
const state = ({ reservation }: OfReservation, before: readonly ReservationState[], more: { void?: string } = {}) =>
  ({ fact: 'state', of: reservation, before, ...more }) as const;
const place = (of: string, before: Place | null) => ({ fact: 'place', of, before }) as const;
const total = (added: number) => ({ fact: 'total', of: '', added }) as const;
const line = (upTo: number) => ({ fact: 'line', of: '', upTo }) as const;
const payment = ({ reservation, payment }: OfReservation & { payment: string }) =>
  payment === '' ? [] : ([{ fact: 'payment', of: reservation, payment }] as const);

/** The units before some were given back. The entry has all that were given back until then. */
function unitsBefore({ before, qty, ending, ...after }: EntryOf<'reduced'>): Units {
  const given = before - qty;
  return {
    qty: before,
    released: after.released - (ending === 'released' ? given : 0),
    refunded: after.refunded - (ending === 'released' ? 0 : given),
    burned: after.burned - (ending === 'burned' ? given : 0),
  };
}

/**
 * The facts that an entry changes, as they were before it. A kind that is missing here does not compile. An entry of
 * another kind may follow before the next one here, so a kind that changes no compared fact returns none.
 */
const BEFORE = {
  reserved: (entry) => [
    state(entry, []),
    ...(entry.lineNo > 0 ? [place(entry.user, { lineNo: entry.lineNo, reservation: entry.reservation })] : []),
  ],
  queued: ({ user }) => [place(user, null)],
  left: ({ user, lineNo, place: left }) => [
    { ...place(user, { lineNo, reservation: left?.reservation ?? null }), ...(left && { left }) },
  ],
  line_closed: ({ upTo }) => [line(upTo)],
  redeemed: (entry) => [state(entry, entry.reacquired ? ['expired', 'released'] : ['reserved']), ...payment(entry)],
  released: (entry) => [state(entry, ['reserved'])],
  expired: (entry) => [state(entry, ['reserved'])],
  refunded: (entry) => [state(entry, ['redeemed'])],
  voided: (entry) => [state(entry, ['reserved', 'redeemed'], { void: entry.reason })],
  reduced: (entry) => [{ fact: 'units', of: entry.reservation, before: unitsBefore(entry) }],
  status: ({ before, status }) => [
    { fact: 'status', of: '', before },
    ...(status === 'closed' ? [line(Number.MAX_SAFE_INTEGER)] : []),
  ],
  restocked: ({ delta }) => [total(delta)],
  moved_in: ({ units, from, out }) => [total(units), { fact: 'arrived', of: '', from, out }],
  moved_out: ({ units, out }) => [total(-units), { fact: 'left', of: '', out }],
  paid_again: (entry) => payment(entry),
  extended: ({ reservation }) => [{ fact: 'due', of: reservation }],
  answered: () => [],
  sealed: () => [{ fact: 'sealed', of: '' }],
} satisfies { [Kind in JournalKind]: (entry: JournalEntry & { kind: Kind }) => readonly Before[] };

export function beforesOf(entry: JournalEntry): readonly Before[] {
  return (BEFORE[entry.kind] as (entry: JournalEntry) => readonly Before[])(entry);
}

/** Returns the first change of a fact after the position to which it is rewound. */
export type FirstChange = <Fact extends Before['fact']>(
  fact: Fact,
  of: string,
) => (Extract<Before, { fact: Fact }> & { at: string }) | undefined;

/**
 * Returns a reservation as it was at an earlier position.
 * @param row as Postgres has it at that position. Where several states are possible, it has one of them
 */
export function rewindReservation(
  id: string,
  record: Reservation | null,
  row: Reservation | null,
  first: FirstChange,
): Reservation | null {
  if (!record) return null;
  const [change, units] = [first('state', id), first('units', id)?.before];
  const possible = change?.before ?? [record.state];
  // A refused reservation is voided in Postgres before the entry of Redis that voids it.
  const isKnown = row && (possible.includes(row.state) || (change?.void !== undefined && row.state === 'voided'));
  const found = possible.length > 0 && isKnown ? row.state : possible[0];
  if (found === undefined) return null;
  return { ...record, ...units, state: found, dueMs: first('due', id) ? null : record.dueMs };
}

/** Does the same for a user's place. Of places that ended with their line, only Postgres has what they were. */
export function rewindPlace(user: string, place: Place | null, row: Place | null, first: FirstChange): Place | null {
  const [change, closing] = [first('place', user), first('line', '')];
  const mayHaveEnded = closing && (change ? change.before === null && isBefore(closing, change) : place === null);
  if (mayHaveEnded) return row && row.lineNo <= closing.upTo ? row : null;
  return change ? change.before : place;
}

const isBefore = (a: { at: string }, b: { at: string }) => compareJournalIds(a.at, b.at) < 0;
