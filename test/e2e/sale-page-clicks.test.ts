import { describe, expect, test } from '@jest/globals';
import type { Browser, Page } from 'playwright-core';
import { openPhone, startBrowser } from '../harness/browser.js';
import { Operator } from '../harness/clients.js';
import { sharedService } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

/** A double click on the main button of the sale page, which shows other controls in its place. */
const service = await sharedService();
const operator = new Operator(service.url);
const browser = await startBrowser();
const inBrowser = browser ? describe : describe.skip;
const CONTROLS = ['other', 'continue', 'second'];

async function openInFrontOfLine() {
  const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900, waiting_room: { enabled: true } });
  await arrive(service.url, product).checkout();
  // So high that the main button does not stick to the end of the window.
  const { page } = await openPhone(browser as Browser, { viewport: { width: 390, height: 1200 } });
  await page.goto(`${service.url}/sale/${product}`);
  // The server renders the button; its script makes it active.
  await page.locator('#act[aria-disabled=false]', { hasText: 'Get one now' }).waitFor();
  // The time of events stands still, so that two clicks are a double click on a busy machine too. Timers run: the page
  // repeats a request that failed. Whatever a press on a control does is counted instead of done.
  await page.evaluate(`
    globalThis.eventTimeMs = performance.now();
    Object.defineProperty(Event.prototype, 'timeStamp', { get: () => eventTimeMs });
    // The controls that come take the place of the main button, with any layout of the page.
    for (const one of document.querySelectorAll('.act, #others'))
      Object.assign(one.style, { position: 'fixed', top: '100px', left: '20px', width: '300px', zIndex: 1 });
    document.querySelector('#others').style.pointerEvents = 'none';
    for (const one of document.querySelectorAll('#others > button')) one.style.pointerEvents = 'auto';
    globalThis.presses = [];
    document.getElementById('stage').addEventListener('click', (event) => {
      presses.push(event.target.closest('button, label').id || 'label');
      if (event.target.id !== 'act') event.stopPropagation();
    }, { capture: true });`);
  return page;
}
const isInLine = (page: Page) =>
  until('the shopper is in line', async () => (await page.locator('#headline').textContent()) === 'Your place in line');
const pressesOf = (page: Page) => page.evaluate<string[]>('presses');

/** A point of the main button that belongs to another control once the shopper is in line. */
async function sharedPoint(): Promise<{ x: number; y: number }> {
  const page = await openInFrontOfLine();
  const act = await page.locator('#act').boundingBox();
  await page.locator('#act').click();
  await isInLine(page);
  for (const id of CONTROLS) {
    const other = await page.locator(`#${id}`).boundingBox();
    if (!act || !other) continue;
    const [left, right] = [Math.max(act.x, other.x), Math.min(act.x + act.width, other.x + other.width)];
    const [top, bottom] = [Math.max(act.y, other.y), Math.min(act.y + act.height, other.y + other.height)];
    if (right - left > 4 && bottom - top > 4) return { x: (left + right) / 2, y: (top + bottom) / 2 };
  }
  throw new Error('no control appears in the place of the main button, so this test has no subject');
}

inBrowser('a double click on the main button', () => {
  test('does not press the control that appears in its place; a later press does', async () => {
    const { x, y } = await sharedPoint();
    const page = await openInFrontOfLine();
    await page.mouse.click(x, y);
    await isInLine(page);
    await page.mouse.click(x, y, { clickCount: 2 });
    expect(await pressesOf(page)).toEqual(['act']);
    await page.evaluate('eventTimeMs += 600');
    await page.mouse.click(x, y);
    expect(await pressesOf(page)).toHaveLength(2);
  });

  test('lets a press by a key through at once', async () => {
    const page = await openInFrontOfLine();
    await page.locator('#act').click();
    await isInLine(page);
    await page.locator('#second').press('Enter');
    expect(await pressesOf(page)).toEqual(['act', 'second']);
  });
});
