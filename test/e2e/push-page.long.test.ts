import { describe, expect, test } from '@jest/globals';
import type { Browser, Page } from 'playwright-core';
import { accessibilityFindings, openPhone, showsHeadline as shows, startBrowser } from '../harness/browser.js';
import { Operator, PaymentService, send } from '../harness/clients.js';
import { pushEnv, startPushService } from '../harness/push-service.js';
import { startApiProcess, startService } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

const service = await startService({
  ...pushEnv(),
  NODE_ENV: 'development',
  IMAGE_ORIGINS: 'https://img.example',
});
const pushService = await startPushService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const browser = await startBrowser({ notifications: true });
const inBrowser = browser ? describe : describe.skip;

const option = (page: Page) =>
  page.getByRole('button', { name: /^(Notify me when it is my turn|We will notify you)$/ });
/** By a key: a click so soon, and so near to the last one, would be the second one of a double click. */
const turn = (page: Page) => option(page).press('Enter');
const isOn = async (page: Page) => (await option(page).getAttribute('aria-pressed')) === 'true';

async function heldByAnother() {
  const product = await operator.openCampaign({
    ...{ name: 'Midnight sale', total_limit: 1, hold_seconds: 900, waiting_room: { enabled: true } },
  });
  return { product, held: String((await arrive(service.url, product).checkout()).data.reservation_id) };
}

/**
 * A shopper in line. The push service of the browser is that of this test, because the real one is in the internet;
 * everything else is the browser's own.
 */
async function inLine(product: string, permissions: string[] = ['notifications']) {
  if (!browser) throw new Error('there is no browser');
  const phone = await openPhone(browser, { permissions });
  const subscription = pushService.subscribe();
  const fields = JSON.stringify(subscription.toJSON());
  await phone.page.addInitScript(`PushManager.prototype.subscribe = async () => ({ toJSON: () => (${fields}) });`);
  await phone.page.goto(`${service.url}/sale/${product}`);
  await phone.page.getByRole('button', { name: 'Get one now', exact: true }).click();
  await shows(phone.page, 'Your place in line');
  return { ...phone, subscription };
}

