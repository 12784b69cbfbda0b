import Stripe from 'stripe';
import { Doorbuster } from '../../server/server.js';
import { checkoutUrlOf, createShop, EVENTS } from './shop.js';

const { DOORBUSTER_URL = 'http://127.0.0.1:8102', SHOP_URL = 'http://localhost:3000', PORT = '3000' } = process.env;
const { ADMIN_KEY = '', SERVICE_KEY = '', PAY_LINK_KEYS = '', STRIPE_API_KEY = '' } = process.env;
/** Another server than Stripe’s, for tests. */
const stripeApi = process.env.STRIPE_API_URL ? new URL(process.env.STRIPE_API_URL) : null;
const product = { id: 'tiny-shop', name: 'A very good mug', cents: 1900 };

/** Calls Doorbuster as an operator. 409 = it exists from an earlier start. @returns `data` of the response */
async function admin(method: string, path: string, body?: unknown) {
  const response = await fetch(`${DOORBUSTER_URL}${path}`, {
    method,
    headers: { 'content-type': 'application/json', authorization: `Bearer ${ADMIN_KEY}` },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok && response.status !== 409) throw new Error(`${path}: ${response.status} ${text}`);
  return text === '' ? undefined : JSON.parse(text).data;
}

await admin('POST', '/admin/campaigns', {
  product_id: product.id,
  name: product.name,
  total_limit: 100,
  hold_seconds: 300,
  waiting_room: { enabled: true },
  checkout_url: checkoutUrlOf(SHOP_URL),
  branding: { price: product.cents, currency: 'USD' },
});
// The secret is returned once, and this shop keeps nothing. So each start replaces the webhook of the last one.
const url = `${SHOP_URL}/doorbuster`;
const hooks: { id: string; url: string }[] = await admin('GET', '/admin/webhooks');
for (const hook of hooks) if (hook.url === url) await admin('DELETE', `/admin/webhooks/${hook.id}`);
const { secrets } = await admin('POST', '/admin/webhooks', { url, types: EVENTS });
const shop = createShop(
  {
    stripe: new Stripe(
      STRIPE_API_KEY,
      stripeApi ? { protocol: 'http', host: stripeApi.hostname, port: stripeApi.port } : {},
    ),
    doorbuster: new Doorbuster({ baseUrl: DOORBUSTER_URL, serviceKey: SERVICE_KEY }),
    shopUrl: SHOP_URL,
    doorbusterUrl: DOORBUSTER_URL,
    product,
    checkoutKeys: PAY_LINK_KEYS,
    webhookSecret: String(secrets[0]),
  },
  new Map(),
);
shop.listen(Number(PORT), () => process.stdout.write(`the shop is at ${SHOP_URL}\n`));
