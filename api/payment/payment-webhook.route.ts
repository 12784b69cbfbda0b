import { z } from 'zod';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import { PAYMENT_OUTCOMES, type PaymentEvent, type PaymentOutcome } from '../../shared/payments/payment-event.js';
import type { PaymentEvents } from '../../shared/payments/payment-events.js';
import { networkOf } from '../guards/caller/address.js';
import type { LocalQuota } from '../guards/limits/local-quota.js';
import { rateLimited } from '../guards/limits/quotas.js';
import { type Call, defineRoute } from '../http/define-route.js';
import { readRaw } from '../http/raw-body.js';
import type { Route, RouteContract } from '../http/route.js';
import { InvalidSignature, InvalidWebhook, type PaymentProvider } from './providers/provider.js';

const OUTCOMES = Object.keys(PAYMENT_OUTCOMES) as [PaymentOutcome, ...PaymentOutcome[]];

const answer = z.object({
  outcome: z.enum([...OUTCOMES, 'ignored']),
  repeated: z.boolean().describe('whether the event was received before'),
});

const contract = {
  operationId: 'receivePaymentWebhook',
  method: 'post',
  path: '/payments/:provider',
  summary: 'Receive a webhook of a payment provider',
  description:
    'The body is that of the provider, as it was signed, up to 256 KiB (`midtrans`: 16 KiB). Payments confirm, expired ones release, and refunds refund the ' +
    'reservation that the event names; failed attempts are recorded. Idempotent by the provider’s event id. 202 means that no reservation ' +
    'has the name: the event is kept, and tried again for a week. 503 means that the event was not stored; the provider has to send it ' +
    'again. docs/payments.md describes the providers.',
  tag: 'payment',
  caller: 'anyone',
  params: z.object({ provider: z.string().describe('`stripe`, `events` or `midtrans`') }),
  answers: {
    200: { description: 'The event is stored, or has no effect.', data: answer },
    202: { description: 'The event is kept: the reservation that it names does not exist.', data: answer },
  },
  errors: [
    'signature_invalid',
    'webhook_invalid',
    'payment_provider_not_found',
    'body_too_large',
    'invalid_json',
    'rate_limited',
    'temporarily_unavailable',
  ],
} satisfies RouteContract;

const WARNED: readonly PaymentOutcome[] = ['late', 'unknown', 'mismatch', 'partial'];

export type PaymentWebhookDeps = {
  providers: readonly PaymentProvider[];
  events: PaymentEvents;
  /** Counts webhooks with a wrong signature by network. */
  wrong: LocalQuota;
  metrics: Metrics;
  log: Log;
};

/** POST /payments/:provider. A forged webhook costs one HMAC for each secret, and no round trip. */
export function paymentWebhookRoute({ providers, events, wrong, metrics, log }: PaymentWebhookDeps): Route {
  const byName = new Map(providers.map((provider) => [provider.name, provider]));
  /** @throws Problem 401 if the webhook is forged, 429 if its network has sent too many such, 400 if it is malformed */
  async function genuine(call: Call<typeof contract>, provider: PaymentProvider): Promise<PaymentEvent | null> {
    const { req } = call;
    const body = await readRaw(req, provider.bodyBytes);
    try {
      return await provider.read(body, req.headers);
    } catch (error) {
      if (error instanceof InvalidWebhook) throw call.refusal('webhook_invalid', error.message);
      if (!(error instanceof InvalidSignature)) throw error;
      // Only forged webhooks are limited, so that those of the provider arrive whatever else its network sends.
      const waitMs = wrong.take(networkOf(req));
      if (waitMs === 0) throw call.refusal('signature_invalid', error.message);
      metrics.limited.inc({ policy: 'wrong-webhook' });
      throw call.refusal(rateLimited('wrong-webhook', wrong.limit, wrong.windowMs / 1000, waitMs));
    }
  }
  return defineRoute(contract, async (call) => {
    const { req } = call;
    const name = String(req.params.provider);
    const provider = byName.get(name);
    if (!provider) throw call.refusal('payment_provider_not_found', 'No payment provider with this name is set up.');
    const event = await genuine(call, provider);
    if (event === null) return call.reply(200, { outcome: 'ignored', repeated: false });
    const { outcome, repeated, reservation } = await events.handle(name, event, req.trace);
    metrics.payments.inc({ call: name, outcome });
    const { id: event_id, kind } = event;
    const isAboutMoney = outcome !== 'unknown' || kind === 'succeeded';
    const level = WARNED.includes(outcome) && isAboutMoney ? 'warn' : 'info';
    log[level](
      {
        request_id: req.requestId,
        provider: name,
        event_id,
        kind,
        reservation: reservation ?? undefined,
        outcome,
        repeated,
      },
      'payment event',
    );
    return call.reply(outcome === 'unknown' ? 202 : 200, { outcome, repeated });
  });
}
