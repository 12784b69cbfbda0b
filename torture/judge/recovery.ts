import { RECOVERY_LIMIT_MS } from '../settle.js';
import { type Facts, grouped } from './facts.js';
import type { Violation } from './violation.js';

const SHOWN = 2;

/** Rule 9: the service comes back by itself within a bounded time after the last fault is healed. */
export function serviceComesBack(facts: Facts): Violation[] {
  const late = facts.events.filter(
    (event) => event.what === 'recovered' && (event.afterMs === null || event.afterMs > RECOVERY_LIMIT_MS),
  );
  const seconds = RECOVERY_LIMIT_MS / 1_000;
  const violations = late.map((event): Violation => {
    return { rule: 'recovery', what: `an API does not sell ${seconds} s after the faults`, evidence: [event] };
  });
  const refused = facts.calls.filter(
    (call) =>
      call.status === 503 &&
      facts.bodyOf(call).code === 'temporarily_unavailable' &&
      !facts.losses.faults.some(({ from, to }) => from <= call.end && to + RECOVERY_LIMIT_MS >= call.at),
  );
  for (const [api, calls] of grouped(refused, ({ api: name }) => name)) {
    const what = `${api} returned 503 to ${calls.length} calls more than ${seconds} s after the last fault`;
    violations.push({ rule: 'recovery', what, evidence: calls.slice(0, SHOWN) });
  }
  return violations;
}
