import { type RedemptionRow, type TicketRow, unitsMade } from '../final-state.js';
import type { Acknowledged, Facts } from './facts.js';
import type { Violation } from './violation.js';

type Place = {
  promise: Acknowledged;
  beganAt: number;
  ticket: TicketRow;
  servedAt: number | null;
  /** Until when the user certainly waited, by Redis's clock; 0 = unknown. */
  waitedUntil: number;
};

/** Evidence for one campaign is enough; the first pairs are shown. */
const SHOWN = 3;

/**
 * Rule 4: who was acknowledged a place before another person's first request began is ahead of that person and is
 * served first. Left out: places that may be lost, people who left or were away, and groups as docs/decisions/0019 has
 * them.
 */
export function lineIsStrict(facts: Facts): Violation[] {
  return [...facts.campaigns.values()].flatMap(({ product_id: product }) => {
    const places = placesOf(facts, product);
    const order = pairs(places).filter(([first, second]) => first.ticket.line_no >= second.ticket.line_no);
    const wrong = order
      .slice(0, SHOWN)
      .map(([first, second]) => violation('a later place is before an earlier one', first, second));
    if (facts.campaigns.get(product)?.presence_seconds !== null) return wrong;
    return [...wrong, ...servedInTurn(facts, places), ...nobodyBarged(facts, product, places)];
  });
}

const violation = (what: string, first: Place, second: Place | RedemptionRow): Violation => {
  const shown = (place: Place | RedemptionRow) =>
    'ticket' in place ? { call: place.promise.call, ticket: place.ticket, served_at: place.servedAt } : place;
  return { rule: 'line', what, evidence: [shown(first), shown(second)] };
};

/** The first acknowledged place of each person, where it cannot be lost. */
function placesOf(facts: Facts, product: string): Place[] {
  const seen = new Set<string>();
  return facts.acknowledged.flatMap((promise) => {
    if (promise.product !== product || promise.data.status !== 'queued' || seen.has(promise.user)) return [];
    seen.add(promise.user);
    const ticket = (facts.ticketsOf.get(`${product} ${promise.user}`) ?? []).find(
      ({ idempotency_key: key }) => key === promise.key,
    );
    if (!ticket) return [];
    const attempts = facts.attemptsFor(promise);
    if (facts.losses.excuseOf(attempts, facts.durabilityOf(product)) !== null) return [];
    const beganAt = Math.min(...attempts.map(({ at }) => at));
    const served = servedAt(facts, ticket);
    return [{ promise, beganAt, ticket, servedAt: served, waitedUntil: waitedUntil(facts, promise, ticket, served) }];
  });
}

function servedAt(facts: Facts, ticket: TicketRow): number | null {
  const row = facts.redemptions.get(ticket.reservation_id);
  return row && row.line_no === ticket.line_no ? row.reserved_at : null;
}

/** Pairs of which the first was acknowledged before the second asked. */
function pairs(places: readonly Place[]): [Place, Place][] {
  return places.flatMap((first) =>
    places.filter((second) => first.promise.call.end < second.beganAt).map((second): [Place, Place] => [first, second]),
  );
}

function servedInTurn(facts: Facts, places: readonly Place[]): Violation[] {
  const tolerance = clockTolerance(facts);
  const wrong = pairs(places).filter(([first, second]) => {
    if (second.servedAt === null || mayPass(facts, first, second.ticket.qty, second.servedAt)) return false;
    return first.waitedUntil > second.servedAt + tolerance;
  });
  return wrong.slice(0, SHOWN).map(([first, second]) => violation('a later place was served first', first, second));
}

/** Units that were taken without a place while another user waited. */
function nobodyBarged(facts: Facts, product: string, places: readonly Place[]): Violation[] {
  const tolerance = clockTolerance(facts);
  const wrong = facts.acknowledged.flatMap((promise) => {
    const row = facts.redemptions.get(String(promise.data.reservation_id));
    if (promise.product !== product || !row || row.line_no !== null) return [];
    const attempts = facts.attemptsFor(promise);
    if (facts.losses.excuseOf(attempts, facts.durabilityOf(product, promise.data)) !== null) return [];
    const beganAt = Math.min(...attempts.map(({ at }) => at));
    const passed = places.find(
      (place) =>
        place.promise.call.end < beganAt &&
        !mayPass(facts, place, unitsMade(row), row.reserved_at) &&
        place.ticket.joined_at < row.reserved_at - tolerance &&
        place.waitedUntil > row.reserved_at + tolerance,
    );
    return passed ? [violation('a unit was given to a new user while another user waited', passed, row)] : [];
  });
  return wrong.slice(0, SHOWN);
}

/**
 * Until when a person waited. The repair of a Postgres that was set back writes its own time as the end of a place
 * whose entry is lost, so such a place is only known to have been in line when an API last returned that.
 */
function waitedUntil(facts: Facts, promise: Acknowledged, ticket: TicketRow, served: number | null): number {
  if (served !== null) return served;
  if (ticket.ended_at === null) return ticket.status === 'waiting' ? Number.POSITIVE_INFINITY : 0;
  return isEndOfRepair(facts, ticket.ended_at) ? lastSeenWaiting(facts, promise) : ticket.ended_at;
}

/** Whether a place ended while Postgres was set back and not repaired, so that the repair may have written its end. */
function isEndOfRepair(facts: Facts, endedAtMs: number): boolean {
  const tolerance = clockTolerance(facts);
  const at = endedAtMs - facts.final.beganAt;
  return facts.losses.repairs.some(({ from, to }) => at >= from - tolerance && at <= to + tolerance);
}

/** When the last request was sent whose response says that the user was in line, by Redis's clock. */
function lastSeenWaiting(facts: Facts, { product, user, call }: Acknowledged): number {
  const isOnlyPlace = facts.ticketsOf.get(`${product} ${user}`)?.length === 1;
  const seen = facts.calls.filter(
    (one) =>
      one.kind === 'status' && one.product === product && one.user === user && facts.dataOf(one).status === 'queued',
  );
  const at = Math.max(call.at, ...(isOnlyPlace ? seen.map((one) => one.at) : []));
  return facts.final.beganAt + at;
}

/** Whether a user who wants `qty` may be served at a time before a user in front. */
function mayPass(facts: Facts, first: Place, qty: number, servedAtMs: number): boolean {
  const at = servedAtMs - facts.final.beganAt;
  return first.ticket.qty > qty || facts.losses.isolatedBetween(at, at);
}

/** Times of Redis are compared; a run may have moved its clock. */
function clockTolerance({ events }: Facts): number {
  const moves = events.flatMap((event) => (event.what === 'redis-clock' ? [Math.abs(event.movedMs)] : []));
  return moves.length === 0 ? 0 : 2 * Math.max(...moves);
}
