import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { DuePush, PushSubscriptions } from '../../shared/postgres/push-subscriptions.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';
import type { PageLanguages } from '../../shared/sale-page/languages.js';
import type { EndpointConnection } from '../../shared/webhooks/endpoint-connection.js';
import { type PushEndpoints, pushEndpointProblem } from '../../shared/webhooks/push-endpoint.js';
import { pushMessage } from './push-message.js';

/** Encrypts a message for one browser and signs the request (RFC 8291, RFC 8292). */
export type Seal = (
  subscription: Pick<DuePush, 'endpoint' | 'p256dh' | 'auth'>,
  message: { payload: string; topic: string; urgency: 'high' | 'normal'; ttlSeconds: number },
) => { headers: Record<string, string>; body: Buffer };

export type PushSenderDeps = {
  subscriptions: PushSubscriptions;
  connection: Pick<EndpointConnection, 'post'>;
  /** Loads the library on first use. */
  seal: () => Promise<Seal>;
  languages: PageLanguages;
  config: PushEndpoints;
  clock: Pick<RedisClock, 'nowMs'>;
  metrics: Metrics;
  log: Log;
  limits: {
    batch: number;
    atOnce: number;
    retry: { attempts: number; firstDelayMs: number };
    leaseMs: number;
    runMs: number;
    closedTtlMs: number;
  };
};

/** `gone`: the browser has unsubscribed. `rejected`: the push service never takes this message. */
type Outcome = 'sent' | 'gone' | 'rejected' | 'late' | 'failed' | 'given_up';

const GONE: ReadonlySet<number> = new Set([404, 410]);
/** Client errors that may pass. */
const PASSING: ReadonlySet<number> = new Set([408, 425, 429]);

/**
 * Notifies users in line of their turn, and of the end of their line: marks the subscriptions that new events concern,
 * and sends the messages that are due. Several workers may run it at once, since each takes messages of its own. A
 * crash may send a message twice; the browser then replaces the first one.
 */
export async function notifyUsers(deps: PushSenderDeps): Promise<void> {
  const { subscriptions, limits } = deps;
  const end = performance.now() + limits.runMs;
  while ((await subscriptions.markConcerned(limits.batch, limits.closedTtlMs)) && performance.now() < end);
  for (;;) {
    const due = await subscriptions.takeDue(limits.atOnce, limits.leaseMs);
    await Promise.all(due.map((one) => deliver(deps, one)));
    if (due.length < limits.atOnce || performance.now() >= end) return;
  }
}

async function deliver(deps: PushSenderDeps, due: DuePush): Promise<void> {
  const { subscriptions, metrics, log, limits } = deps;
  const { outcome, reason } = await send(deps, due);
  metrics.pushMessages.inc({ outcome });
  // The endpoint is a capability, so the log has only its host.
  const about = { campaign: due.productId, reservation: due.reservation, service: hostOf(due.endpoint), reason };
  if (outcome === 'failed') return subscriptions.postpone(due, limits.retry.firstDelayMs * 2 ** (due.attempts - 1));
  if (outcome === 'rejected' || outcome === 'given_up') log.warn(about, 'a notification could not be sent');
  return subscriptions.remove(due);
}

async function send(
  { connection, seal, languages, config, clock, limits }: PushSenderDeps,
  due: DuePush,
): Promise<{ outcome: Outcome; reason: string | null }> {
  const ttlSeconds = Math.floor((due.sendBefore.getTime() - clock.nowMs()) / 1000);
  if (ttlSeconds <= 0) return { outcome: 'late', reason: null };
  // The settings may have changed since the browser subscribed.
  const problem = pushEndpointProblem(due.endpoint, config);
  if (problem) return { outcome: 'rejected', reason: problem };
  let request: ReturnType<Seal>;
  try {
    request = (await seal())(due, { ...pushMessage(due, languages), ttlSeconds });
  } catch (error) {
    return { outcome: 'rejected', reason: error instanceof Error ? error.message : String(error) };
  }
  const passes = due.attempts < limits.retry.attempts;
  try {
    const status = await connection.post(due.endpoint, request.headers, request.body);
    if (status >= 200 && status < 300) return { outcome: 'sent', reason: null };
    if (GONE.has(status)) return { outcome: 'gone', reason: null };
    const reason = `the push service responded with ${status}`;
    if (status < 500 && !PASSING.has(status)) return { outcome: 'rejected', reason };
    return { outcome: passes ? 'failed' : 'given_up', reason };
  } catch (error) {
    return { outcome: passes ? 'failed' : 'given_up', reason: error instanceof Error ? error.message : String(error) };
  }
}

function hostOf(endpoint: string): string {
  return URL.canParse(endpoint) ? new URL(endpoint).host : '';
}
