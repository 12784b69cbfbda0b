import type { Call } from '../history.js';
import type { Facts } from './facts.js';
import type { Violation } from './violation.js';

/** Standings of a holder before the end. */
const UNPAID = new Set(['promoted', 'completed']);

/** Rule 6: a reservation ends once, and never comes back to life. */
export function reservationsEndOnce(facts: Facts): Violation[] {
  const ids = new Set(facts.calls.flatMap(({ reservation }) => (reservation === undefined ? [] : [reservation])));
  const standings = standingsOf(facts);
  return [...ids].flatMap((id) => {
    const paid = facts.about(id, 'confirm').filter(({ status }) => status === 200);
    const released = facts.about(id, 'release').filter(({ status }) => status === 200);
    const refunded = facts.about(id, 'refund').filter(({ status }) => status === 200);
    const sure = (call: Call) =>
      facts.losses.excuseOf(facts.attemptsAbout(id, call), facts.durabilityOf(call.product, facts.dataOf(call))) ===
      null;
    const found: Violation[] = [];
    const add = (what: string, first: Call | undefined, second: Call | undefined) => {
      if (first && second && sure(first) && sure(second))
        found.push({ rule: 'finality', what, evidence: [first, second] });
    };
    const reacquired = paid.some((call) => facts.dataOf(call).reacquired === true);
    if (!reacquired) add('a reservation was confirmed and released', paid[0], released[0]);
    const paidBefore = paid[0];
    const inPart = facts.about(id, 'release_part').filter(({ status }) => status === 200);
    add('a paid reservation released units', paidBefore, after(inPart, paidBefore));
    add('a refunded reservation was confirmed', refunded[0], after(paid, refunded[0]));
    add('a reservation was paid, then a payment refused', paidBefore, after(refusals(facts, id), paidBefore, refunded));
    const seen = standings.get(id) ?? [];
    const isUnpaid = (call: Call) => UNPAID.has(String(facts.dataOf(call).status));
    const unpaid = seen.filter(isUnpaid);
    add('a paid reservation is unpaid again', paidBefore, after(unpaid, paidBefore));
    add('a released reservation is held again', released[0], after(unpaid, released[0]));
    // A payment returns the units that are left, if some were given back before.
    const answers = [...paid, ...released, ...refunded].filter(sure);
    const ends = new Set(answers.map(({ kind, text }) => `${kind} ${text?.replace(/,"qty":\d+/, '')}`));
    if (ends.size > new Set([...ends].map((text) => text.split(' ')[0])).size && !reacquired)
      found.push({
        rule: 'finality',
        what: 'the same call has two responses',
        evidence: answers,
      });
    return found;
  });
}

/** The first of the calls that began after another one had ended. */
function after(calls: readonly Call[], first: Call | undefined, unless: readonly Call[] = []): Call | undefined {
  return unless.length > 0 || !first ? undefined : calls.find(({ at }) => at > first.end);
}

/** Payments that were refused because the reservation was over. */
function refusals(facts: Facts, id: string): Call[] {
  return facts.about(id, 'confirm').filter(({ status }) => status === 409 || status === 404);
}

function standingsOf(facts: Facts): Map<string, Call[]> {
  const found = new Map<string, Call[]>();
  for (const call of facts.calls) {
    const id = call.kind === 'status' && call.status === 200 ? facts.dataOf(call).reservation_id : null;
    if (typeof id === 'string') found.set(id, [...(found.get(id) ?? []), call]);
  }
  return found;
}
