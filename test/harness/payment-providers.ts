import { createHash, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Webhook } from 'standardwebhooks';
import Stripe from 'stripe';
import { atEnd } from './cleanup.js';
import { type Answer, send } from './clients.js';
import { MIDTRANS_KEY, PROVIDER_ENV, STRIPE_SECRET, WEBHOOK_SECRET } from './service-env.mjs';

export { MIDTRANS_KEY, PROVIDER_ENV, STRIPE_SECRET, WEBHOOK_SECRET };

type Metadata = Record<string, string>;
const idOf = (prefix: string) => `${prefix}_${randomUUID().replaceAll('-', '').slice(0, 24)}`;

/** A provider that sends webhooks with the payloads and signatures that Stripe documents. */
export class FakeStripe {
  constructor(
    /** Where the webhooks go. */
    readonly endpoint: string,
    readonly secret = STRIPE_SECRET,
  ) {}

  /** An event with the members that every event has. */
  event(type: string, object: Record<string, unknown>, id = idOf('evt')): Record<string, unknown> {
    return {
      id,
      object: 'event',
      api_version: '2026-09-30.clover',
      created: Math.floor(Date.now() / 1000),
      data: { object },
      livemode: false,
      pending_webhooks: 1,
      request: { id: null, idempotency_key: null },
      type,
    };
  }

  session(metadata: Metadata, payment_intent: string, more: Record<string, unknown> = {}): Record<string, unknown> {
    return {
      id: idOf('cs_test'),
      object: 'checkout.session',
      amount_total: 4900,
      client_reference_id: null,
      currency: 'usd',
      metadata,
      mode: 'payment',
      payment_intent,
      payment_status: 'paid',
      status: 'complete',
      ...more,
    };
  }

  intent(metadata: Metadata, id: string, more: Record<string, unknown> = {}): Record<string, unknown> {
    return { id, object: 'payment_intent', amount: 4900, amount_received: 4900, currency: 'usd', metadata, ...more };
  }

  charge(metadata: Metadata, payment_intent: string, more: Record<string, unknown> = {}): Record<string, unknown> {
    return {
      id: idOf('ch'),
      object: 'charge',
      amount: 4900,
      amount_refunded: 4900,
      currency: 'usd',
      metadata,
      payment_intent,
      refunded: true,
      ...more,
    };
  }

  /** Sends an event, signed now. */
  send(event: Record<string, unknown>, timestamp = Math.floor(Date.now() / 1000)): Promise<Answer> {
    const payload = JSON.stringify(event, null, 2);
    const signature = Stripe.webhooks.generateTestHeaderString({ payload, secret: this.secret, timestamp });
    return this.sendRaw(payload, signature);
  }

  sendRaw(body: string, signature: string | null): Promise<Answer> {
    return send(this.endpoint, {
      method: 'POST',
      headers: {
        'content-type': 'application/json; charset=utf-8',
        'user-agent': 'Stripe/1.0 (+https://stripe.com/docs/webhooks)',
        ...(signature === null ? {} : { 'stripe-signature': signature }),
      },
      body,
    });
  }
}

/** Sends an event of a payment service that signs by Standard Webhooks. */
export function sendSigned(
  url: string,
  type: string,
  data: Record<string, unknown>,
  { id = idOf('msg'), secret = WEBHOOK_SECRET, at = new Date() } = {},
): Promise<Answer> {
  const body = JSON.stringify({ type, timestamp: at.toISOString(), data });
  return send(`${url}/payments/events`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
      'webhook-signature': new Webhook(secret).sign(id, at, body),
    },
    body,
  });
}

