import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { compactVerify, importJWK } from 'jose';
import { projectRoot } from '../../shared/config/project-root.js';
import { Operator, PaymentService, type Shopper, send } from '../harness/clients.js';
import { erase } from '../harness/erasure.js';
import { pushEnv, type SubscribedBrowser, startPushService } from '../harness/push-service.js';
import { serviceEnv, startApiProcess, startService } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

const keys = pushEnv();
// In development, a subscription may name a push service of this machine.
const service = await startService({ ...keys, NODE_ENV: 'development' });
const pushService = await startPushService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);

/** One unit, held by another user. */
async function heldByAnother(terms: Record<string, unknown> = {}) {
  const product = await operator.openCampaign({
    ...{ name: 'Midnight sale', total_limit: 1, hold_seconds: 900, waiting_room: { enabled: true } },
    ...terms,
  });
  return { product, held: String((await arrive(service.url, product).checkout()).data.reservation_id) };
}

async function waiting(product: string): Promise<Shopper> {
  const shopper = arrive(service.url, product);
  expect((await shopper.checkout()).status).toBe(202);
  return shopper;
}

const subscribe = (shopper: Shopper, json: unknown, url = service.url) =>
  send(`${url}/flash-sale/push`, { method: 'POST', headers: { 'x-ticket': String(shopper.ticket) }, json });
const unsubscribe = (shopper: Shopper) =>
  send(`${service.url}/flash-sale/push`, { method: 'DELETE', headers: { 'x-ticket': String(shopper.ticket) } });

async function subscribed(product: string, language = 'en'): Promise<{ shopper: Shopper; browser: SubscribedBrowser }> {
  const [shopper, browser] = [await waiting(product), pushService.subscribe()];
  const answer = await subscribe(shopper, { ...browser.toJSON(), language });
  expect([answer.status, answer.data]).toEqual([200, { subscribed: true }]);
  return { shopper, browser };
}

const got = (browser: SubscribedBrowser, count = 1) =>
  until('the browser is notified', () => pushService.of(browser).length >= count && pushService.of(browser));
/** Rows of a campaign, with the number of subscriptions in their order. */
async function endpointsOf(product: string): Promise<string[]> {
  const { rows } = await service.database.client.query(
    `select endpoint from push_subscriptions s join campaigns using (campaign_id) where product_id = $1 order by s.created_at`,
    [product],
  );
  return rows.map(({ endpoint }) => String(endpoint));
}
const isEmpty = (product: string) =>
  until('the subscription is deleted', async () => (await endpointsOf(product)).length === 0);

test('a promoted user is notified once, signed and encrypted, until the hold ends', async () => {
  const { product, held } = await heldByAnother({ branding: { title: 'Night owl lamp' } });
  const { shopper, browser } = await subscribed(product);
  await payments.release(held);
  const [message] = await got(browser);
  const { data } = await shopper.queueStatus({ 'x-ticket': String(shopper.ticket) });
  expect(data.status).toBe('promoted');
  expect(message?.payload).toEqual({
    title: 'It is your turn',
    body: 'Night owl lamp\nPay before {time}',
    pay_before: data.pay_before,
    url: `/sale/${product}?lang=en#turn`,
    lang: 'en',
    dir: 'ltr',
    tag: `doorbuster|${product}`,
  });
  // Nothing of the user.
  expect(JSON.stringify(message?.payload)).not.toMatch(new RegExp(`${shopper.user}|${data.reservation_id}`));
  const headers = message?.headers ?? {};
  expect(headers).toMatchObject({ 'content-encoding': 'aes128gcm', urgency: 'high' });
  expect(headers.topic).toMatch(/^[A-Za-z0-9_-]{32}$/);
  expect(Number(headers.ttl)).toBeGreaterThan(600);
  expect(Number(headers.ttl)).toBeLessThanOrEqual(900);
  const [, jwt = '', key] = /^vapid t=([^,]+), k=(.+)$/.exec(String(headers.authorization)) ?? [];
  expect(key).toBe(keys.VAPID_PUBLIC_KEY);
  const bytes = Buffer.from(String(key), 'base64url');
  const [x, y] = [bytes.subarray(1, 33).toString('base64url'), bytes.subarray(33).toString('base64url')];
  const { payload } = await compactVerify(jwt, await importJWK({ kty: 'EC', crv: 'P-256', x, y }, 'ES256'));
  expect(JSON.parse(Buffer.from(payload).toString())).toMatchObject({
    aud: pushService.url,
    sub: keys.VAPID_SUBJECT,
  });
  await isEmpty(product);
  expect(pushService.of(browser)).toHaveLength(1);
});

