import type { Facts } from './facts.js';
import type { Violation } from './violation.js';

/** Rule 7: what the service could not keep is recorded with its reason, and only what a loss made impossible. */
export function exceptionsAreExplained(facts: Facts): Violation[] {
  const voided = [...facts.redemptions.values()].filter(({ status }) => status === 'voided');
  const unexplained = voided.filter(({ reason }) => !reason);
  const withoutCause = voided.filter((row) => !mayConflict(facts, row.reserved_at - facts.final.beganAt));
  return [
    ...unexplained.map((row) => violation('a reservation was voided without a reason', row)),
    ...withoutCause.map((row) => violation('a reservation was voided although Redis lost nothing', row)),
    ...(facts.events.some(({ what }) => what === 'redis-lost')
      ? []
      : facts.final.rejects.map((row) => violation('an entry was rejected although Redis lost nothing', row))),
    ...leftByNobody(facts),
  ];
}

const violation = (what: string, ...evidence: unknown[]): Violation => ({ rule: 'traces', what, evidence });

/** Two histories of Redis may have given the same unit away, and recovery kept one of them. */
function mayConflict({ losses }: Facts, at: number): boolean {
  return losses.excuseOfUnknown(at) !== null;
}

/** Places that ended as `left`, although their user did not leave and presence is not required. */
function leftByNobody(facts: Facts): Violation[] {
  const leavers = new Set(
    facts.calls.filter(({ kind }) => kind === 'leave').map(({ product, user }) => `${product} ${user}`),
  );
  return facts.final.tickets.flatMap((row) => {
    const needsPresence = facts.campaigns.get(row.product_id)?.presence_seconds !== null;
    if (row.status !== 'left' || needsPresence || leavers.has(`${row.product_id} ${row.user_id}`)) return [];
    return [violation('a place is left although its user did not leave', row)];
  });
}