/** Sends a notification as Midtrans documents it. */
export function sendMidtrans(url: string, fields: Record<string, string>, key = MIDTRANS_KEY): Promise<Answer> {
  const it = {
    transaction_time: '2026-11-22 10:00:00',
    transaction_id: randomUUID(),
    status_message: 'midtrans payment notification',
    status_code: '200',
    payment_type: 'qris',
    gross_amount: '49000.00',
    currency: 'IDR',
    fraud_status: 'accept',
    ...fields,
  } as Record<string, string>;
  const signature_key = createHash('sha512')
    .update(`${it.order_id}${it.status_code}${it.gross_amount}${key}`)
    .digest('hex');
  return send(`${url}/payments/midtrans`, { method: 'POST', json: { ...it, signature_key } });
}

type Session = {
  id: string;
  url: string;
  payment_intent: string;
  status: string;
  metadata: Metadata;
  expires_at: number;
  amount_total: number;
  currency: string;
};

const ITEM = 'line_items[0][price_data]';

/** The part of Stripe’s API that a shop needs, and customers who pay there. Sends its webhooks to an endpoint. */
export class FakeStripeApi {
  readonly sessions: Session[] = [];
  readonly refunds: string[] = [];
  /** Outcomes of the webhooks that it has sent. */
  readonly outcomes: string[] = [];
  url = '';

  constructor(readonly webhooks: FakeStripe) {}

  async start(): Promise<this> {
    const server = createServer((request, response) => {
      this.#respond(request)
        .then(([status, body]) => response.writeHead(status, { 'content-type': 'application/json' }).end(body))
        .catch((error: unknown) => response.writeHead(500).end(JSON.stringify({ error: { message: String(error) } })));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    atEnd('a fake Stripe', async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    });
    return this;
  }

  /** A customer pays on the page of a session. An expired one takes no money. */
  async pay(url: string): Promise<void> {
    const session = this.#of(url);
    if (session.status === 'expired') return;
    session.status = 'complete';
    await this.#report('checkout.session.completed', session);
  }

  async #respond(request: IncomingMessage): Promise<[number, string]> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const form = new URLSearchParams(Buffer.concat(chunks).toString());
    const path = String(request.url);
    if (path === '/v1/checkout/sessions') return [200, JSON.stringify(this.#create(form))];
    if (path === '/v1/refunds') {
      this.refunds.push(String(form.get('payment_intent')));
      return [200, JSON.stringify({ id: idOf('re'), object: 'refund', status: 'succeeded' })];
    }
    const session = this.#of(path.replace(/\/expire$/, ''));
    if (session.status !== 'open') return [400, JSON.stringify({ error: { type: 'invalid_request_error' } })];
    session.status = 'expired';
    return [200, JSON.stringify({ object: 'checkout.session', ...session })];
  }

  #create(form: URLSearchParams): Record<string, unknown> {
    const id = idOf('cs_test');
    const metadata = { reservation_id: String(form.get('metadata[reservation_id]')) };
    if (form.get('payment_intent_data[metadata][reservation_id]') !== metadata.reservation_id)
      throw new Error('the PaymentIntent lacks the metadata, so its refund would not be found');
    const amount_total = Number(form.get(`${ITEM}[unit_amount]`)) * Number(form.get('line_items[0][quantity]'));
    const expires_at = Number(form.get('expires_at'));
    const session = {
      ...{ id, url: `${this.url}/pay/${id}`, payment_intent: idOf('pi'), status: 'open', metadata },
      ...{ expires_at, amount_total, currency: String(form.get(`${ITEM}[currency]`)) },
    };
    this.sessions.push(session);
    return { object: 'checkout.session', ...session };
  }

  async #report(type: string, { metadata, payment_intent, amount_total, currency }: Session): Promise<void> {
    const object = this.webhooks.session(metadata, payment_intent, { amount_total, currency });
    const event = this.webhooks.event(type, object);
    this.outcomes.push(String((await this.webhooks.send(event)).data.outcome));
  }

  #of(path: string): Session {
    const session = this.sessions.find(({ id }) => path.endsWith(id));
    if (!session) throw new Error(`there is no session ${path}`);
    return session;
  }
}
