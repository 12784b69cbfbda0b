import type { Call } from '../history.js';
import type { Facts } from './facts.js';
import { spansOf } from './losses.js';
import type { Finding } from './violation.js';

/** A response is sent within 2 s. The rest is for processes that share two cores with the engines and the clients. */
const LIMIT_MS = 2_000;
const SCHEDULER_SLACK_MS = 3_000;
/** A request waits for several processes in turn. */
const LAG_FACTOR = 10;
/** A process that starts or wakes up serves those who waited for it. */
const WAKE_UP_MS = 3_000;
const NEEDS_RETRY_AFTER = new Set([202, 429, 503]);

type Span = { from: number; to: number };

/** What may be returned to each kind of call, beside 429 and 503. */
const EXPECTED: Record<Call['kind'], readonly number[]> = {
  token: [200],
  checkout: [200, 202, 401, 409, 410],
  status: [200, 304],
  leave: [200, 409],
  confirm: [200, 409],
  release: [200, 409],
  refund: [200, 409],
  release_part: [200, 409],
  refund_part: [200, 409],
  validate: [200, 409, 410],
  redeem: [201, 202, 409, 410],
  create: [201, 409],
  codes: [200, 202],
  stock: [200, 409],
  action: [200, 409],
  patch: [200, 409],
  stats: [200],
};

/**
 * Rule 8: every call gets a well-formed response: no 5xx but 503, nothing unexpected, nothing missing. One that comes
 * late is slow; one that does not come before the client gives up is missing.
 */
export function responsesAreRight(facts: Facts): Finding[] {
  const away = outages(facts);
  return facts.calls.flatMap((call) => {
    const found = call.status === null ? missing(call, away) : wrongIn(facts, call);
    const late = call.status !== null && call.end - call.at > LIMIT_MS + slackAt(facts, call) && !overlaps(call, away);
    const what = found ?? (late ? `a response took ${Math.round(call.end - call.at)} ms` : null);
    return what === null ? [] : [{ rule: 'responses', what, evidence: [call], isSlow: found === null }];
  });
}

/** More on a machine that let this program itself wait. */
const slackAt = (facts: Facts, { at, end }: Call): number =>
  SCHEDULER_SLACK_MS + LAG_FACTOR * facts.longestLag(at, end);

/** Times in which each API process was down, frozen, starting or cut off from its clients. */
function outages({ events }: Facts): Map<string, Span[]> {
  const away = new Map<string, Span[]>();
  const spans = (read: Parameters<typeof spansOf>[1], name: string) =>
    away.set(name, [...(away.get(name) ?? []), ...spansOf(events, read)]);
  for (const api of new Set(events.flatMap((event) => ('process' in event ? [nodeOf(event.process)] : [])))) {
    spans((event) => event.what === 'freeze' && nodeOf(event.process) === api && [event.phase, api], api);
    spans((event) => {
      if (event.what !== 'down' && event.what !== 'up') return false;
      return nodeOf(event.process) === api && [event.what === 'down' ? 'begin' : 'end', api];
    }, api);
  }
  for (const event of events) {
    if (event.what === 'cut')
      away.set(event.api, [...(away.get(event.api) ?? []), { from: event.at, to: event.at + LIMIT_MS }]);
  }
  return away;
}

const nodeOf = (process: string) => String(process.split('#')[0]);

function overlaps(call: Call, away: Map<string, Span[]>): boolean {
  return (away.get(call.api) ?? []).some(({ from, to }) => from <= call.end && to + WAKE_UP_MS >= call.at);
}

function missing(call: Call, away: Map<string, Span[]>): string | null {
  return overlaps(call, away) ? null : `no response (${call.error}) although the process runs`;
}