test('a failing push service is asked again, and a browser that is gone is forgotten', async () => {
  const { product, held } = await heldByAnother({ total_limit: 2 });
  const other = String((await arrive(service.url, product).checkout()).data.reservation_id);
  const busy = await subscribed(product);
  const gone = await subscribed(product);
  let failures = 0;
  pushService.answer = (path) => {
    if (gone.browser.endpoint.endsWith(path)) return 410;
    failures += 1;
    return failures === 1 ? 503 : 201;
  };
  await payments.release(held);
  await payments.release(other);
  const messages = await got(busy.browser, 2);
  expect(messages.map(({ answer }) => answer)).toEqual([503, 201]);
  expect(new Set(messages.map(({ headers }) => headers.topic)).size).toBe(1);
  await isEmpty(product);
  pushService.answer = () => 201;
  expect(pushService.of(gone.browser).map(({ answer }) => answer)).toEqual([410]);
  // Workers post their metrics every few seconds.
  await until('the outcome is counted', async () =>
    (await send(`${service.url}/metrics`)).text.includes('doorbuster_push_messages_total{outcome="gone"} 1'),
  );
});

test('users whose line ends are notified in their language; those who left or unsubscribed are not', async () => {
  const { product, held } = await heldByAnother();
  const [stays, leaves, silent] = [
    await subscribed(product, 'id'),
    await subscribed(product),
    await subscribed(product),
  ];
  expect((await leaves.shopper.leave()).status).toBe(200);
  expect((await unsubscribe(silent.shopper)).data).toEqual({ subscribed: false });
  expect((await unsubscribe(silent.shopper)).status).toBe(200);
  await payments.confirm(held);
  const [message] = await got(stays.browser);
  expect(message?.payload).toMatchObject({ title: 'Antrean ditutup', lang: 'id', pay_before: null });
  expect(message?.headers.urgency).toBe('normal');
  await until('the messages are sent', async () => (await endpointsOf(product)).length === 1);
  expect(pushService.of(leaves.browser)).toEqual([]);
  expect(pushService.of(silent.browser)).toEqual([]);
});

test('a user whom an operator moves out of the line is notified, in their language; one who had left is not', async () => {
  const { product } = await heldByAnother();
  const [moved, left] = [await subscribed(product, 'zh'), await subscribed(product)];
  expect((await left.shopper.leave()).status).toBe(200);
  const remove = ({ user }: Shopper) =>
    operator.call('POST', `/admin/campaigns/${product}/line/remove`, { user_id: user });
  for (const { shopper } of [left, moved]) expect((await remove(shopper)).status).toBe(200);
  const [message] = await got(moved.browser);
  expect(message?.payload).toMatchObject({ title: '您的排队位置已失效', lang: 'zh', pay_before: null });
  expect(message?.headers.urgency).toBe('normal');
  await until('the message is sent', async () => (await endpointsOf(product)).length === 1);
  expect(pushService.of(left.browser)).toEqual([]);
});

