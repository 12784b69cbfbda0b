import express, { type Express } from 'express';
import type Stripe from 'stripe';
import { type Doorbuster, verifyPayLink, verifyWebhook, WebhookError } from '../../server/server.js';
import { AGAIN, escapeHtml, page } from './page.js';

export type ShopOptions = {
  stripe: Stripe;
  doorbuster: Doorbuster;
  /** Where browsers reach the shop and Doorbuster. */
  shopUrl: string;
  doorbusterUrl: string;
  product: { id: string; name: string; cents: number };
  /** PAY_LINK_KEYS of Doorbuster, and the secret of its webhook to this shop. */
  checkoutKeys: string;
  webhookSecret: string;
};

/** What the shop knows of a reservation. A real shop keeps it in its database. */
export type Order = { order: string; session: Promise<Stripe.Checkout.Session>; state: 'unpaid' | 'paid' | 'ended' };
type Unit = { reservation_id: string; order_id: string; qty: number; status: string; pay_before: string };

/** Stripe takes 30 minutes or more. */
const LEAST_SESSION_MS = 31 * 60_000;

/** The template of the link by which Doorbuster sends shoppers to `/pay`. */
export const checkoutUrlOf = (shopUrl: string): string =>
  `${shopUrl}/pay?order={order_id}&reservation={reservation_id}&qty={qty}&sig={signature}`;

/** The events of Doorbuster that the shop needs. */
export const EVENTS = ['redemption.redeemed', 'redemption.released', 'redemption.expired']
  .concat('payment.late', 'payment.duplicated')
  .map((type) => `dev.doorbuster.${type}.v1`);

/** Sells one product: the sale and the line are Doorbuster's, the money is Stripe's. */
export function createShop(
  { stripe, doorbuster, product, ...options }: ShopOptions,
  orders: Map<string, Order>,
): Express {
  const app = express();
  const price = (cents: number) => `$${(cents / 100).toFixed(2)}`;

  app.get('/', (_req, res) => {
    const sale = `${options.doorbusterUrl}/sale/${encodeURIComponent(product.id)}`;
    res.send(page(product.name, price(product.cents), `<a class="button" href="${sale}">Go to the sale</a>`));
  });

  // Doorbuster sends shoppers here. The signature covers every value in the link.
  app.get('/pay', (req, res) => {
    const check = verifyPayLink(req.url, options.checkoutKeys);
    if (!check.valid) return void res.status(403).send(page('This link is not valid', reasonOf(check.reason)));
    const total = price(product.cents * Number(req.query.qty));
    const until = check.expiresAt.toISOString().slice(11, 16);
    const form = `<form method="post" action="${escapeHtml(req.url)}"><button class="button">Pay ${total}</button></form>`;
    res.send(page(product.name, `Yours until ${until} UTC.`, form));
  });

  app.post('/pay', async (req, res) => {
    const check = verifyPayLink(req.url, options.checkoutKeys);
    if (!check.valid) return void res.status(403).send(page('This link is not valid', reasonOf(check.reason)));
    // The link may be older than what became of the unit.
    const unit = (await doorbuster.reservation(String(req.query.reservation))) as Unit;
    if (unit.status !== 'reserved') return void res.status(410).send(page('There is nothing to pay', ''));
    // A shopper who presses twice gets the same session.
    let order = orders.get(unit.reservation_id);
    if (!order) {
      order = { order: unit.order_id, session: createSession(unit, req.url), state: 'unpaid' };
      orders.set(unit.reservation_id, order);
      order.session.catch(() => orders.delete(unit.reservation_id));
    }
    res.redirect(303, String((await order.session).url));
  });

  function createSession({ reservation_id, qty, pay_before }: Unit, link: string): Promise<Stripe.Checkout.Session> {
    const price_data = { currency: 'usd', unit_amount: product.cents, product_data: { name: product.name } };
    return stripe.checkout.sessions.create({
      mode: 'payment',
      line_items: [{ quantity: qty, price_data }],
      metadata: { reservation_id },
      payment_intent_data: { metadata: { reservation_id } },
      expires_at: Math.ceil(Math.max(Date.parse(pay_before), Date.now() + LEAST_SESSION_MS) / 1000),
      success_url: `${options.shopUrl}/orders/${reservation_id}`,
      cancel_url: `${options.shopUrl}${link}`,
    });
  }

  app.get('/orders/:reservation', (req, res) => {
    const order = orders.get(req.params.reservation);
    if (!order) return void res.status(404).send(page('No such order', ''));
    const title = { unpaid: 'Waiting for the payment …', paid: 'Paid. Thank you!', ended: 'The time was over' }[
      order.state
    ];
    res.send(page(title, `Order ${order.order}`, order.state === 'unpaid' ? AGAIN : ''));
  });

  // Events of Doorbuster. Stripe reports payments to Doorbuster, which confirms the reservation.
  app.post('/doorbuster', express.raw({ type: () => true }), async (req, res) => {
    try {
      await onEvent(verifyWebhook(req.body, req.headers, options.webhookSecret) as Event);
      res.sendStatus(204);
    } catch (error) {
      if (!(error instanceof WebhookError)) throw error;
      res.status(400).send(error.message);
    }
  });

  type Event = { type: string; data: { reservation_id: string; payment_ref?: string | null } };
  async function onEvent({ type, data }: Event): Promise<void> {
    const order = orders.get(data.reservation_id);
    if (/payment\.(late|duplicated)\.v1$/.test(type) && data.payment_ref) {
      await stripe.refunds.create(
        { payment_intent: data.payment_ref },
        { idempotencyKey: `refund-${data.payment_ref}` },
      );
    } else if (order && type.endsWith('redemption.redeemed.v1')) {
      order.state = 'paid';
    } else if (order && /redemption\.(released|expired)\.v1$/.test(type)) {
      order.state = 'ended';
      // The session may be paid or expired already. Then the payment is late, and there is nothing to expire.
      await order.session.then(({ id }) => stripe.checkout.sessions.expire(id)).catch(() => {});
    }
  }
  return app;
}

const reasonOf = (reason: string) => (reason === 'expired' ? 'The time to pay is over.' : 'Go back to the sale.');
