import type { EntryOf, JournalEntry } from '../../shared/contracts/journal.js';
import type { Acknowledged } from '../../shared/sale/acknowledged.js';
import type { KnownRows } from './known-rows.js';

/** Why the end of a place is rejected. */
export const PROMOTED = 'the place in line has been promoted';

/** Adds a place in line, or only its response when Postgres has the place. */
export function adaptQueued(entry: EntryOf<'queued'>, known: KnownRows, entries: JournalEntry[]): string | null {
  if (known.ticketReservations.has(entry.reservation) || known.reservations.has(entry.reservation)) {
    entries.push(...responseOf(entry, known));
    return null;
  }
  const campaign = known.campaigns.get(entry.no);
  const taken = known.tickets.has(`${entry.no}/${entry.lineNo}`);
  // Another user has taken this line number since, so the place moves to the end of the line.
  const lineNo = taken ? (campaign?.lastLineNo ?? entry.lineNo) + 1 : entry.lineNo;
  if (campaign) campaign.lastLineNo = Math.max(campaign.lastLineNo, lineNo);
  known.tickets.set(`${entry.no}/${lineNo}`, { reservation: entry.reservation, status: 'waiting' });
  known.ticketReservations.add(entry.reservation);
  known.ticketUsers.add(`${entry.no}/${entry.user}`);
  entries.push({ ...entry, lineNo });
  if (campaign?.closed) {
    known.tickets.set(`${entry.no}/${lineNo}`, { reservation: entry.reservation, status: 'closed' });
    const { no, atMs, user, trace, journalId } = entry;
    entries.push({ kind: 'left', no, atMs, user, lineNo, ending: 'closed', reason: '', trace, journalId });
  }
  return null;
}

/** Adds the place and its end. @returns why the fact is rejected; null = it is not */
export function adaptFactOfPlace(fact: Acknowledged, known: KnownRows, entries: JournalEntry[]): string | null {
  const { journalId, no, atMs, user, reservation, of } = fact;
  if (of.kind !== 'place') return null;
  adaptQueued(queuedFrom(fact, of), known, entries);
  if (of.isWaiting) return null;
  for (const [place, ticket] of known.tickets) {
    if (ticket.reservation !== reservation) continue;
    if (of.hasLeft && ticket.status === 'promoted') return PROMOTED;
    if (ticket.status !== 'waiting') continue;
    ticket.status = of.hasLeft ? 'left' : 'closed';
    const lineNo = Number(place.slice(place.indexOf('/') + 1));
    const ending = of.hasLeft ? 'left' : 'closed';
    entries.push({ kind: 'left', journalId, no, atMs, user, lineNo, ending, reason: '', trace: '' });
  }
  return null;
}

/**
 * Returns the response of a claim whose reservation or place Postgres has already; none if the claim has no key. A fact
 * without the key, or with another one, may have made the row first. A voided reservation has no response: a later
 * history may have given the user another one under the same key, whose response stays.
 */
export function responseOf(
  claim: Pick<EntryOf<'reserved'>, 'journalId' | 'no' | 'atMs' | 'key' | 'answer'> & { reservation: string },
  known: KnownRows,
): JournalEntry[] {
  const { journalId, no, atMs, key, answer, reservation } = claim;
  return key === '' || isVoided(reservation, known) ? [] : [{ kind: 'answered', journalId, no, atMs, key, answer }];
}

export function isVoided(reservation: string, known: KnownRows): boolean {
  return known.reservations.get(reservation)?.status === 'voided';
}

/** Returns the entry of an acknowledged place that Postgres lacks. */
function queuedFrom(fact: Acknowledged, place: Extract<Acknowledged['of'], { kind: 'place' }>): EntryOf<'queued'> {
  const { journalId, no, atMs, reservation, user, lineNo, stacking, key, answer } = fact;
  const { qty, order, code } = place;
  const entry = { journalId, no, atMs, reservation, user, order, qty, lineNo, code, key, answer, stacking };
  return { kind: 'queued', ...entry, device: '', trace: '' };
}
