import { type RedemptionRow, unitsMade } from '../final-state.js';
import type { Call } from '../history.js';
import { type Acknowledged, type Facts, grouped } from './facts.js';
import type { Excuse } from './losses.js';
import type { Violation } from './violation.js';

/** Holds end by themselves; a row that is still reserved so long after its deadline was forgotten. */
const OVERDUE_MS = 15_000;

/** Rule 1: every acknowledged promise is in Postgres, in a state that the later acknowledged calls allow. */
export function promisesAreKept(facts: Facts): Violation[] {
  const held = grouped(
    facts.acknowledged.filter(({ data }) => typeof data.reservation_id === 'string'),
    ({ data }) => String(data.reservation_id),
  );
  return [
    ...[...held].flatMap(([reservation, promises]) => unitIsKept(facts, reservation, promises)),
    ...facts.acknowledged
      .filter(({ data }) => data.status === 'queued')
      .flatMap((promise) => placeIsKept(facts, promise)),
    ...[...facts.redemptions.values()].flatMap((row) => [...stateIsAllowed(facts, row), ...partsAreKept(facts, row)]),
    ...promotionsAreKept(facts),
    ...leavingIsKept(facts),
  ];
}

const violation = (what: string, ...evidence: unknown[]): Violation => ({ rule: 'promises', what, evidence });

/** Excused silently: nothing has to be there. Excused visibly: a voided row or a reject has to say it. */
function isExcused(facts: Facts, excuse: Excuse, reservation: string, user: string): boolean {
  if (excuse === 'silently') return true;
  return excuse === 'visibly' && (isVoided(facts, reservation) || facts.isRejected(reservation, user));
}

function isVoided(facts: Facts, reservation: string): boolean {
  const row = facts.redemptions.get(reservation);
  return row?.status === 'voided' && row.reason !== null;
}

function unitIsKept(facts: Facts, reservation: string, promises: readonly Acknowledged[]): Violation[] {
  const [first] = promises;
  if (!first) return [];
  const row = facts.redemptions.get(reservation);
  const attempts = promises.flatMap((one) => facts.attemptsFor(one));
  const durability = facts.durabilityOf(first.product, first.data);
  if (row && row.status !== 'voided') {
    const qty = Number((first.call.body as { qty?: number } | undefined)?.qty ?? 1);
    const same = row.user_id === first.user && row.order_id === first.data.order_id && unitsMade(row) === qty;
    return same ? [] : [violation('the row of an acknowledged reservation differs', first.call, row)];
  }
  if (isExcused(facts, facts.losses.excuseOf(attempts, durability), reservation, first.user)) return [];
  const what = row ? 'an acknowledged reservation was voided' : 'an acknowledged reservation has no row';
  return [violation(what, first.call, row ?? null)];
}

function placeIsKept(facts: Facts, promise: Acknowledged): Violation[] {
  const { product, user, key, call } = promise;
  if (facts.ticketsOf.has(`${product} ${user}`)) return [];
  const excuse = facts.losses.excuseOf(facts.attemptsFor(promise), facts.durabilityOf(product));
  if (excuse === 'silently' || (excuse === 'visibly' && facts.isRejected('', user))) return [];
  const remembered = facts.final.answers.includes(key) ? 'its idempotency key is remembered' : null;
  return [violation('an acknowledged place in line has no row', call, remembered)];
}

function stateIsAllowed(facts: Facts, row: RedemptionRow): Violation[] {
  const { redemption_id: id, status } = row;
  const acknowledged = (kind: 'confirm' | 'release' | 'refund') =>
    facts.about(id, kind).filter((call) => call.status === 200 && !mayBeLost(facts, row, call));
  const tried = (kind: 'confirm' | 'release' | 'refund') => facts.about(id, kind).length > 0;
  const [confirmed, released, refunded] = [acknowledged('confirm'), acknowledged('release'), acknowledged('refund')];
  const wrong = (what: string, calls: readonly Call[] = []) => [violation(what, ...calls, row)];
  const isPaid = status === 'redeemed' || status === 'refunded';
  if (refunded.length > 0 && status !== 'refunded') return wrong(`a refunded reservation is ${status}`, refunded);
  if (confirmed.length > 0 && !isPaid) return wrong(`a paid reservation is ${status}`, confirmed);
  const isBack = status === 'released' || status === 'expired' || (isPaid && row.reacquired);
  if (released.length > 0 && !isBack) return wrong(`a released reservation is ${status}`, released);
  if (status === 'redeemed' && row.pay_before !== null && !tried('confirm'))
    return wrong('a reservation is redeemed although no payment was sent');
  if (status === 'released' && !tried('release')) return wrong('a reservation is released although no client asked');
  if (status === 'refunded' && !tried('refund')) return wrong('a reservation is refunded although no client asked');
  if (status === 'reserved' && row.pay_before !== null && facts.final.observedAt - row.pay_before > OVERDUE_MS)
    return wrong('a reservation is still reserved long after its deadline');
  // After Postgres was set back, references of archived campaigns come from the events of the payments, and the events
  // of the last moment may not have been published.
  const mayLackReference = facts.events.some((event) => event.what === 'postgres-restored');
  const paymentIsLost =
    confirmed.length > 0 && row.pay_before !== null && row.payment_ref === null && !mayLackReference;
  return paymentIsLost ? wrong('the payment reference of a paid reservation is lost', confirmed) : [];
}

