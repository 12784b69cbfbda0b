import { describe, expect, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import { startBrowser } from '../harness/browser.js';
import { Operator } from '../harness/clients.js';
import { expectSound, heading, LIMIT_MS, pageOpener, press, SIZES, shows } from '../harness/operator-page.js';
import { startService } from '../harness/service.js';

/** Keys and roles on the operator’s page. */
const service = await startService();
const operator = new Operator(service.url);
const browser = await startBrowser();
const inBrowser = browser ? describe : describe.skip;
const openLoggedIn = pageOpener(browser, service.url);

const places = (page: Page) => page.getByRole('navigation', { name: 'Places' }).getByRole('link').allTextContents();

async function createKey(fields: object): Promise<{ id: string; secret: string }> {
  return (await operator.call('POST', '/admin/keys', fields)).data as { id: string; secret: string };
}

inBrowser('an admin', () => {
  test('creates a key with a role, sees its secret once, and revokes it, which ends its session', async () => {
    const { page, faults } = await openLoggedIn('#/keys');
    await shows(page, 'No key has been created yet.');
    await press(page, 'Create');
    await shows(page, 'Must have 1 to 64 characters');
    await page.getByLabel('Name').fill('anna-reads');
    await page.getByLabel('What it may do').selectOption('viewer');
    await page.getByLabel('Valid for').selectOption('90 days');
    await press(page, 'Create');
    const secret = await page.getByRole('textbox', { name: 'Secret' }).inputValue();
    expect(secret).toMatch(/^dbk_/);
    await expectSound(page);
    await press(page, 'I have stored it');
    await page.getByRole('rowheader', { name: 'anna-reads' }).waitFor({ timeout: LIMIT_MS });
    expect(await page.content()).not.toContain(secret);
    await expectSound(page);

    const viewer = await openLoggedIn('#/', { secret });
    await shows(viewer.page, 'anna-reads · viewer');
    await press(page, 'Revoke anna-reads');
    await shows(page, 'Calls with it are refused within about two seconds');
    await press(page, 'Revoke');
    await shows(page, 'No key has been created yet.');
    await page.getByLabel('Also revoked and expired keys').check();
    await shows(page, /revoked by tester/);
    await shows(viewer.page, 'Your session has ended. Log in again to return to this page.');
    expect([...faults, ...viewer.faults]).toEqual([]);
  });

  test('manages keys on a phone', async () => {
    await createKey({ name: 'payments-on-a-phone', kind: 'service', expires_at: '2999-01-01T00:00:00Z' });
    const { page } = await openLoggedIn('#/keys', { viewport: SIZES.phone });
    await page.getByRole('rowheader', { name: 'payments-on-a-phone' }).waitFor({ timeout: LIMIT_MS });
    await expectSound(page);
  });
});

inBrowser('the audit log', () => {
  test.each(Object.entries(SIZES))('shows who did what, and filters it, on a %s', async (name, viewport) => {
    const subject = `reseller-${name}`;
    await operator.call('POST', '/admin/bans', { kind: 'user', subject, reason: 'resells' });
    const product = await operator.openCampaign({ name: 'Audited', total_limit: 4 });
    const { page, faults } = await openLoggedIn('#/audit', { viewport });
    await page.getByRole('link', { name: product }).first().waitFor({ timeout: LIMIT_MS });
    await page.getByLabel('About').selectOption('Bans');
    await press(page, 'Show');
    await page.getByRole('link', { name: product }).first().waitFor({ state: 'detached', timeout: LIMIT_MS });
    await shows(page, 'ban.create');
    await page.locator('summary').first().press('Enter');
    await shows(page, new RegExp(subject));
    await expectSound(page);
    await page.getByLabel('Who').fill('a-stranger');
    await page.getByLabel('Who').press('Enter');
    await shows(page, 'No entry matches.');
    expect(faults).toEqual([]);
  });
});

inBrowser('an operator with a role', () => {
  test('as viewer reads, and is shown which role the rest needs', async () => {
    const product = await operator.openCampaign({ name: 'Midnight', type: 'pool', total_limit: 4 });
    const { secret } = await createKey({ name: 'only-reads', kind: 'admin', role: 'viewer' });
    const { page, faults } = await openLoggedIn(`#/campaigns/${product}`, { secret });
    await heading(page, 'Midnight');
    await shows(page, 'Changing this campaign needs the role marketer. Your role is viewer.');
    await shows(page, 'Generating and exporting codes needs the role marketer.');
    await shows(page, 'The list of redemptions needs the role support.');
    for (const name of ['Pause', 'Restock', 'Close', 'Reconcile', 'Generate'])
      expect([name, await page.getByRole('button', { name, exact: true }).count()]).toEqual([name, 0]);
    expect(await places(page)).toEqual(['Campaigns', 'Health']);
    await expectSound(page);
    for (const hash of ['#/find', '#/people/ann', '#/bans', '#/new', `#/edit/${product}`, '#/keys']) {
      await page.goto(`${service.url}/admin${hash}`);
      await heading(page, 'Not allowed');
    }
    expect(faults).toEqual([]);
  });

  test('as support finds users and changes no campaign; as marketer does both', async () => {
    const product = await operator.openCampaign({ name: 'Two roles', total_limit: 4 });
    const support = await createKey({ name: 'eve-support', kind: 'admin', role: 'support' });
    const marketer = await createKey({ name: 'mia-marketer', kind: 'admin', role: 'marketer' });
    const asSupport = await openLoggedIn(`#/campaigns/${product}`, { secret: support.secret });
    await shows(asSupport.page, 'Changing this campaign needs the role marketer. Your role is support.');
    expect(await places(asSupport.page)).toEqual(['Campaigns', 'Find', 'Payments', 'Bans', 'Health']);
    const asMarketer = await openLoggedIn(`#/campaigns/${product}`, { secret: marketer.secret });
    await press(asMarketer.page, 'Pause');
    await shows(asMarketer.page, 'The campaign is paused.');
    expect(await places(asMarketer.page)).toEqual(['Campaigns', 'Find', 'Payments', 'Bans', 'Health']);
    await shows(asMarketer.page, /mia-marketer/);
    expect([...asSupport.faults, ...asMarketer.faults]).toEqual([]);
  });
});
