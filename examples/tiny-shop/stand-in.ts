import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import express from 'express';
import Stripe from 'stripe';
import { page } from './page.js';

/**
 * A stand-in for Stripe on this machine, for readers without an account: the calls that the shop makes, a page with a
 * button instead of a card, and webhooks with the payload and the signature that Stripe documents. No money moves.
 */
const { DOORBUSTER_URL = 'http://127.0.0.1:8102', PORT = '4242', STRIPE_WEBHOOK_SECRETS = '' } = process.env;
/** How often a webhook that is not accepted is sent again, and after which pause. */
const TRIES = 20;
const REPEAT_AFTER_MS = 500;

/** What a refusal of Doorbuster says of the settings. */
const WRONG_SETTINGS: Record<string, string> = {
  payment_provider_not_found: `Doorbuster runs without STRIPE_WEBHOOK_SECRETS. Stop it, and start it with STRIPE_WEBHOOK_SECRETS=${STRIPE_WEBHOOK_SECRETS} npm start`,
  signature_invalid: 'Doorbuster has other STRIPE_WEBHOOK_SECRETS than this stand-in. Start both with the same.',
};

type Session = {
  object: 'checkout.session';
  id: string;
  url: string;
  status: 'open' | 'complete' | 'expired';
  payment_status: 'paid' | 'unpaid';
  payment_intent: string;
  amount_total: number;
  currency: string;
  metadata: Record<string, string>;
  success_url: string;
};
const PRICE = 'line_items[0][price_data]';
const sessions = new Map<string, Session>();
const idOf = (prefix: string) => `${prefix}_${randomUUID().replaceAll('-', '').slice(0, 24)}`;

const app = express();
app.use(express.urlencoded());

app.post('/v1/checkout/sessions', (req, res) => {
  const id = idOf('cs_test');
  const session: Session = {
    object: 'checkout.session',
    id,
    url: `http://${req.get('host')}/pay/${id}`,
    status: 'open',
    payment_status: 'unpaid',
    payment_intent: idOf('pi'),
    amount_total: Number(req.body[`${PRICE}[unit_amount]`]) * Number(req.body['line_items[0][quantity]']),
    currency: String(req.body[`${PRICE}[currency]`]),
    metadata: { reservation_id: String(req.body['metadata[reservation_id]']) },
    success_url: String(req.body.success_url),
  };
  sessions.set(id, session);
  res.json(session);
});

app.post('/v1/checkout/sessions/:id/expire', (req, res) => {
  const session = sessions.get(req.params.id);
  if (session?.status !== 'open')
    return void res.status(400).json({ error: { type: 'invalid_request_error', message: 'this session is not open' } });
  session.status = 'expired';
  res.json(session);
});

app.post('/v1/refunds', (req, res) => {
  process.stdout.write(`refunded ${req.body.payment_intent}\n`);
  res.json({ object: 'refund', id: idOf('re'), status: 'succeeded', payment_intent: req.body.payment_intent });
});

app.get('/pay/:id', (req, res) => {
  const session = sessions.get(req.params.id);
  if (session?.status !== 'open') return void res.status(410).send(page('This session is over', 'Nothing was paid.'));
  const button = '<form method="post"><button class="button">Pay</button></form>';
  res.send(page('Not Stripe', 'A stand-in on this machine. No money moves.', button));
});

app.post('/pay/:id', async (req, res) => {
  const session = sessions.get(req.params.id);
  if (session?.status !== 'open') return void res.status(410).send(page('This session is over', 'Nothing was paid.'));
  Object.assign(session, { status: 'complete', payment_status: 'paid' });
  try {
    await report('checkout.session.completed', session);
    res.redirect(303, session.success_url);
  } catch (error) {
    const { message } = error as Error;
    process.stderr.write(`${message}\n`);
    res.status(502).type('text').send(message);
  }
});

/** Sends an event as Stripe does, for ten seconds. Stripe repeats it for days until the endpoint accepts it. */
async function report(type: string, object: Session): Promise<void> {
  const created = Math.floor(Date.now() / 1_000);
  const payload = JSON.stringify({ id: idOf('evt'), object: 'event', created, type, data: { object } });
  const [secret = ''] = STRIPE_WEBHOOK_SECRETS.split(',');
  const signature = Stripe.webhooks.generateTestHeaderString({ payload, secret });
  const headers = { 'content-type': 'application/json', 'stripe-signature': signature };
  for (let tries = 1; ; tries += 1) {
    const response = await fetch(`${DOORBUSTER_URL}/payments/stripe`, { method: 'POST', headers, body: payload });
    if (response.ok) return;
    const text = await response.text();
    const setting = Object.keys(WRONG_SETTINGS).find((code) => text.includes(`"${code}"`));
    if (setting) throw new Error(WRONG_SETTINGS[setting]);
    const refusal = `/payments/stripe: ${response.status} ${text}`;
    if (tries === TRIES) throw new Error(refusal);
    await sleep(REPEAT_AFTER_MS);
  }
}

if (STRIPE_WEBHOOK_SECRETS === '') {
  process.stderr.write('STRIPE_WEBHOOK_SECRETS is missing. Set it to the same as that of Doorbuster.\n');
  process.exit(1);
}
const server = app.listen(Number(PORT), '127.0.0.1', () =>
  process.stdout.write(`the stand-in for Stripe is at http://127.0.0.1:${PORT}\n`),
);
server.on('error', (error) => {
  process.stderr.write(`port ${PORT}: ${error.message}\n`);
  process.exitCode = 1;
});
