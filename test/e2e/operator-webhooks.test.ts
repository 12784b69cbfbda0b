import { describe, expect, test } from '@jest/globals';
import { startBrowser } from '../harness/browser.js';
import { Operator } from '../harness/clients.js';
import { expectSound, LIMIT_MS, pageOpener, press, SIZES, shows } from '../harness/operator-page.js';
import { startReceiver } from '../harness/receiver.js';
import { sharedService } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

/** Webhooks on the operator’s page. */
const service = await sharedService();
const operator = new Operator(service.url);
const browser = await startBrowser();
const inBrowser = browser ? describe : describe.skip;
const openLoggedIn = pageOpener(browser, service.url);

type Endpoint = { id: string; url: string; deliveries: { last_error: string | null } };
const endpoints = async () => (await operator.call('GET', '/admin/webhooks')).data as unknown as Endpoint[];
async function attemptsOf(url: string): Promise<{ event_id: string; type: string }[]> {
  const endpoint = (await endpoints()).find((one) => one.url === url);
  const { data } = await operator.call('GET', `/admin/webhooks/${endpoint?.id}/attempts`);
  return data as unknown as { event_id: string; type: string }[];
}

inBrowser('an admin', () => {
  test('creates an endpoint, tests it, sees its attempts, sends an event again, disables and removes it', async () => {
    const receiver = await startReceiver();
    const { page, faults } = await openLoggedIn('#/webhooks');
    await shows(page, 'There is no endpoint yet.');
    await page.getByLabel('URL').fill('ftp://shop.example');
    await press(page, 'Create');
    await page.locator('.field .error', { hasText: /./ }).first().waitFor({ timeout: LIMIT_MS });
    await page.getByLabel('URL').fill(receiver.url);
    await press(page, 'Create');
    const secret = await page.getByRole('textbox', { name: 'Secret' }).inputValue();
    expect(secret).toMatch(/^whsec_/);
    await expectSound(page);
    await press(page, 'I have stored it');
    await page.getByRole('link', { name: receiver.url }).click();
    await shows(page, 'There has been no attempt yet.');
    expect(await page.content()).not.toContain(secret);

    await press(page, 'Send a test event');
    await shows(page, /^Delivered: status 204/);
    receiver.answer = () => 500;
    await press(page, 'Send a test event');
    await shows(page, /^Not delivered: status 500/);
    receiver.answer = () => 204;

    const product = await operator.openCampaign({ total_limit: 4 });
    await arrive(service.url, product).checkout();
    const reserved = await until('an attempt is recorded', async () => {
      const attempts = await attemptsOf(receiver.url);
      return attempts.find(({ type }) => /reserved|redeemed/.test(type));
    });
    await press(page, 'Refresh');
    await press(page, `Send again ${reserved.event_id}`);
    const deliveries = () => receiver.accepted().filter((id) => id === reserved.event_id).length;
    await until('the event is delivered twice', () => deliveries() === 2);

    await press(page, 'Disable');
    await shows(page, 'Its events are kept for seven days');
    await page.getByRole('dialog').getByRole('button', { name: 'Disable' }).click();
    await shows(page, /^It is disabled: /);
    await press(page, 'Send a test event');
    await shows(page, /^Delivered: status 204/);
    await expectSound(page);
    await press(page, 'Enable');
    await shows(page, 'The endpoint is enabled.');
    await press(page, 'Remove');
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
    await shows(page, 'There is no endpoint yet.');
    expect((await operator.call('GET', '/admin/webhooks')).data).toEqual([]);
    expect(faults).toEqual([]);
  });

  test('sees on a phone which endpoint fails, since when and why', async () => {
    const receiver = await startReceiver();
    receiver.answer = () => 503;
    await operator.call('POST', '/admin/webhooks', { url: receiver.url });
    const product = await operator.openCampaign({ total_limit: 4 });
    await arrive(service.url, product).checkout();
    await until('an attempt has failed', async () => {
      const [endpoint] = await endpoints();
      return endpoint?.deliveries.last_error;
    });
    const { page, faults } = await openLoggedIn('#/webhooks', { viewport: SIZES.phone });
    await shows(page, /^(Failing|Some events parked)$/);
    await expectSound(page);
    await page.getByRole('link', { name: receiver.url }).click();
    await shows(page, /Last error: .*503/);
    await shows(page, /^Not delivered: status 503/);
    await expectSound(page);
    expect(faults).toEqual([]);
  });
});
