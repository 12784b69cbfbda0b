import { describe, expect, test } from '@jest/globals';
import { accessibilityFindings, startBrowser } from '../harness/browser.js';
import { Operator, PaymentService } from '../harness/clients.js';
import { heading, LIMIT_MS, pageOpener, press, SIZES, shows } from '../harness/operator-page.js';
import { sharedService } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

/** A support agent’s day on the operator’s page. */
const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const browser = await startBrowser();
const inBrowser = browser ? describe : describe.skip;
const openLoggedIn = pageOpener(browser, service.url);

async function sellOne(user: string, units = 1) {
  const product = await operator.openCampaign({
    total_limit: units,
    hold_seconds: 900,
    name: 'Midnight',
    waiting_room: { enabled: true },
  });
  const holder = arrive(service.url, product, user);
  const { reservation_id, order_id } = (await holder.checkout()).data;
  return { product, holder, reservation: String(reservation_id), order: String(order_id) };
}

inBrowser('a support agent', () => {
  test('finds an order, opens its user and releases the unit, with a reason and its consequence', async () => {
    const { product, order } = await sellOne('ann-release');
    const next = arrive(service.url, product, 'bob-next');
    await next.checkout();
    const { page, faults } = await openLoggedIn('#/find');
    await page.getByLabel('User, order, payment, reservation or code').fill(order);
    await page.keyboard.press('Enter');
    await page.getByRole('link', { name: 'ann-release' }).click();
    await heading(page, 'ann-release');
    await shows(page, 'To be paid');
    await press(page, 'Release');
    await shows(page, 'The unit goes to the first user in line, or back to the stock.');
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
    expect((await next.queueStatus()).data.status).toBe('queued');
    await press(page, 'Release');
    await page.getByLabel('Reason').fill('asked by mail');
    await page.getByRole('dialog').getByRole('button', { name: 'Release' }).click();
    await page.locator('.item .badge', { hasText: 'Released' }).waitFor({ timeout: LIMIT_MS });
    expect((await next.queueStatus()).data.status).toBe('promoted');
    await shows(page, 'by tester');
    expect(faults).toEqual([]);
  });

  test('gives back units of a reservation with several, before the payment and after it', async () => {
    const product = await operator.openCampaign({ total_limit: 9, max_qty: 4, hold_seconds: 900, name: 'Midnight' });
    const id = String((await arrive(service.url, product, 'ann-part').checkout({ qty: 4 })).data.reservation_id);
    const { page, faults } = await openLoggedIn('#/people/ann-part');
    await heading(page, 'ann-part');
    const dialog = page.getByRole('dialog');
    const keep = async (action: string, units: string) => {
      await press(page, action);
      await dialog.getByLabel('Units to keep').fill(units);
      await dialog.getByRole('button', { name: action }).click();
    };
    await press(page, 'Release');
    await shows(page, 'The units that the user does not keep go to the first user in line');
    expect(await accessibilityFindings(page)).toEqual([]);
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await keep('Release', '');
    await dialog.getByText(/expected/i).waitFor({ timeout: LIMIT_MS });
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await keep('Release', '3');
    await shows(page, '3, 1 released');
    await payments.confirm(id);
    await press(page, 'Refresh');
    await keep('Refund', '1');
    await shows(page, '1, 1 released, 2 refunded');
    await until('the timeline has it', async () => {
      await press(page, 'Refresh');
      return (await page.getByText('Units given back').count()) > 0;
    });
    // With one unit left there is nothing to choose.
    await press(page, 'Refund');
    await shows(page, 'The unit goes to the first user in line or back to the stock, or is burned');
    expect(await dialog.getByLabel('Units to keep').count()).toBe(0);
    expect(await operator.stats(product)).toMatchObject({ free: 8, held: 0, redeemed: 1 });
    expect(faults.filter((fault) => !fault.includes('400'))).toEqual([]);
  });

  test('exports a user and erases them after typing the id', async () => {
    const { reservation } = await sellOne('ann-erase');
    const { page, faults } = await openLoggedIn('#/people/ann-erase');
    await heading(page, 'ann-erase');
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'Export as JSON' }).click(),
    ]);
    expect(download.suggestedFilename()).toBe('user.json');
    await press(page, 'Erase');
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('The user id, to confirm').fill('ann');
    await dialog.getByRole('button', { name: 'Erase' }).click();
    await shows(page, 'Type ann-erase to confirm.');
    await dialog.getByLabel('The user id, to confirm').fill('ann-erase');
    await dialog.getByLabel('Do not wait until the campaigns are closed').check();
    await dialog.getByRole('button', { name: 'Erase' }).click();
    await shows(page, 'It waits for the end of the reservation of');
    await payments.confirm(reservation);
    await shows(page, 'Nothing is known about this user.');
    expect(faults).toEqual([]);
  });

  test('finds a payment, records its refund, and a user in line, whom they move out', async () => {
    const { product, reservation } = await sellOne('ann-refund', 2);
    // A line whose units are all paid is closed.
    await arrive(service.url, product).checkout();
    await payments.confirm(reservation, 'pay-page-1');
    const waiting = arrive(service.url, product, 'eve-waits');
    await waiting.checkout();
    const { page, faults } = await openLoggedIn('#/find');
    await until('the payment is written', async () => {
      const { data } = await operator.call('GET', '/admin/redemptions?payment_ref=pay-page-1');
      return data.length === 1;
    });
    await page.getByLabel('User, order, payment, reservation or code').fill('pay-page-1');
    await press(page, 'Search');
    await page.getByRole('link', { name: 'ann-refund' }).waitFor({ timeout: LIMIT_MS });
    await page.getByLabel('User, order, payment, reservation or code').fill('eve-waits');
    await press(page, 'Search');
    await shows(page, 'Waiting, position 1');
    await page.getByRole('link', { name: 'eve-waits' }).first().click();
    await heading(page, 'eve-waits');
    await press(page, 'Move out of the line');
    await shows(page, 'eve-waits loses position 1 in Midnight');
    await page.getByRole('dialog').getByRole('button', { name: 'Move out' }).click();
    // "Done." of the refund may still be on the page.
    await until('the user has left', async () => (await waiting.queueStatus()).data.status === 'left');
    await page.goto(`${service.url}/admin#/people/ann-refund`);
    await press(page, 'Refund');
    await shows(page, 'This returns no money: do that with the payment provider.');
    await page.getByRole('dialog').getByRole('button', { name: 'Refund' }).click();
    await page.locator('.item .badge', { hasText: 'Refunded' }).waitFor({ timeout: LIMIT_MS });
    expect((await operator.stats(product)).redeemed).toBe(0);
    expect(faults).toEqual([]);
  });

  test('sees what to do when nothing is found, and a search in the address works after a reload', async () => {
    await sellOne('ann-reload');
    const { page, faults } = await openLoggedIn('#/find?q=nobody-has-this');
    await shows(page, 'Nothing was found.');
    await page.getByLabel('User, order, payment, reservation or code').fill('');
    await press(page, 'Search');
    await shows(page, 'Type what to look for.');
    await page.getByLabel('User, order, payment, reservation or code').fill('ann-reload');
    await page.getByLabel('Search in').selectOption('User');
    await press(page, 'Search');
    await page.getByRole('link', { name: 'ann-reload' }).waitFor({ timeout: LIMIT_MS });
    expect(new URL(page.url()).hash).toBe('#/find?q=ann-reload&in=user_id');
    await page.reload();
    await page.getByRole('link', { name: 'ann-reload' }).waitFor({ timeout: LIMIT_MS });
    await page.goto(`${service.url}/admin#/people/never-seen`);
    await shows(page, 'Nothing is known about this user.');
    expect(faults).toEqual([]);
  });

  test.each(Object.entries(SIZES))(
    'has no barrier that axe finds, and no sideways scrolling: %s',
    async (_, viewport) => {
      const { product } = await sellOne('ann-axe');
      await arrive(service.url, product, 'bob-axe').checkout();
      const { page } = await openLoggedIn('#/find?q=ann-axe', { viewport });
      await page.getByRole('link', { name: 'ann-axe' }).first().waitFor({ timeout: LIMIT_MS });
      expect(await accessibilityFindings(page)).toEqual([]);
      for (const user of ['ann-axe', 'bob-axe']) {
        await page.goto(`${service.url}/admin#/people/${user}`);
        await page.locator('.timeline, .item').first().waitFor({ timeout: LIMIT_MS });
        expect([user, await accessibilityFindings(page)]).toEqual([user, []]);
        expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
      }
    },
  );
});