test('a user who needs more units than can become free is notified, and the line goes on', async () => {
  const { product, held } = await heldByAnother({ total_limit: 2, max_qty: 2 });
  const second = String((await arrive(service.url, product).checkout()).data.reservation_id);
  const shopper = arrive(service.url, product);
  expect((await shopper.checkout({ qty: 2 })).status).toBe(202);
  const browser = pushService.subscribe();
  expect((await subscribe(shopper, browser.toJSON())).status).toBe(200);
  const behind = await subscribed(product);
  await payments.confirm(held);
  const [message] = await got(browser);
  expect(message?.payload).toMatchObject({ title: 'Your place in line has ended', pay_before: null });
  expect((await behind.shopper.queueStatus()).data.status).toBe('queued');
  await payments.release(second);
  expect((await got(behind.browser))[0]?.payload).toMatchObject({ title: 'It is your turn' });
  expect(pushService.of(browser)).toHaveLength(1);
});

test('the end of a campaign notifies its line', async () => {
  const { product } = await heldByAnother();
  const { browser } = await subscribed(product, 'ar');
  await operator.call('POST', `/admin/campaigns/${product}/close`);
  const [message] = await got(browser);
  expect(message?.payload).toMatchObject({ lang: 'ar', dir: 'rtl', pay_before: null });
  await isEmpty(product);
});

test('the export of a user has the host of their push service, and no secret of the subscription', async () => {
  const { product } = await heldByAnother();
  const [{ shopper, browser }] = [await subscribed(product, 'id'), await subscribed(product)];
  const { status, text } = await operator.call('GET', `/admin/users/${shopper.user}/export`);
  expect(status).toBe(200);
  const { push_subscriptions } = JSON.parse(text);
  expect(push_subscriptions).toEqual([
    {
      ...{ product_id: product, user_id: shopper.user, host: new URL(browser.endpoint).host, language: 'id' },
      ...{ reservation_id: expect.any(String), created_at: expect.any(String), message: null },
    },
  ]);
  const { endpoint, keys: secrets } = browser.toJSON();
  for (const secret of [new URL(endpoint).pathname, secrets.p256dh, secrets.auth]) expect(text).not.toContain(secret);
});

test('the erasure of a user deletes their subscriptions', async () => {
  const { product } = await heldByAnother();
  const { shopper } = await subscribed(product);
  await shopper.leave();
  expect(await endpointsOf(product)).toHaveLength(1);
  expect((await erase(operator, shopper.user)).rows).toMatchObject({ push_subscriptions: 1 });
  expect(await endpointsOf(product)).toEqual([]);
});

test('a place has three browsers at most, and a repetition replaces its keys', async () => {
  const { product } = await heldByAnother();
  const shopper = await waiting(product);
  const browsers = Array.from({ length: 4 }, () => pushService.subscribe());
  for (const browser of browsers) expect((await subscribe(shopper, browser.toJSON())).status).toBe(200);
  expect((await subscribe(shopper, browsers[3]?.toJSON())).status).toBe(200);
  expect(await endpointsOf(product)).toEqual(browsers.slice(1).map(({ endpoint }) => endpoint));
});

test('only a user in line subscribes, and only with fields that a browser makes', async () => {
  const { product } = await heldByAnother();
  const holder = arrive(service.url, await operator.openCampaign({ total_limit: 1, hold_seconds: 900 }));
  await holder.checkout();
  const good = pushService.subscribe().toJSON();
  expect((await subscribe(holder, good)).body).toMatchObject({ status: 409, code: 'not_waiting' });
  const shopper = await waiting(product);
  const wrong = [
    [{ ...good, endpoint: 'javascript:alert(1)' }, '#/endpoint'],
    [{ ...good, endpoint: `https://push.example/${'x'.repeat(1_100)}` }, '#/endpoint'],
    [{ ...good, keys: { ...good.keys, auth: 'AAAA' } }, '#/keys/auth'],
    [{ ...good, keys: { ...good.keys, p256dh: 'x' } }, '#/keys/p256dh'],
    [{ ...good, language: '<b>' }, '#/language'],
  ] as const;
  for (const [json, pointer] of wrong)
    expect((await subscribe(shopper, json)).body.errors).toEqual([expect.objectContaining({ pointer })]);
  shopper.ticket = 'forged';
  expect((await subscribe(shopper, good)).body.code).toBe('ticket_invalid');
  expect(await endpointsOf(product)).toEqual([]);
});

