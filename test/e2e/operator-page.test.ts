import { expect, test } from '@jest/globals';
import { send } from '../harness/clients.js';
import { heading, LIMIT_MS, logIn, press, shows } from '../harness/operator-page.js';
import {
  drawn,
  inBrowser,
  number,
  openLoggedIn,
  openPage,
  operator,
  payments,
  service,
} from '../harness/operator-page-stage.js';
import { ADMIN_SECRET } from '../harness/service.js';
import { arrive, checkoutInTurn, gatherShoppers } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

test('the page and its parts are served with a policy that allows no script but its own', async () => {
  const page = await send(`${service.url}/admin`);
  expect(page.status).toBe(200);
  expect(page.headers.get('content-security-policy')).toContain("script-src 'self'");
  expect(page.text).not.toMatch(/<script(?![^>]*\bsrc=)|\son\w+=|style=|https?:\/\//);
  const seen = new Set<string>();
  const left = [...page.text.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map(([, path]) => String(path));
  for (let path = left.pop(); path !== undefined; path = left.pop()) {
    if (seen.has(path)) continue;
    seen.add(path);
    const part = await send(service.url + path);
    expect([path, part.status]).toEqual([path, 200]);
    for (const [, name] of part.text.matchAll(/\bfrom ?"([^"]+)"/g))
      left.push(new URL(String(name), service.url + path).pathname);
  }
  expect([...seen].map((path) => path.replace(/-[A-Z0-9]{8}\./, '.')).sort()).toEqual([
    '/assets/admin-styles.css',
    '/assets/admin.js',
  ]);
});

inBrowser('a campaign with a duplicate payment', () => {
  test('shows both payments, and nothing of it while there are none', async () => {
    const product = await operator.openCampaign({ total_limit: 9, hold_seconds: 900 });
    const [bought] = await checkoutInTurn([arrive(service.url, product)]);
    const id = String(bought?.data.reservation_id);
    await payments.confirm(id, 'pay-first');
    const { page } = await openLoggedIn(`#/campaigns/${product}`);
    await shows(page, 'Records');
    expect(await page.getByText('Paid twice').isVisible()).toBe(false);
    await payments.confirm(id, 'pay-second');
    await shows(page, 'Paid twice');
    await shows(page, 'pay-first');
    await shows(page, 'pay-second');
  });
});

inBrowser('the operator’s page', () => {
  test('takes an operator through a day', async () => {
    const { page, context, faults } = await openPage();
    await logIn(page, 'not-the-key-of-anybody');
    await shows(page, 'The key is unknown.');
    await logIn(page);
    await heading(page, 'Campaigns');
    expect(await page.evaluate('JSON.stringify([localStorage, sessionStorage, document.cookie])')).not.toContain(
      ADMIN_SECRET,
    );
    expect(await page.evaluate('document.cookie')).toBe('');

    // A campaign: first with a mistake, then without.
    await page.getByRole('link', { name: 'New campaign' }).click();
    await heading(page, 'New campaign');
    await page.getByLabel('Product id').fill('not a product');
    await page.getByLabel('Units', { exact: true }).fill('2.5');
    await press(page, 'Create the campaign');
    await shows(page, 'Must have 1 to 128 characters of A-Z a-z 0-9 . _ : @ -.');
    expect(await page.locator('[aria-invalid]').count()).toBe(2);
    expect(await page.evaluate('document.activeElement.labels[0].textContent')).toBe('Product id');
    await page.getByLabel('Product id').fill('midnight');
    await page.getByLabel('Name').fill('Midnight sale');
    await page.getByLabel('Units', { exact: true }).fill('3');
    await page.getByLabel('Units in one redemption').fill('2');
    await page.getByLabel('Keep it as a draft').check();
    await press(page, 'Create the campaign');
    await heading(page, 'Midnight sale');
    await shows(page, 'Draft');
    await press(page, 'Open now');
    await page.getByRole('dialog').getByRole('button', { name: 'Open now' }).click();
    await shows(page, 'The campaign is open.');

    // Shoppers come; numbers and charts move.
    const before = await drawn(page, 'Stock');
    const held = (await checkoutInTurn(gatherShoppers(service.url, 'midnight', 3))).map(({ data }) =>
      String(data.reservation_id),
    );
    await number(page, 'held', '3');
    await number(page, 'free', '0');
    await until('the chart has moved', async () => (await drawn(page, 'Stock')) !== before, LIMIT_MS);
    await payments.confirm(String(held[0]));
    await number(page, 'redeemed', '1');

    // A line, and why it does not move.
    await shows(page, 'No user is waiting.');
    const first = arrive(service.url, 'midnight', 'ann');
    await first.checkout({ qty: 2 });
    await arrive(service.url, 'midnight', 'bob').checkout();
    await number(page, 'waiting', '2');
    await shows(page, 'No unit is free. The next returned unit goes to the first user in line.');
    expect(await page.getByRole('row').filter({ hasText: 'ann' }).getByRole('cell').allTextContents()).toEqual([
      '1',
      '2',
      expect.stringMatching(/^\d+ s$|min/),
    ]);
    await payments.release(String(held[1]));
    await shows(page, 'The first user in line wants 2 units and only 1 is free.');
    await press(page, 'Pause');
    await shows(page, 'The campaign is paused. Places stay');
    await press(page, 'Restock');
    await page.getByLabel('Units to add').fill('x');
    await press(page, 'Change the stock');
    await shows(page, 'Must be a whole number.');
    await page.getByLabel('Units to add').fill('1');
    await press(page, 'Change the stock');
    await number(page, 'total', '4');
    await press(page, 'Resume');
    await number(page, 'waiting', '1');
    await number(page, 'held', '3');

    // A reload changes nothing; reconciling finds nothing.
    await page.reload();
    await heading(page, 'Midnight sale');
    await number(page, 'held', '3');
    await press(page, 'Reconcile');
    await page.getByRole('dialog').getByRole('button', { name: 'Reconcile' }).click();
    await shows(page, 'Redis and Postgres agree.');

    await press(page, 'Close');
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
    expect((await operator.stats('midnight')).status).toBe('open');
    await press(page, 'Close');
    await shows(page, '1 waiting user gets the message that the line is closed.');
    await press(page, 'Close for good');
    await shows(page, 'The campaign is closed.');
    expect((await operator.stats('midnight')).status).toBe('closed');

    await press(page, 'Log out');
    await shows(page, 'You are logged out.');
    expect(await context.cookies()).toEqual([]);
    await page.reload();
    await page.getByLabel('Admin key').waitFor();
    expect(faults).toEqual([]);
  });

  test('makes codes and shows how far they are, imports a file and names its bad lines, and exports them', async () => {
    const product = await operator.openCampaign({ type: 'pool', total_limit: 5_000 });
    const { page, faults } = await openLoggedIn(`#/campaigns/${product}`);
    await page.getByLabel('How many').fill('3000');
    await page.getByLabel('Prefix').fill('nope!');
    await press(page, 'Generate');
    await shows(page, 'Must have at most 16 letters A-Z and digits, not counting spaces and hyphens.');
    await page.getByLabel('Prefix').fill('NOV');
    await press(page, 'Generate');
    await shows(page, 'Done: 3,000 codes generated.');
    await page.reload();
    await shows(page, 'Done: 3,000 codes generated.');
    await press(page, 'Import');
    await shows(page, 'Choose a file.');
    await page.getByLabel('CSV file').setInputFiles({
      name: 'codes.csv',
      mimeType: 'text/csv',
      buffer: Buffer.from('HELLO-ONE\nHELLO-ONE\n???\nHELLO-TWO\n'),
    });
    await press(page, 'Import');
    await shows(page, 'Done: 2 codes imported. 1 were issued before, 1 lines are not codes.');
    await shows(page, /^Line 3: /);
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'Export as CSV' }).click(),
    ]);
    expect(download.suggestedFilename()).toBe(`codes-${product}.csv`);
    expect(faults).toEqual([]);
  });

  test('bans a user and lifts the ban', async () => {
    const { page, faults } = await openLoggedIn('#/bans');
    await shows(page, 'There are no bans and no allowances.');
    await press(page, 'Add');
    await shows(page, 'Must not be empty.');
    await page.getByRole('region', { name: 'Add one' }).getByLabel('Kind').selectOption('network');
    await page.getByLabel('Who', { exact: true }).fill('203.0.113.0/24');
    await page.getByLabel('Why').fill('storms the sale');
    await press(page, 'Add');
    await page.getByRole('rowheader', { name: '203.0.113.0/24' }).waitFor();
    expect((await operator.call('GET', '/admin/bans')).data).toMatchObject([
      { subject: '203.0.113.0/24', actor: 'tester' },
    ]);
    await press(page, 'Lift 203.0.113.0/24');
    await press(page, 'Lift');
    await shows(page, 'There are no bans and no allowances.');
    expect((await operator.call('GET', '/admin/bans')).data).toEqual([]);
    expect(faults).toEqual([]);
  });

  test('asks for the key when the session has ended, and comes back to where it was', async () => {
    const product = await operator.openCampaign({ total_limit: 4 });
    const { page, context } = await openLoggedIn(`#/campaigns/${product}`);
    await number(page, 'total', '4');
    await context.clearCookies();
    await shows(page, 'Your session has ended.');
    await logIn(page);
    await number(page, 'total', '4');
  });

  test('opens the dashboard of jobs after the login that it leads to', async () => {
    const { page } = await openPage();
    await page.goto(`${service.url}/admin/queues`);
    await logIn(page);
    await page.waitForURL(/\/admin\/queues\/?$/, { timeout: LIMIT_MS });
    await page.getByText('reconcile').first().waitFor({ timeout: LIMIT_MS });
  });

  test('is done with the keyboard alone: dialogs give the focus back, places take it', async () => {
    const product = await operator.openCampaign({ name: 'By hand', total_limit: 4 });
    const { page } = await openLoggedIn();
    await page.getByRole('link', { name: 'By hand' }).focus();
    await page.keyboard.press('Enter');
    await heading(page, 'By hand');
    expect(await page.evaluate('document.activeElement.tagName')).toBe('H1');
    const restock = page.getByRole('button', { name: 'Restock' });
    await restock.focus();
    await page.keyboard.press('Enter');
    await page.getByRole('dialog', { name: 'Restock' }).waitFor();
    await page.keyboard.type('2');
    await page.keyboard.press('Enter');
    await number(page, 'total', '6');
    await until('the focus is back', () => restock.evaluate((one) => one === one.ownerDocument.activeElement));
    await page.keyboard.press('Enter');
    await page.keyboard.press('Escape');
    expect(await page.getByRole('dialog').count()).toBe(0);
    expect((await operator.stats(product)).total).toBe(6);
  });
});
