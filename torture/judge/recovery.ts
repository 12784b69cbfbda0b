import type { Call } from '../history.js';
import { NEVER_MS, RECOVERY_LIMIT_MS } from '../settle.js';
import { type Facts, grouped } from './facts.js';
import type { Finding, Violation } from './violation.js';

/** An outage: so many calls that change something are refused one after another, for so long. */
const REFUSALS = 5;
const REFUSAL_MS = 2_000;
const LAG_FACTOR = 10;
const CHANGES = new Set([
  ...['checkout', 'redeem', 'confirm', 'release', 'refund', 'release_part', 'refund_part', 'stock', 'action', 'leave'],
]);

/**
 * Rule 9: the service comes back by itself after the last fault is healed. That it takes longer than it should is slow;
 * a service that is not back after `NEVER_MS` stays away.
 */
export function serviceComesBack(facts: Facts): Finding[] {
  // A machine that let this program wait starts processes slowly, too.
  const slackMs = LAG_FACTOR * facts.longestLag(0, Number.POSITIVE_INFINITY);
  const found = outagesAfter(facts, NEVER_MS + slackMs);
  if (found.length > 0) return found;
  return outagesAfter(facts, RECOVERY_LIMIT_MS + slackMs).map((outage) => ({ ...outage, isSlow: true }));
}

/** APIs, else campaigns, that do not serve when so long has passed since the last fault. */
function outagesAfter(facts: Facts, limitMs: number): Violation[] {
  const seconds = Math.round(limitMs / 1_000);
  const late = facts.events.flatMap((event): Violation[] => {
    if (event.what !== 'recovered') return [];
    const { afterMs } = event;
    // Without a time the API did not sell as long as the run tried.
    if (afterMs !== null && afterMs <= limitMs) return [];
    return [{ rule: 'recovery', what: `an API does not sell ${seconds} s after the faults`, evidence: [event] }];
  });
  const calm = facts.calls.filter(
    ({ at, end }) => !facts.losses.faults.some(({ from, to }) => from <= end && to + limitMs >= at),
  );
  const outages = (groups: Map<string, Call[]>) =>
    [...groups].flatMap(([place, calls]) => outageOf(place, longestRefusal(facts, calls), seconds));
  const ofApis = outages(grouped(calm, ({ api }) => api));
  // An API that is down refuses the calls of every campaign.
  return [...late, ...(ofApis.length > 0 ? ofApis : outages(grouped(calm, ({ product }) => product)))];
}

function outageOf(place: string, refused: readonly Call[], seconds: number): Violation[] {
  const [first, last] = [refused[0], refused.at(-1)];
  if (!first || !last || last.end - first.at < REFUSAL_MS || refused.length < REFUSALS) return [];
  const what = `${place}: ${refused.length} calls one after another get 503 more than ${seconds} s after the last fault`;
  return [{ rule: 'recovery', what, evidence: [first, last] }];
}

/** The longest series of calls that were all refused. A single 503 of a busy machine is no outage. */
function longestRefusal(facts: Facts, calls: readonly Call[]): Call[] {
  let [longest, present]: [Call[], Call[]] = [[], []];
  for (const call of calls.filter(({ kind, status }) => CHANGES.has(kind) && status !== null)) {
    present = facts.bodyOf(call).code === 'temporarily_unavailable' ? [...present, call] : [];
    if (present.length > longest.length) longest = present;
  }
  return longest;
}
