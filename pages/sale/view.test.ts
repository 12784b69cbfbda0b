import { expect, test } from '@jest/globals';
import type { CampaignView, Standing } from '../../client/types.js';
import { fill, LANGUAGES, languageOf } from './texts.js';
import { countdownText, type PageState, problemText, viewOf } from './view.js';

const NOW = Date.parse('2026-11-11T12:00:00Z');
const words = { texts: LANGUAGES.en.texts, time: (iso: string) => iso.slice(11, 16) };
const { texts } = words;

const campaign: CampaignView = {
  product_id: 'p',
  name: 'Night sale',
  status: 'open',
  starts_at: '2026-11-11T11:00:00Z',
  ends_at: null,
  server_time: '2026-11-11T12:00:00Z',
};
const standing: Standing = {
  status: 'queued',
  position: 30,
  queue_size: 200,
  estimated_wait_seconds: null,
  poll_after_seconds: 2,
  reservation_id: null,
  order_id: null,
  pay_before: null,
};
const look = (state: Partial<PageState>) =>
  viewOf(
    {
      campaign,
      standing: null,
      holdsTicket: true,
      trying: false,
      refusal: null,
      retry: null,
      connection: null,
      firstPlace: 1,
      ...state,
    },
    NOW,
    words,
  );

test('opens and ends a sale by the clock, whatever the last response was', () => {
  const before = look({ campaign: { ...campaign, status: 'scheduled', starts_at: '2026-11-11T12:00:01Z' } });
  expect([before.headline, before.button?.enabled, before.clock?.untilMs]).toEqual([texts.notYet, false, NOW + 1000]);
  const opened = look({ campaign: { ...campaign, status: 'scheduled', starts_at: '2026-11-11T12:00:00Z' } });
  expect([opened.headline, opened.button?.enabled, opened.clock]).toEqual([texts.open, true, null]);
  const over = look({ campaign: { ...campaign, ends_at: '2026-11-11T12:00:00Z' } });
  expect([over.headline, over.button]).toEqual([texts.ended, null]);
});

test('offers no action that needs the ticket on a device without it', () => {
  const queued = look({ standing, firstPlace: 120, holdsTicket: false });
  expect([queued.place?.position, queued.detail, queued.second]).toEqual([30, texts.otherDevice, null]);
  for (const status of ['promoted', 'completed'] as const) {
    const view = look({ standing: { ...standing, status }, holdsTicket: false });
    expect([view.detail, view.second, view.order, view.clock]).toEqual([texts.otherDevice, null, null, null]);
  }
});

test('shows the progress of a shopper, and the wait if it is known', () => {
  const view = look({ standing, firstPlace: 120 });
  expect(view.place).toEqual({ position: 30, size: 200, percent: 76 });
  expect([view.title, view.detail]).toEqual(['Place 30 of 200', texts.inLineDetail]);
  expect(look({ standing: { ...standing, estimated_wait_seconds: 150 } }).detail).toBe(
    `${texts.inLineDetail} About 3 min.`,
  );
});

test('shows when to pay, that the time is up, or that there is nothing to pay', () => {
  const mine: Standing = { ...standing, status: 'promoted', position: null, order_id: 'ord_1' };
  const payable = look({ standing: { ...mine, pay_before: '2026-11-11T12:05:00Z' } });
  expect([payable.headline, payable.mood, payable.clock?.untilMs, payable.second?.action]).toEqual([
    texts.yourTurn,
    'good',
    NOW + 300_000,
    'release',
  ]);
  const late = look({ standing: { ...mine, pay_before: '2026-11-11T12:00:00Z' } });
  expect([late.detail, late.clock, late.second]).toEqual([texts.timeUp, null, null]);
  const free = look({ standing: { ...mine, status: 'completed', code: 'K-1' } });
  expect([free.detail, free.order?.text, free.second]).toEqual([texts.nothingToPay, 'ord_1 · K-1', null]);
});

test('offers another try where one is possible', () => {
  for (const status of ['released', 'expired', 'left'] as const) {
    expect(look({ standing: { ...standing, status } }).button).toEqual({ label: texts.again, enabled: true });
    const ended = { ...campaign, status: 'ended' } as const;
    expect(look({ campaign: ended, standing: { ...standing, status } }).button).toBeNull();
  }
  expect(look({ standing: { ...standing, status: 'closed' } }).button).toBeNull();
});

test('has a text for an unknown refusal', () => {
  expect(problemText('sold_out', texts)).toBe(texts.problems.sold_out);
  expect(problemText('constructor', texts)).toBe(texts.problems.other);
});

test('counts whole seconds, and zero only at the end', () => {
  const cases: [number, string][] = [
    [1, '00:01'],
    [0, '00:00'],
    [-5, '00:00'],
    [61_000, '01:01'],
    [3_600_000, '01:00:00'],
    [90_061_000, '1 × 24:00 + 01:01:01'],
  ];
  for (const [leftMs, text] of cases) expect(countdownText(leftMs)).toBe(text);
});

test('takes the language of the address, then of the browser, then English', () => {
  expect(languageOf('zh-TW', ['en'])).toBe('zh');
  expect(languageOf('fr', ['de', 'id-ID', 'en'])).toBe('id');
  expect(languageOf(null, ['fr'])).toBe('en');
  expect(languageOf('toString', [])).toBe('en');
});

test('every language has the same placeholders in its texts', () => {
  const valuesIn = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).sort();
  for (const { texts: others } of Object.values(LANGUAGES)) {
    for (const [name, text] of Object.entries(others)) {
      if (typeof text !== 'string') continue;
      const english = texts[name as keyof typeof texts] as string;
      expect([name, valuesIn(text)]).toEqual([name, valuesIn(english)]);
    }
  }
  expect(fill('{a} of {b}{c}', { a: 1, b: 'x' })).toBe('1 of x');
});
