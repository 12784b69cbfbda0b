import type { Event } from '../history.js';
import type { Facts } from './facts.js';
import type { Violation } from './violation.js';

type Backup = Event & { what: 'backup' };

/** What may become of a reservation that Postgres had in a state. A late payment may take units again. */
const LATER: Record<string, readonly string[]> = {
  redeemed: ['redeemed', 'refunded'],
  refunded: ['refunded'],
};

/** Rule 11: what Postgres had when a backup was made it has for good, whatever both engines lost since. */
export function backupsAreKept(facts: Facts): Violation[] {
  return facts.events.flatMap((event) =>
    event.what === 'backup' ? [...reservationsAreKept(facts, event), ...placesAreKept(facts, event)] : [],
  );
}

const violation = (what: string, ...evidence: unknown[]): Violation => ({ rule: 'backups', what, evidence });

function reservationsAreKept(facts: Facts, { at, redemptions }: Backup): Violation[] {
  return Object.entries(redemptions).flatMap(([id, before]) => {
    const row = facts.redemptions.get(id);
    if (!row) return [violation('a reservation that a backup had has no row', { id, before, at })];
    const allowed = LATER[before];
    if (!allowed || allowed.includes(row.status)) return [];
    return [violation(`a reservation that was ${before} in a backup is ${row.status}`, { at }, row)];
  });
}

const placesAreKept = (facts: Facts, { at, places }: Backup): Violation[] =>
  places.flatMap((place) =>
    facts.ticketsOf.has(place) ? [] : [violation('a place that a backup had has no row', { place, at })],
  );
