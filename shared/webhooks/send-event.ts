import { Webhook } from 'standardwebhooks';
import type { PostResult } from '../contracts/post-result.js';
import type { EndpointConnection } from './endpoint-connection.js';

/** An event as it is sent: its body is the CloudEvent. */
export type SignedEvent = { id: string; trace: string | null; body: string };

/**
 * Sends an event to an endpoint, signed. Never throws: a failure is a result.
 * @param nowMs of Redis, so that receivers see one clock
 */
export async function sendEvent(
  connection: EndpointConnection,
  { url, secrets }: { url: string; secrets: readonly string[] },
  event: SignedEvent,
  nowMs: number,
): Promise<PostResult> {
  const startedAt = performance.now();
  const result = (status: number | null, error: string | null): PostResult => ({
    delivered: error === null,
    status,
    error,
    durationMs: performance.now() - startedAt,
  });
  try {
    const status = await connection.post(url, signedHeaders(secrets, event, new Date(nowMs)), event.body);
    return result(status, status >= 200 && status < 300 ? null : `it responded with ${status}`);
  } catch (thrown) {
    return result(null, thrown instanceof Error ? thrown.message : String(thrown));
  }
}

/**
 * Headers by Standard Webhooks. Every secret of the endpoint signs, so a receiver may switch to a new secret at any
 * time.
 */
function signedHeaders(
  secrets: readonly string[],
  { id, trace, body }: SignedEvent,
  now: Date,
): Record<string, string> {
  return {
    'content-type': 'application/cloudevents+json; charset=utf-8',
    'user-agent': 'doorbuster',
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
    'webhook-signature': secrets.map((secret) => new Webhook(secret).sign(id, now, body)).join(' '),
    ...(trace ? { traceparent: trace } : {}),
  };
}
