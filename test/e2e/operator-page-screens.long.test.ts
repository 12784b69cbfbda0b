import { expect, test } from '@jest/globals';
import type { Request } from 'playwright-core';
import { accessibilityFindings, forbidStorage } from '../harness/browser.js';
import { freePort } from '../harness/free-port.js';
import { heading, LIMIT_MS, logIn, press, SIZES, shows } from '../harness/operator-page.js';
import {
  inBrowser,
  number,
  openLoggedIn,
  openPage,
  operator,
  service,
  textOf,
} from '../harness/operator-page-stage.js';
import { startApiProcess } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

inBrowser('the operator’s page', () => {
  test('works in a browser that forbids its stores', async () => {
    const product = await operator.openCampaign({ type: 'pool', total_limit: 5_000 });
    const { page, faults } = await openPage();
    await page.addInitScript(forbidStorage);
    await page.goto(`${service.url}/admin#/campaigns/${product}`);
    await page.reload();
    await logIn(page);
    await page.getByLabel('How many').fill('100');
    await press(page, 'Generate');
    await shows(page, 'Done: 100 codes generated.');
    await press(page, 'Forget this job');
    expect(faults).toEqual([]);
  });

  test('outlives an API that is killed, says so meanwhile, and comes back by itself with the session', async () => {
    const env = { ...service.env, PORT: String(await freePort()) };
    const { process: killed, url } = await startApiProcess(env);
    const product = await operator.openCampaign({ total_limit: 7 });
    const { page, faults } = await openPage({}, url);
    await logIn(page);
    await heading(page, 'Campaigns');
    await page.goto(`${url}/admin#/campaigns/${product}`);
    await number(page, 'total', '7');
    await killed.kill();
    await shows(page, 'Connection lost. Trying again…');
    expect(await textOf(page, '#link')).toBe('No connection');
    await arrive(service.url, product).checkout();
    await startApiProcess(env);
    await number(page, 'free', '6');
    expect(await textOf(page, '#link')).toBe('Live');
    expect(await textOf(page, '#trouble')).toBe('');
    expect(faults).toEqual([]);
  });

  test('sends no request while its tab is hidden, and one at a time otherwise', async () => {
    const { page, context } = await openLoggedIn();
    const asked: string[] = [];
    // A request that was under way before the count does not count.
    const underWay = new Set<Request>();
    let most = 0;
    page.on('request', (request) => {
      asked.push(new URL(request.url()).pathname);
      underWay.add(request);
      most = Math.max(most, underWay.size);
    });
    page.on('requestfinished', (request) => underWay.delete(request));
    page.on('requestfailed', (request) => underWay.delete(request));
    await until('it asks again and again', () => asked.length > 2, LIMIT_MS);
    expect(new Set(asked)).toEqual(new Set(['/admin/overview']));
    expect(most).toBe(1);
    await page.evaluate(`
      Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => globalThis.isHidden ? 'hidden' : 'visible' });
      globalThis.isHidden = true;
      document.dispatchEvent(new Event('visibilitychange'));`);
    const [other, count] = [await context.newPage(), asked.length + underWay.size];
    await other.goto(`${service.url}/admin`);
    // As long as the other tab takes to ask three times, the hidden one asks nothing.
    let others = 0;
    other.on('request', () => {
      others += 1;
    });
    await until('the other tab goes on', () => others > 2, LIMIT_MS);
    expect(asked.length).toBeLessThanOrEqual(count);
    await page.evaluate("globalThis.isHidden = false; document.dispatchEvent(new Event('visibilitychange'));");
    await until('it asks again', () => asked.length > count, LIMIT_MS);
  });

  test('says so where there is nothing, whatever the address is', async () => {
    const { page, faults } = await openLoggedIn();
    for (const hash of ['#/campaigns/no-such-sale', '#/campaigns/%', '#/campaigns/', '#/nowhere']) {
      await page.goto(`${service.url}/admin${hash}`);
      await heading(page, 'Not found');
      expect([hash, await accessibilityFindings(page)]).toEqual([hash, []]);
    }
    await page.getByRole('link', { name: 'All campaigns' }).click();
    await heading(page, 'Campaigns');
    expect(faults).toEqual([]);
  });
});

inBrowser('every view', () => {
  for (const [size, viewport] of Object.entries({ phone: SIZES.phone, desktop: SIZES.desktop })) {
    for (const colorScheme of ['light', 'dark'] as const) {
      test(`has nothing that axe finds and fits its screen, ${size}, ${colorScheme}`, async () => {
        const product = await operator.openCampaign({
          name: 'For the axe',
          type: 'pool',
          total_limit: 0,
          waiting_room: { enabled: true },
        });
        await arrive(service.url, product).checkout();
        const ban = await operator.call('POST', '/admin/bans', {
          kind: 'user',
          subject: 'reseller-7',
          reason: 'resells',
        });
        const { page, faults } = await openPage({ viewport, colorScheme });
        const check = async (what: string) => {
          expect([what, await accessibilityFindings(page)]).toEqual([what, []]);
          expect([what, await page.evaluate('document.documentElement.scrollWidth')]).toEqual([what, viewport.width]);
        };
        await page.getByLabel('Admin key').waitFor();
        await check('login');
        await logIn(page);
        await shows(page, 'For the axe');
        await check('list');
        await page.goto(`${service.url}/admin#/campaigns/${product}`);
        await shows(page, 'No unit is free.');
        await check('campaign');
        await press(page, 'Restock');
        await check('dialog');
        await page.keyboard.press('Escape');
        await page.goto(`${service.url}/admin#/new`);
        await page.getByText('More terms').click();
        await press(page, 'Create the campaign');
        await shows(page, 'Must have 1 to 128 characters');
        await check('form with errors');
        await page.goto(`${service.url}/admin#/bans`);
        await shows(page, 'reseller-7');
        await check('bans');
        await page.goto(`${service.url}/admin#/health`);
        await shows(page, 'Everything is in order');
        await check('health');
        await operator.call('DELETE', `/admin/bans/${ban.data.id}`);
        expect(faults).toEqual([]);
      });
    }
  }
});
