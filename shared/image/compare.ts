import type { Difference } from '../contracts/verdict.js';
import type { UserId } from '../domain/ids.js';
import { isPseudonym } from '../postgres/erasures.js';
import { type Head, type Place, type Reservation, taken } from './facts.js';
import type { CoveredTail } from './journal-tail.js';

/** Facts of Redis, rewound to the cursor. Needs a covered tail, so nothing uncovered is ever compared. */
export class AtPosition<Facts> {
  constructor(
    readonly tail: CoveredTail,
    readonly facts: Facts,
  ) {}
}

const TOTALS_DIFFER = 'the totals of Redis and Postgres differ';
/** The states in which units are taken; each has a counter. */
export const COUNTED = ['held', 'redeemed', 'burned'] as const;
const PLACES = {
  missing: 'a user waits in Redis without a place in Postgres',
  unknown: 'a place in Postgres that is not in Redis',
  other: 'Redis and Postgres have different places',
  quantity: 'a user waits for other units in Redis than in Postgres',
} as const;
const PLACE_REASONS: ReadonlySet<string> = new Set(Object.values(PLACES));

/** Whether a difference is about a place in line. */
export function isPlace({ why }: Difference): boolean {
  return PLACE_REASONS.has(why);
}

/** Whether Redis has a place that Postgres lacks. */
export function isMissingPlace({ why }: Difference): boolean {
  return why === PLACES.missing;
}

/**
 * Whether Postgres lacks units that were added in Redis. If so, it has no room for the reservations that it lacks.
 */
export function lacksRestock(differences: readonly Difference[]): boolean {
  return differences.some(({ why, redis, postgres }) => why === TOTALS_DIFFER && Number(redis) > Number(postgres));
}

/** A difference of reservations, and how many more units Redis takes than Postgres. */
export type ReservationDifference = Difference & { surplus: number };

/** A reservation that is voided or missing on both sides is no difference. */
export function* compareReservations(
  redis: AtPosition<ReadonlyMap<string, Reservation>>,
  postgres: ReadonlyMap<string, Reservation>,
  ids: readonly string[],
): Generator<ReservationDifference> {
  for (const id of ids) {
    const [record = null, row = null] = [redis.facts.get(id), postgres.get(id)];
    const difference = differenceOf(record, row);
    if (difference) yield { reservation: id, ...difference, surplus: taken(record) - taken(row) };
  }
}

function differenceOf(record: Reservation | null, row: Reservation | null): Omit<Difference, 'reservation'> | null {
  const [redis, postgres] = [record && textOf(record), row && textOf(row)];
  const states = { redis, postgres };
  if (redis === postgres)
    return record && row ? (usersDiffer(record, row) ?? unitsDiffer(record, row) ?? detailsDiffer(record, row)) : null;
  if (record && !row) {
    if (record.state === 'voided') return null;
    return { side: 'redis', why: 'promised in Redis without a row in Postgres', ...states };
  }
  if (!record) {
    if (row?.state === 'voided') return null;
    return { side: 'postgres', why: 'a row in Postgres that is not in Redis', ...states };
  }
  return { side: 'postgres', why: 'Redis and Postgres have different states', ...states };
}

const textOf = ({ state }: Reservation): string => (state === 'burned' ? 'refunded, burned' : state);

/**
 * A pseudonym may be on one side only: an erasure replaces the user in Postgres first, then in Redis. The ids are
 * personal data, so the difference does not contain them.
 */
function usersDiffer(record: Reservation, row: Reservation): Omit<Difference, 'reservation'> | null {
  if (record.user === row.user || [record.user, row.user].some((user) => isPseudonym(user as UserId))) return null;
  const why = 'Redis and Postgres have different users';
  return { side: 'postgres', why, redis: textOf(record), postgres: textOf(row) };
}

/** Units are given back in parts. A voided row may have all that the reservation had. */
function unitsDiffer(record: Reservation, row: Reservation): Omit<Difference, 'reservation'> | null {
  if (record.state === 'voided') return null;
  if (record.qty !== row.qty) {
    const [more, fewer] = record.qty < row.qty ? ['Postgres', 'Redis'] : ['Redis', 'Postgres'];
    const why = `${more} has more units of the reservation than ${fewer}`;
    return { side: 'postgres', why, redis: String(record.qty), postgres: String(row.qty) };
  }
  const [redis, postgres] = [givenBack(record), givenBack(row)];
  if (redis === postgres) return null;
  return { side: 'postgres', why: 'units of the reservation were given back in different ways', redis, postgres };
}