/** Units that were acknowledged as given back are, and others are not. */
function partsAreKept(facts: Facts, row: RedemptionRow): Violation[] {
  if (row.status === 'voided') return [];
  return (['released', 'refunded'] as const).flatMap((part) => {
    const kind = part === 'released' ? 'release_part' : 'refund_part';
    const tried = facts.about(row.redemption_id, kind);
    const units = row[`${part}_qty`];
    if (units > 0 && tried.length === 0) return [violation(`units are ${part} although no client asked`, row)];
    const lost = tried.find((call) => {
      const { qty, [`${part}_qty`]: given } = facts.dataOf(call);
      return (
        call.status === 200 && (Number(given) > units || Number(qty) < row.qty) && !partMayBeLost(facts, row, call)
      );
    });
    return lost ? [violation(`units that were ${part} are taken`, lost, row)] : [];
  });
}

/**
 * Whether units that were given back may be lost: the excuse needs no notice when all units of the reservation were
 * given back since.
 */
function partMayBeLost(facts: Facts, row: RedemptionRow, call: Call): boolean {
  if (mayBeLost(facts, row, call)) return true;
  const attempts = facts.attemptsAbout(row.redemption_id, call);
  const isOver = row.status === 'expired' || row.status === 'released';
  return isOver && facts.losses.excuseOf(attempts, facts.durabilityOf(row.product_id, facts.dataOf(call))) !== null;
}

/** A call whose effect may be lost, and was noticed where that is demanded. */
function mayBeLost(facts: Facts, row: RedemptionRow, call: Call): boolean {
  const attempts = facts.attemptsAbout(row.redemption_id, call);
  const excuse = facts.losses.excuseOf(attempts, facts.durabilityOf(row.product_id, facts.dataOf(call)));
  return isExcused(facts, excuse, row.redemption_id, row.user_id);
}

/** Promotions that were seen in queue-status or on a socket. */
function promotionsAreKept(facts: Facts): Violation[] {
  const seen = new Map<string, { at: number; evidence: unknown; user: string }>();
  for (const call of facts.calls) {
    const { reservation_id: id } = facts.dataOf(call);
    if (call.kind === 'status' && call.status === 200 && typeof id === 'string')
      seen.set(id, { at: call.end, evidence: call, user: call.user ?? '' });
  }
  for (const frame of facts.frames) {
    const id = /"reservation_id":"([^"]+)"/.exec(frame.text)?.[1];
    if (id) seen.set(id, { at: frame.at, evidence: frame, user: frame.user });
  }
  return [...seen].flatMap(([id, { at, evidence, user }]) => {
    const row = facts.redemptions.get(id);
    if (row && row.status !== 'voided' && row.user_id === user) return [];
    if (isExcused(facts, facts.losses.excuseOfUnknown(at), id, user)) return [];
    return [
      violation('a reservation that its holder saw is missing, voided or of another user', evidence, row ?? null),
    ];
  });
}

function leavingIsKept(facts: Facts): Violation[] {
  return facts.calls.flatMap((call) => {
    if (call.kind !== 'leave' || call.status !== 200) return [];
    const { product, user = '', end } = call;
    const asked = facts.acknowledged.some(
      (one) => one.product === product && one.user === user && one.call.end > call.at,
    );
    const still = (facts.ticketsOf.get(`${product} ${user}`) ?? []).filter(({ status }) => status === 'waiting');
    if (asked || still.length === 0) return [];
    const attempts = facts.calls.filter((one) => one.kind === 'leave' && one.user === user && one.at <= end);
    const excuse = facts.losses.excuseOf(attempts, facts.durabilityOf(product));
    return excuse === 'silently' ? [] : [violation('a user who left the line waits again', call, still)];
  });
}
