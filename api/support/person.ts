import type { ActionRow, AttemptRow, FurtherPaymentRow, PersonBan, PersonHistory } from './person-history.js';
import type { RedemptionFinder } from './redemption-finder.js';
import type { Moment, PlaceData, RedemptionData } from './support.contract.js';

const ROWS = 100;
const ATTEMPTS = 200;
const TIMELINE = 500;

export type Person = {
  user_id: string;
  redemptions: RedemptionData[];
  places: PlaceData[];
  timeline: Moment[];
  truncated: boolean;
  complete: boolean;
};

/** Reads a user over all campaigns: what they hold, where they wait, and what happened. @throws EngineUnavailable */
export async function readPerson(finder: RedemptionFinder, history: PersonHistory, user: string): Promise<Person> {
  const [found, attempts, actions, bans] = await Promise.all([
    finder.find({ user_id: user, limit: ROWS }),
    history.attempts(user, ATTEMPTS),
    history.actions(user, ROWS),
    history.bans(user, ROWS),
  ]);
  const payments = await history.furtherPayments(found.rows.map(({ redemption_id }) => redemption_id));
  const timeline = [
    ...found.rows.flatMap(momentsOfRedemption),
    ...found.places.flatMap(momentsOfPlace),
    ...payments.map(ofPayment),
    ...attempts.map(ofAttempt),
    ...actions.map(ofAction),
    ...bans.map(ofBan),
  ].sort((a, b) => (a.at < b.at ? 1 : a.at > b.at ? -1 : 0));
  const truncated =
    found.next !== null ||
    found.places.length >= ROWS ||
    attempts.length === ATTEMPTS ||
    actions.length === ROWS ||
    timeline.length > TIMELINE;
  return {
    user_id: user,
    redemptions: found.rows,
    places: found.places,
    timeline: timeline.slice(0, TIMELINE),
    truncated,
    complete: found.complete,
  };
}

function momentsOfRedemption(row: RedemptionData): Moment[] {
  const at = (kind: Moment['kind'], time: string | null, detail: string | null = null): Moment[] =>
    time === null
      ? []
      : [{ at: time, kind, product_id: row.product_id, reservation_id: row.redemption_id, detail, by: null }];
  const ended = row.status === 'expired' || row.status === 'voided' ? row.status : 'released';
  return [
    ...at(row.waited ? 'promoted' : 'reserved', row.reserved_at, row.code),
    ...at('redeemed', row.redeemed_at, row.payment_ref),
    ...at(ended, row.released_at, row.reason),
    ...at('refunded', row.refunded_at),
    ...at('reduced', row.reduced_at ?? null, reductionText(row)),
  ];
}

function reductionText({ released_qty = 0, refunded_qty = 0, burned_qty = 0 }: RedemptionData): string {
  const parts: [number, string][] = [
    [released_qty, 'released'],
    [refunded_qty - burned_qty, 'refunded'],
    [burned_qty, 'refunded and burned'],
  ];
  return parts.flatMap(([units, what]) => (units > 0 ? `${units} ${what}` : [])).join(', ');
}

function momentsOfPlace({ product_id, status, joined_at, ended_at }: PlaceData): Moment[] {
  const at = (kind: Moment['kind'], time: string): Moment => ({
    at: time,
    kind,
    product_id,
    reservation_id: null,
    detail: null,
    by: null,
  });
  const moments = joined_at === null ? [] : [at('joined', joined_at)];
  if (ended_at !== null && status === 'left') moments.push(at('left', ended_at));
  if (ended_at !== null && status === 'closed') moments.push(at('line_closed', ended_at));
  return moments;
}

const ofPayment = ({ reservation_id, product_id, payment_ref, paid_at }: FurtherPaymentRow): Moment => ({
  at: paid_at.toISOString(),
  kind: 'paid_again',
  product_id,
  reservation_id,
  detail: payment_ref,
  by: null,
});

const ofAttempt = ({ at, action, outcome, product_id, reservation_id }: AttemptRow): Moment => ({
  at: at.toISOString(),
  kind: 'attempt',
  product_id,
  reservation_id,
  detail: `${action}: ${outcome}`,
  by: null,
});

const ofAction = ({ at, action, actor, product_id, reservation_id, reason }: ActionRow): Moment => ({
  at: at.toISOString(),
  kind: 'operator',
  product_id,
  reservation_id,
  detail: reason ? `${action}: ${reason}` : action,
  by: actor,
});

const ofBan = ({ at, effect, until, reason, actor }: PersonBan): Moment => ({
  at: at.toISOString(),
  kind: 'banned',
  product_id: null,
  reservation_id: null,
  detail: `${effect} until ${until?.toISOString() ?? 'lifted'}: ${reason}`,
  by: actor,
});