test('the service worker may serve the pages below /sale/ and is looked for each time', async () => {
  const { status, headers, text } = await send(`${service.url}/assets/push-worker.js`);
  expect([status, headers.get('service-worker-allowed'), headers.get('cache-control')]).toEqual([
    200,
    '/sale/',
    'no-cache',
  ]);
  // It holds no sale back: no cache, and no request goes through it.
  expect(text).not.toMatch(/caches|addEventListener\("fetch"/);
});

test('the page has a manifest of its campaign, which caches may hold, and without Web Push none', async () => {
  const branding = {
    title: 'Night "owl" lamp',
    shop_name: 'Lamps',
    logo_url: 'https://img.example/logo.png',
    accent: '#0b5fff',
  };
  const product = await operator.openCampaign({ name: 'Midnight sale', branding });
  const page = await send(`${service.url}/sale/${product}?lang=id`);
  const href = `/sale/${product}/manifest.webmanifest?lang=id`;
  expect(page.text).toContain(`<link rel="manifest" href="${href}">`);
  expect(page.text).toContain('<link rel="apple-touch-icon" href="https://img.example/logo.png">');
  const { status, headers, text } = await send(`${service.url}${href}`);
  expect([status, headers.get('content-type'), headers.get('cache-control')]).toEqual([
    ...[200, 'application/manifest+json', 'public, max-age=300'],
  ]);
  expect(JSON.parse(text)).toEqual({
    ...{ id: `/sale/${product}`, name: 'Night "owl" lamp', short_name: 'Lamps', lang: 'id' },
    ...{ start_url: `/sale/${product}?lang=id`, scope: '/sale/', display: 'standalone', theme_color: '#0b5fff' },
    icons: [{ src: 'https://img.example/logo.png', sizes: 'any' }],
  });
  const plain = await operator.openCampaign({ name: 'Plain' });
  const ofPlain = JSON.parse((await send(`${service.url}/sale/${plain}/manifest.webmanifest?lang=%3Cb%3E`)).text);
  expect(ofPlain).toMatchObject({ name: 'Plain', short_name: 'Plain', start_url: `/sale/${plain}`, icons: [] });
  expect((await send(`${service.url}/sale/no-such-sale/manifest.webmanifest`)).status).toBe(404);
  const { VAPID_PUBLIC_KEY: _, VAPID_PRIVATE_KEY: __, VAPID_SUBJECT: ___, ...env } = service.env;
  const off = await startApiProcess({ ...env, PORT: '0' });
  expect((await send(`${off.url}/sale/${plain}`)).text).not.toContain('manifest');
});

inBrowser('the sale page', () => {
  test('says on an iPhone how to get notifications, before the shopper joins and not on the Home Screen', async () => {
    const { product } = await heldByAnother();
    const open = async (standalone: boolean) => {
      const phone = await openPhone(browser as Browser, {});
      // Safari on an iPhone: only pages on the Home Screen have PushManager.
      await phone.page.addInitScript(
        `Object.defineProperty(navigator, 'standalone', { value: ${standalone} }); if (!${standalone}) delete window.PushManager;`,
      );
      await phone.page.goto(`${service.url}/sale/${product}`);
      await shows(phone.page, 'The sale is open');
      return phone;
    };
    const { page, faults } = await open(false);
    await page.getByText('add this page to your Home Screen').waitFor();
    expect(await accessibilityFindings(page)).toEqual([]);
    await page.getByRole('button', { name: 'Get one now', exact: true }).click();
    await shows(page, 'Your place in line');
    expect(await page.locator('#install').isVisible()).toBe(false);
    expect(await option(page).isVisible()).toBe(false);
    const installed = await open(true);
    await installed.page.getByRole('button', { name: 'Get one now', exact: true }).waitFor();
    expect(await installed.page.locator('#install').isVisible()).toBe(false);
    await installed.page.getByRole('button', { name: 'Get one now', exact: true }).click();
    await option(installed.page).waitFor();
    expect(faults).toEqual([]);
  });

  test('notifies a shopper whose tab is closed, and leads back to the unit', async () => {
    const { product, held } = await heldByAnother();
    const { context, page, subscription, faults } = await inLine(product);
    expect(await isOn(page)).toBe(false);
    await turn(page);
    const devtools = await context.newCDPSession(page);
    const registrations: { registrationId: string; scopeURL: string }[] = [];
    devtools.on('ServiceWorker.workerRegistrationUpdated', (event) => registrations.push(...event.registrations));
    await devtools.send('ServiceWorker.enable');
    await until('the server has the subscription', async () => {
      const { rows } = await service.database.client.query('select from push_subscriptions where endpoint = $1', [
        subscription.endpoint,
      ]);
      return rows.length === 1;
    });
    expect(await accessibilityFindings(page)).toEqual([]);
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(320);
    await page.goto('about:blank');
    await payments.release(held);
    const [message] = await until('the push service has it', () => {
      const found = pushService.of(subscription);
      return found.length > 0 && found;
    });
    // The push service hands it to the browser, which no page of the sale is open in.
    const registration = await until('the worker is registered', () => registrations.at(-1));
    expect(registration.scopeURL).toBe(`${service.url}/sale/`);
    await devtools.send('ServiceWorker.deliverPushMessage', {
      ...{ origin: service.url, registrationId: registration.registrationId, data: JSON.stringify(message?.payload) },
    });
    await page.goto(`${service.url}/sale/${product}${String(message?.payload.url).replace(/^[^?]*/, '')}`);
    await shows(page, 'It is your turn');
    expect(new URL(page.url()).hash).toBe('');
    const shown = await until('the notification is shown', async () => {
      const all: unknown[] = await page.evaluate(
        `navigator.serviceWorker.ready.then((ready) => ready.getNotifications())
          .then((all) => all.map(({ title, body, tag, data }) => ({ title, body, tag, data })))`,
      );
      return all.length > 0 && all;
    });
    expect(shown).toEqual([
      {
        title: 'It is your turn',
        body: expect.stringMatching(/^Midnight sale\nPay before \d\d:\d\d/),
        tag: `doorbuster|${product}`,
        data: message?.payload.url,
      },
    ]);
    expect(faults).toEqual([]);
  });

  test('keeps the choice for later places, and forgets it when it is turned off', async () => {
    const { product } = await heldByAnother();
    const { page, subscription } = await inLine(product);
    const rows = async () =>
      (
        await service.database.client.query('select from push_subscriptions where endpoint = $1', [
          subscription.endpoint,
        ])
      ).rows.length;
    await turn(page);
    await until('the place is subscribed', async () => (await rows()) === 1);
    page.on('dialog', (dialog) => dialog.accept());
    await page.getByRole('button', { name: 'Leave the line' }).click();
    await shows(page, 'You left the line');
    expect(await option(page).isHidden()).toBe(true);
    // By a key: a click so soon, and so near to the last one, would be the second one of a double click.
    await page.getByRole('button', { name: 'Join the line again', exact: true }).press('Enter');
    await shows(page, 'Your place in line');
    await until('the second place is subscribed too', async () => (await rows()) === 2);
    await turn(page);
    await until('the second place is not subscribed', async () => (await rows()) === 1);
  });

  test('shows what the shopper chose last while the browser asks for permission, and does that', async () => {
    const { product } = await heldByAnother();
    const { page, subscription, faults } = await inLine(product);
    const rows = async () =>
      (
        await service.database.client.query('select from push_subscriptions where endpoint = $1', [
          subscription.endpoint,
        ])
      ).rows.length;
    await page.evaluate(`answers = [];
      Notification.requestPermission = () => new Promise((resolve) => answers.push(() => resolve('granted')))`);
    const showAgain = () => page.evaluate(`dispatchEvent(new Event('offline')); dispatchEvent(new Event('online'))`);
    await turn(page);
    await showAgain();
    expect(await isOn(page)).toBe(true);
    await turn(page);
    await page.evaluate('answers[0]()');
    await showAgain();
    expect(await isOn(page)).toBe(false);
    await turn(page);
    await page.evaluate('answers[1]()');
    await until('the place is subscribed', async () => (await rows()) === 1);
    expect(await isOn(page)).toBe(true);
    // The subscription of a choice that was taken back at once ends too.
    await turn(page);
    await until('the place is not subscribed', async () => (await rows()) === 0);
    await page.evaluate(`{
      const { subscribe } = PushManager.prototype;
      const goOn = new Promise((resolve) => answers.push(resolve));
      PushManager.prototype.subscribe = async () => { answers.push('asked'); await goOn; return subscribe(); };
      Notification.requestPermission = async () => 'granted';
    }`);
    await turn(page);
    await until('the browser is asked for a subscription', () => page.evaluate(`answers.at(-1) === 'asked'`));
    const subscribed = page.waitForRequest((request) => request.method() === 'POST' && request.url().endsWith('/push'));
    const ended = page.waitForRequest((request) => request.method() === 'DELETE');
    await turn(page);
    await page.evaluate('answers[2]()');
    await subscribed;
    await ended;
    await until('the place is not subscribed', async () => (await rows()) === 0);
    expect(await isOn(page)).toBe(false);
    expect(faults).toEqual([]);
  });

  test('offers sound where the browser forbids notifications', async () => {
    const { product } = await heldByAnother();
    const { page } = await inLine(product, []);
    await page.getByRole('button', { name: /sound/i }).waitFor();
    expect(await option(page).isHidden()).toBe(true);
    expect(await accessibilityFindings(page)).toEqual([]);
  });
});
