import type { Call } from '../history.js';
import type { Facts } from './facts.js';
import type { Violation } from './violation.js';

/** Responses that may follow an acknowledged one with the same key: the service or the token was not good enough. */
const MAY_FOLLOW = new Set([401, 403, 429, 503]);

/** Rule 2: each idempotency key has one response over all its attempts. */
export function keysHaveOneResponse(facts: Facts): Violation[] {
  const violations: Violation[] = [];
  for (const attempts of facts.attemptsOfKey.values()) {
    const promises = facts.acknowledged.filter(({ call }) => attempts.includes(call));
    const [first] = promises;
    if (!first) continue;
    const last = promises.findLast(({ data }) => isSame(data, first.data)) ?? first;
    const excuse = facts.losses.excuseOf(facts.attemptsFor(last), facts.durabilityOf(first.product, first.data));
    if (excuse !== null) continue;
    const other = promises.find((one) => !isSame(one.data, first.data));
    if (other) violations.push(violation('a key has two responses', first.call, other.call));
    const forgotten = attempts.find(
      (call) =>
        call.at > first.call.end &&
        call.status !== null &&
        !mayFollow(facts, call) &&
        !promises.some((one) => one.call === call),
    );
    if (forgotten) violations.push(violation('a key was acknowledged and is refused later', first.call, forgotten));
  }
  return violations;
}

/**
 * The text of a promised code is only in Postgres: `code` is null while that is away, and the text in a later response.
 */
function isSame(one: object, other: object): boolean {
  const [mine, its] = [one, other] as { code?: string | null }[];
  const unknown = mine?.code === null || its?.code === null;
  const text = (data: object) => JSON.stringify(unknown ? { ...data, code: null } : data);
  return text(one) === text(other);
}

/** A paused campaign still answers the keys that it knows. */
function mayFollow(facts: Facts, call: Call): boolean {
  return MAY_FOLLOW.has(call.status ?? 0) && facts.bodyOf(call).code !== 'campaign_paused';
}

const violation = (what: string, ...evidence: unknown[]): Violation => ({ rule: 'keys', what, evidence });