/** Only the deadline of units that are held matters. */
function detailsDiffer(record: Reservation, row: Reservation): Omit<Difference, 'reservation'> | null {
  const differ = (what: string, redis: number | string | null, postgres: number | string | null) => {
    const text = (value: number | string | null) => (value === null ? null : String(value));
    return {
      side: 'postgres' as const,
      why: `Redis and Postgres have different ${what}`,
      redis: text(redis),
      postgres: text(postgres),
    };
  };
  if (record.state === 'voided') return null;
  if (record.order !== row.order) return differ('orders', record.order, row.order);
  if (record.code !== row.code) return differ('codes', record.code, row.code);
  const isHeld = record.state === 'reserved' && record.dueMs !== null;
  return isHeld && record.dueMs !== row.dueMs ? differ('deadlines', record.dueMs, row.dueMs) : null;
}

const givenBack = ({ released, refunded, burned }: Reservation): string =>
  `released ${released}, refunded ${refunded}, of these burned ${burned}`;

export function* comparePlaces(
  redis: AtPosition<ReadonlyMap<string, Place>>,
  postgres: ReadonlyMap<string, Place>,
  users: readonly string[],
): Generator<Difference> {
  for (const user of users) {
    const [place, ticket] = [redis.facts.get(user), postgres.get(user)];
    const why = whyDifferent(place, ticket);
    if (why === null) continue;
    const reservation = place?.reservation ?? ticket?.reservation ?? null;
    const numbers = { redis: placeText(place), postgres: placeText(ticket) };
    yield { reservation, side: place && !ticket ? 'redis' : 'postgres', why, ...numbers };
  }
}

function whyDifferent(place: Place | undefined, ticket: Place | undefined): string | null {
  if (!place || !ticket) return place ? PLACES.missing : ticket ? PLACES.unknown : null;
  if (!isSamePlace(place, ticket)) return PLACES.other;
  return place.qty === undefined || place.qty === ticket.qty ? null : PLACES.quantity;
}

const isSamePlace = (place: Place, ticket: Place): boolean =>
  place.lineNo === ticket.lineNo && [null, ticket.reservation].includes(place.reservation);

const placeText = (place: Place | undefined): string | null =>
  place ? `waiting, line number ${place.lineNo}${(place.qty ?? 1) > 1 ? ` for ${place.qty} units` : ''}` : null;

/** Compares status and counters. A counter that is null in Redis is not known. */
export function* compareHeads(
  { facts: redis }: AtPosition<{ [Name in keyof Head]: Head[Name] | null }>,
  postgres: Head,
): Generator<Difference & { drift: number }> {
  const differ = (why: string, there: number, here: number | null): Difference & { drift: number } => ({
    ...asCounters(why, there, here),
    drift: Math.abs(there - Number(here)),
  });
  for (const state of COUNTED) {
    const there = redis[state];
    if (there !== null && there !== postgres[state])
      yield differ(`the counter of ${state} units in Redis differs from the rows in Postgres`, there, postgres[state]);
  }
  if (redis.waiting !== null && redis.waiting !== postgres.waiting) {
    const why = 'the counter of waiting users in Redis differs from the places in Postgres';
    yield differ(why, redis.waiting, postgres.waiting);
  }
  if (redis.total !== postgres.total) {
    const drift = Math.abs(Number(redis.total) - Number(postgres.total));
    yield { ...asCounters(TOTALS_DIFFER, redis.total, postgres.total), drift };
  }
  if (redis.status !== null && redis.status !== postgres.status)
    yield { ...asCounters('the statuses of Redis and Postgres differ', redis.status, postgres.status), drift: 1 };
}

export function asCounters(why: string, redis: number | string | null, postgres: number | string | null): Difference {
  const text = (value: number | string | null) => (value === null ? null : String(value));
  return { reservation: null, side: 'counters', why, redis: text(redis), postgres: text(postgres) };
}