test('a campaign that Postgres has lost is not said to be gone', async () => {
  const { product } = await heldByAnother();
  const shopper = await waiting(product);
  const browser = pushService.subscribe().toJSON();
  const { client } = service.database;
  await client.query("set session_replication_role = 'replica'");
  await client.query('create temp table lost as table campaigns');
  await client.query('delete from campaigns where product_id = $1', [product]);
  const answer = await subscribe(shopper, browser);
  await client.query(
    `insert into campaigns overriding system value select * from lost where product_id = '${product}'`,
  );
  await client.query("set session_replication_role = 'origin'");
  expect([answer.status, answer.body.code]).toEqual([503, 'temporarily_unavailable']);
  expect((await subscribe(shopper, browser)).status).toBe(200);
});

test('outside of development, only push services that are named are accepted; without keys there is nothing', async () => {
  const { product } = await heldByAnother();
  const shopper = await waiting(product);
  const good = pushService.subscribe().toJSON();
  const env = { NODE_ENV: 'test', PORT: '0' };
  const [strict, off] = await Promise.all([
    startApiProcess({ ...service.env, ...env }),
    startApiProcess({ ...serviceEnv(String(service.env.REDIS_URL), String(service.env.DATABASE_URL)) }),
  ]);
  for (const endpoint of [good.endpoint, 'https://10.0.0.1/x', 'https://fcm.googleapis.com.evil.example/x'])
    expect((await subscribe(shopper, { ...good, endpoint }, strict.url)).body.errors).toHaveLength(1);
  const endpoint = `https://fcm.googleapis.com/fcm/send/${randomUUID()}`;
  expect((await subscribe(shopper, { ...good, endpoint }, strict.url)).status).toBe(200);
  expect((await unsubscribe(shopper)).status).toBe(200);
  expect((await subscribe(shopper, good, off.url)).body.code).toBe('push_not_available');
  expect((await send(`${off.url}/sale/${product}`)).text).toContain('&quot;pushKey&quot;:null');
});

test('a user who is absent at the promotion has more time to pay, if the campaign says so', async () => {
  const waiting_room = { enabled: true, presence_seconds: 1, absent_hold_seconds: 900 };
  const { product, held } = await heldByAnother({ hold_seconds: 300, waiting_room });
  const { browser } = await subscribed(product);
  const seenAt = Date.now();
  await until('the user was not seen for a second', () => Date.now() - seenAt > 1_100);
  await payments.release(held);
  const [message] = await got(browser);
  expect(Number(message?.headers.ttl)).toBeGreaterThan(600);
  const { data } = await operator.call('GET', `/admin/campaigns/${product}`);
  expect(data.waiting_room).toEqual({ ...waiting_room, max_size: 1_000_000 });
  const wrong = [
    { hold_seconds: 300, waiting_room: { ...waiting_room, presence_seconds: null } },
    { hold_seconds: 0, waiting_room },
    { hold_seconds: 901, waiting_room },
  ];
  for (const terms of wrong) {
    const created = await operator.call('POST', '/admin/campaigns', {
      product_id: randomUUID(),
      total_limit: 1,
      ...terms,
    });
    const amended = await operator.call('PATCH', `/admin/campaigns/${product}`, terms);
    for (const { body } of [created, amended])
      expect(body.errors).toEqual([expect.objectContaining({ pointer: '#/waiting_room/absent_hold_seconds' })]);
  }
});

test('npm run push:keys prints settings that the service takes', () => {
  const program = join(projectRoot(), 'scripts/push-keys.mjs');
  const { stdout } = spawnSync(process.execPath, [program, '--subject', 'https://shop.example/contact']);
  expect(String(stdout)).toMatch(
    /^VAPID_SUBJECT=https:\/\/shop\.example\/contact\nVAPID_PUBLIC_KEY=[\w-]{87}\nVAPID_PRIVATE_KEY=[\w-]{43}\n$/,
  );
});