function wrongIn(facts: Facts, call: Call): string | null {
  const { status, kind, headers = {} } = call;
  if (status === null) return null;
  const body = facts.bodyOf(call);
  if (status >= 500 && status !== 503) return `status ${status}`;
  if (status !== 304 && Object.keys(body).length === 0) return 'the body is not a JSON object';
  if (!headers['x-request-id']) return 'X-Request-Id is missing';
  if (NEEDS_RETRY_AFTER.has(status) && kind !== 'codes' && !/^\d+$/.test(headers['retry-after'] ?? ''))
    return `Retry-After is missing on ${status}`;
  const malformed = status < 400 ? malformedData(call, facts) : malformedProblem(call, body);
  if (malformed) return malformed;
  if (status === 429 || status === 503 || EXPECTED[kind].includes(status)) return null;
  if (status === 404 && mayBeForgotten(facts, call)) return null;
  return `unexpected status ${status} ${String(body.code)}`;
}

/** A reservation or a campaign is only unknown when its acknowledgement may be lost. */
function mayBeForgotten(facts: Facts, call: Call): boolean {
  if (facts.losses.bothLost(call.at)) return true;
  if (call.reservation === undefined) return false;
  const promises = facts.acknowledged.filter(
    (one) => one.data.reservation_id === call.reservation && one.call.at <= call.end,
  );
  const [first] = promises;
  if (!first) {
    // Nothing acknowledged a promotion, but it was known when it was first named.
    const [named = call] = facts.attemptsAbout(call.reservation, call);
    return [named.at, call.at].some((at) => facts.losses.excuseOfUnknown(at) !== null);
  }
  // The key may be repeated after the promise was recovered.
  const attempts = promises.flatMap((one) => facts.attemptsFor(one)).filter(({ at }) => at <= call.end);
  return facts.losses.excuseOf(attempts, facts.durabilityOf(first.product, first.data)) !== null;
}

function malformedProblem({ headers = {}, status }: Call, body: Record<string, unknown>): string | null {
  if (!headers['content-type']?.startsWith('application/problem+json')) return 'the error is no problem document';
  const complete = ['type', 'title', 'detail', 'instance', 'code'].every((name) => typeof body[name] === 'string');
  return complete && body.status === status ? null : 'the problem document lacks a member';
}

/** Members that a successful response must have, by kind of call. */
const MEMBERS: Partial<Record<Call['kind'], readonly string[]>> = {
  token: ['attestation', 'expires_at', 'device_fp'],
  status: ['status', 'position', 'queue_size', 'estimated_wait_seconds', 'poll_after_seconds'],
  leave: ['status'],
  confirm: ['reservation_id', 'status', 'order_id'],
  release: ['reservation_id', 'released', 'status'],
  refund: ['status', 'returned_to_stock'],
  release_part: ['released', 'status', 'qty', 'released_qty'],
  refund_part: ['status', 'returned_to_stock', 'qty', 'refunded_qty'],
  validate: ['valid'],
  create: ['id', 'product_id', 'status'],
  stats: ['total', 'free', 'held', 'redeemed', 'burned', 'waiting', 'journal_backlog', 'persisted', 'drift'],
};
const UNIT = ['status', 'order_id', 'reservation_id', 'pay_before', 'ticket', 'durability'];
const PLACE = ['status', 'position', 'queue_size', 'estimated_wait_seconds', 'ticket', 'poll_after_seconds'];

function malformedData(call: Call, facts: Facts): string | null {
  if (call.status === 304) return null;
  const data = facts.dataOf(call);
  const isClaim = call.kind === 'checkout' || call.kind === 'redeem';
  const needed = isClaim ? (call.status === 202 ? PLACE : UNIT) : (MEMBERS[call.kind] ?? []);
  // The ticket of a place goes to the key that took it; this crowd has no other proof.
  const mayLackTicket = call.status === 202 && isClaim && facts.hasEarlierKey(call);
  const lacking = needed.filter((name) => !(name in data) && !(name === 'ticket' && mayLackTicket));
  return lacking.length === 0 ? null : `the response lacks ${lacking.join(', ')}`;
}
