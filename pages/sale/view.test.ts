import { expect, test } from '@jest/globals';
import type { CampaignView, Standing } from '../../client/types.js';
import { acceptedLanguages, LANGUAGES, languageOf, withTexts } from '../../shared/sale-page/languages.js';
import { fill, problemText } from '../../shared/sale-page/texts.js';
import { OPENED, type PageState, viewOf } from './view.js';

const NOW = Date.parse('2026-11-11T12:00:00Z');
const words = {
  texts: LANGUAGES.en.texts,
  time: (iso: string) => iso.slice(11, 16),
  number: String,
  price: null as string | null,
  address: '/sale/p',
};
const { texts } = words;

const campaign: CampaignView = {
  product_id: 'p',
  name: 'Night sale',
  status: 'open',
  starts_at: '2026-11-11T11:00:00Z',
  ends_at: null,
  server_time: '2026-11-11T12:00:00Z',
  has_line: true,
  sold_out: false,
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
const opened: PageState = { ...OPENED, campaign, holdsTicket: true, units: 1 };
const look = (state: Partial<PageState>) => viewOf({ ...opened, ...state }, NOW, words);

test('opens and ends a sale by the clock, whatever the last response was', () => {
  const before = look({ campaign: { ...campaign, status: 'scheduled', starts_at: '2026-11-11T12:00:01Z' } });
  expect([before.headline, before.button?.enabled, before.clock?.untilMs]).toEqual([texts.opensIn, false, NOW + 1000]);
  expect([before.caption, before.title]).toEqual(['12:00', 'Opens 12:00']);
  const opened = look({ campaign: { ...campaign, status: 'scheduled', starts_at: '2026-11-11T12:00:00Z' } });
  expect([opened.headline, opened.button?.enabled, opened.clock]).toEqual([texts.open, true, null]);
  const ending = look({ campaign: { ...campaign, ends_at: '2026-11-11T13:00:00Z' } });
  expect(ending.clock).toEqual({ label: texts.endsIn, untilMs: NOW + 3_600_000 });
  expect(ending.caption).toBe('Ends 13:00');
  const over = look({ campaign: { ...campaign, ends_at: '2026-11-11T12:00:00Z' } });
  expect([over.headline, over.button]).toEqual([texts.ended, { label: 'Closed 12:00', enabled: false }]);
  // An operator has closed it before its end.
  const early = look({ campaign: { ...campaign, status: 'ended', ends_at: '2026-11-11T13:00:00Z' } });
  expect([early.button?.label, early.rows]).toEqual([texts.statusClosed, [[texts.opened, '11:00']]]);
  expect(over.rows).toEqual([
    [texts.opened, '11:00'],
    [texts.closedAt, '12:00'],
  ]);
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
  expect(view.place).toEqual({ position: 30, note: 'of 200 waiting' });
  expect(view.bar).toEqual({ percent: 75, label: texts.way });
  expect([view.title, view.caption]).toEqual(['Place 30 of 200', '']);
  expect(look({ standing: { ...standing, estimated_wait_seconds: 150 } }).caption).toBe('About 3 min, around 12:02');
});

test('shows when to pay, that the time is up, or that there is nothing to pay', () => {
  const mine: Standing = { ...standing, status: 'promoted', position: null, order_id: 'ord_1' };
  const payable = look({ standing: { ...mine, pay_before: '2026-11-11T12:05:00Z' } });
  expect([payable.headline, payable.mood, payable.clock?.untilMs, payable.second?.action]).toEqual([
    texts.yourTurn,
    'turn',
    NOW + 300_000,
    'release',
  ]);
  const late = look({ standing: { ...mine, pay_before: '2026-11-11T12:00:00Z' } });
  expect([late.detail, late.clock, late.second]).toEqual([texts.timeUp, null, null]);
  const free = look({ standing: { ...mine, status: 'completed', code: 'K-1' } });
  expect([free.detail, free.order, free.second]).toEqual([texts.nothingToPay, 'ord_1', null]);
  expect(free.rows).toEqual([
    [texts.order, 'ord_1'],
    [texts.code, 'K-1'],
  ]);
});

test('offers another try where one is possible', () => {
  for (const status of ['released', 'expired', 'left'] as const) {
    expect(look({ standing: { ...standing, status } }).button).toEqual({ label: texts.joinAgain, enabled: true });
    const without = { ...campaign, has_line: false };
    expect(look({ campaign: without, standing: { ...standing, status } }).button?.label).toBe(texts.again);
    const ended = { ...campaign, status: 'ended' } as const;
    expect(look({ campaign: ended, standing: { ...standing, status } }).button?.enabled).toBe(false);
  }
  expect(look({ standing: { ...standing, status: 'closed' } }).button).toBeNull();
});

test('leads to the page to pay, and back only by a quiet button', () => {
  const mine: Standing = { ...standing, status: 'promoted', position: null, order_id: 'ord_1' };
  const payable = { ...mine, pay_before: '2026-11-11T12:05:00Z', checkout_url: 'https://shop.example/pay' };
  const view = look({ standing: payable });
  expect(view.pay).toEqual({ label: texts.payNow, href: 'https://shop.example/pay', untilMs: NOW + 300_000 });
  expect([view.clock, view.button, view.second?.action]).toEqual([null, null, 'release']);
  expect([view.caption, view.detail]).toEqual(['Pay before 12:05', texts.payOrNext]);
  expect(look({ standing: payable, campaign: { ...campaign, has_line: false } }).detail).toBe(texts.payOrOthers);
  expect(look({ standing: payable, forwarding: true }).detail).toBe(texts.forwarding);
  expect(look({ standing: payable, holdsTicket: false }).pay).toBeNull();
  expect(look({ standing: { ...payable, pay_before: '2026-11-11T12:00:00Z' } }).pay).toBeNull();
});

test('promises a line only where there is one', () => {
  const without = { ...campaign, has_line: false };
  expect(look({ campaign: without }).detail).toBe(texts.openNoLine);
  expect(look({ campaign: { ...campaign, has_line: true } }).detail).toBe(texts.openDetail);
  const ended = (status: Standing['status'], of: CampaignView) =>
    look({ campaign: of, standing: { ...standing, status } }).detail;
  expect([ended('expired', without), ended('released', without)]).toEqual([texts.expiredNoLine, texts.releasedNoLine]);
  expect([ended('expired', campaign), ended('released', campaign)]).toEqual([
    texts.expiredDetail,
    texts.releasedNoLine,
  ]);
});

test('says when a reservation ended, and how many wait for its unit, as far as it knows', () => {
  const expired: Standing = { ...standing, status: 'expired', order_id: 'ord_1', pay_before: '2026-11-11T11:59:00Z' };
  const view = look({ standing: expired, waiting: 412 });
  expect([view.caption, view.reserved, view.detail, view.order]).toEqual([
    ...['Ended at 11:59', { text: '412', note: texts.waitingNow }, texts.expiredNext, 'ord_1'],
  ]);
  for (const waiting of [0, null]) {
    const alone = look({ standing: expired, waiting });
    expect([alone.reserved, alone.detail]).toEqual([null, texts.expiredDetail]);
  }
  // Units stay where they are during a pause.
  expect(look({ standing: expired, waiting: 412, campaign: { ...campaign, status: 'paused' } }).reserved).toBeNull();
  expect(look({ standing: { ...expired, pay_before: '2026-11-11T12:01:00Z' } }).caption).toBe('');
  expect(look({ standing: { ...expired, status: 'released' }, waiting: 1 }).detail).toBe(texts.releasedDetail);
});

test('says when the unit was paid and when the sale was paused only if it has seen that', () => {
  const at = Date.parse('2026-11-11T11:58:30Z');
  const paid: Standing = { ...standing, status: 'redeemed', order_id: 'ord_1' };
  expect([look({ standing: paid, paidAtMs: at }).caption, look({ standing: paid }).caption]).toEqual([
    ...['Paid at 11:58', ''],
  ]);
  const paused = { ...campaign, status: 'paused' } as const;
  for (const state of [{ standing }, { trying: true, retry: 'campaign_paused' }, {}])
    expect(look({ ...state, campaign: paused, pausedAtMs: at }).caption).toBe('Paused at 11:58');
  expect(look({ standing, campaign: paused }).caption).toBe('');
});

test('names the state in the title of the window', () => {
  const mine: Standing = { ...standing, status: 'completed', position: null, pay_before: '2026-11-11T12:05:00Z' };
  const payable = { ...mine, checkout_url: 'https://shop.example/pay' };
  expect([look({}).title, look({ standing: mine }).title, look({ standing: payable }).title]).toEqual([
    ...['Open now', 'Your turn: pay before 12:05', 'Your turn: pay before 12:05'],
  ]);
  expect(look({ standing: { ...mine, status: 'redeemed' } }).title).toBe('Paid');
  expect(look({ campaign: { ...campaign, status: 'paused' } }).title).toBe('Paused');
});

test('says when it has looked for a sale that does not exist', () => {
  const unknown = look({ campaign: null, refusal: 'campaign_not_found', lookedMs: 61_000 });
  expect(unknown.updated).toBe('Updated 61 s ago');
  expect(unknown.rows).toEqual([
    [texts.address, '/sale/p'],
    [texts.checked, '11:58'],
  ]);
});

test('shows once that everything is sold, and offers another try only where a unit can return', () => {
  const refused = look({ refusal: 'sold_out', campaign: { ...campaign, has_line: false, sold_out: true } });
  expect([refused.headline, refused.detail, refused.trouble]).toEqual([texts.soldOut, texts.soldOutDetail, '']);
  expect([refused.button, refused.second]).toEqual([{ label: texts.again, enabled: true }, null]);
  const final = look({ campaign: { ...campaign, has_line: true, sold_out: true } });
  expect([final.headline, final.detail, final.button, final.other?.action]).toEqual([
    texts.soldOut,
    texts.soldOutFinal,
    null,
    'check',
  ]);
  const closed = { ...standing, status: 'closed' } as const;
  expect(look({ standing: closed, campaign: { ...campaign, sold_out: true } }).headline).toBe(texts.soldOut);
  const over = look({ standing: closed, campaign: { ...campaign, status: 'ended' } });
  expect([over.headline, over.detail]).toEqual([texts.closed, texts.closedEnded]);
});

test('names a full line once, and promises no place in it', () => {
  const full = look({ refusal: 'waiting_room_full', campaign: { ...campaign, ends_at: '2026-11-11T13:00:00Z' } });
  expect([full.headline, full.detail, full.hint, full.trouble]).toEqual([
    ...[texts.lineFull, texts.lineFullDetail, '', ''],
  ]);
  expect([full.caption, full.button, full.noneFree]).toEqual([
    ...['Ends 13:00', { label: texts.again, enabled: true }, true],
  ]);
  const paused = look({ refusal: 'waiting_room_full', campaign: { ...campaign, status: 'paused' } });
  expect([paused.headline, paused.noneFree]).toEqual([texts.paused, false]);
});

test('names the pause instead of a waiting time', () => {
  const paused = { ...campaign, status: 'paused' } as const;
  const view = look({ campaign: paused, standing: { ...standing, estimated_wait_seconds: 120 } });
  expect([view.headline, view.caption, view.detail]).toEqual([texts.paused, '', texts.pausedDetail]);
  expect(view.place).toEqual({ position: 30, note: texts.stillPlace });
});

test('shows how old the standing is, and that no news arrived for ten seconds', () => {
  const at = (quietMs: number, more: Partial<PageState> = {}) => {
    const { updated, caption, detail, connection } = look({ standing, connection: 'live', quietMs, ...more });
    return [updated, caption, detail, connection];
  };
  expect(at(3_400)).toEqual(['Updated 3 s ago', '', texts.inLineDetail, '']);
  // One message, which stays the same while a screen reader announces it.
  expect(at(10_000)).toEqual(['', 'No news for 10 s', '', texts.silentInLine]);
  expect(at(26_000)).toEqual(['', 'No news for 26 s', '', texts.silentInLine]);
  const slow = { connection: 'polling', standing: { ...standing, poll_after_seconds: 10 } } as const;
  expect(at(21_000, slow)).toEqual(['Updated 21 s ago', '', texts.inLineDetail, texts.polling]);
  expect(at(22_000, slow)).toEqual(['', 'No news for 22 s', '', texts.silentInLine]);
  expect(at(60_000, { connection: 'offline' })[3]).toBe(texts.offline);
  expect(look({ connection: 'offline' }).connection).toBe(texts.offlineNow);
});

test('says that no news arrived to a visitor too, but not while it has asked for none', () => {
  const at = (state: Partial<PageState>) => {
    const { status, updated, caption, connection, button, other, second } = look(state);
    return [status, updated, caption, connection, button?.label, other?.label ?? second?.label];
  };
  const resting = [texts.statusOpen, 'Updated 24 s ago', '', '', texts.buy, undefined];
  expect(at({ lookedMs: 24_000 })).toEqual(resting);
  expect(at({ lookedMs: 24_000, askedMs: 3_900 })).toEqual(resting);
  const silent = { lookedMs: 24_000, askedMs: 4_000 };
  const said = [texts.statusSilent, '', 'No news for 24 s', texts.silent];
  // A press is repeated until there is a response, so the button stays.
  expect(at(silent)).toEqual([...said, texts.buy, texts.tryNow]);
  for (const other of [
    { ...campaign, status: 'paused' } as const,
    { ...campaign, status: 'scheduled', starts_at: '2026-11-11T13:00:00Z' } as const,
    { ...campaign, sold_out: true },
  ])
    expect(at({ ...silent, campaign: other })).toEqual([...said, undefined, texts.tryNow]);
  // These do not change.
  const over = look({ ...silent, campaign: { ...campaign, status: 'ended' } });
  expect([over.status, over.updated]).toEqual([texts.statusClosed, 'Updated 24 s ago']);
  const paid = look({ ...silent, connection: 'offline', standing: { ...standing, status: 'redeemed' } });
  expect([paid.status, paid.detail, paid.connection]).toEqual([texts.statusPaid, texts.paidDetail, '']);
});

test('says at once that there is no connection, whatever came before', () => {
  const { status, mood, connection, other } = look({
    ...{ connection: 'offline', campaign: { ...campaign, status: 'scheduled', starts_at: '2026-11-11T13:00:00Z' } },
  });
  expect([status, mood, connection, other?.label]).toEqual([
    ...[texts.statusSilent, 'warn', texts.offlineNow, texts.tryNow],
  ]);
  const mine: Standing = { ...standing, status: 'promoted', position: null, pay_before: '2026-11-11T12:05:00Z' };
  const unpaid = look({ standing: mine, connection: 'live', quietMs: 11_000 });
  expect([unpaid.caption, unpaid.connection, unpaid.mood]).toEqual(['Pay before 12:05', texts.silent, 'turn']);
});

test('shows how old the data of the sale are, while no standing is followed', () => {
  const updated = (state: Partial<PageState>) => look({ lookedMs: 14_900, ...state }).updated;
  expect([updated({}), updated({ standing: { ...standing, status: 'not_queued' } })]).toEqual([
    ...['Updated 14 s ago', 'Updated 14 s ago'],
  ]);
  expect(updated({ standing: { ...standing, status: 'redeemed' } })).toBe('Updated 14 s ago');
  expect([updated({ standing }), updated({ trying: true }), updated({ lookedMs: null })]).toEqual(['', '', '']);
});

test('says that no unit is free only where it knows', () => {
  const noneFree = (state: Partial<PageState>) => look(state).noneFree;
  expect([noneFree({}), noneFree({ campaign: { ...campaign, sold_out: true } })]).toEqual([false, true]);
  expect([noneFree({ standing }), noneFree({ standing: { ...standing, status: 'expired' } })]).toEqual([true, false]);
});

test('says the state in a word, draws it as a door, and marks the step of the shopper', () => {
  const words = (state: Partial<PageState>) => {
    const { status, mood, door, step } = look(state);
    return [status, mood, door, step];
  };
  const sold = { ...campaign, sold_out: true };
  const mine: Standing = { ...standing, status: 'promoted', position: null, pay_before: '2026-11-11T12:05:00Z' };
  expect(words({})).toEqual([texts.statusOpen, 'plain', 'open', 'buy']);
  expect(words({ campaign: { ...campaign, status: 'scheduled', starts_at: '2026-11-11T13:00:00Z' } })).toEqual([
    ...[texts.statusBefore, 'plain', 'ajar', 'none'],
  ]);
  expect(words({ campaign: sold })).toEqual([texts.statusEnded, 'off', 'shut', 'none']);
  expect(words({ standing })).toEqual([texts.statusLine, 'plain', 'open', 'wait']);
  expect(words({ standing, campaign: { ...campaign, status: 'paused' } })).toEqual([
    ...[texts.statusPaused, 'warn', 'ajar', 'wait'],
  ]);
  expect(words({ standing: mine })).toEqual([texts.statusReserved, 'turn', 'open', 'pay']);
  expect(words({ standing: mine, connection: 'offline', quietMs: 0 })).toEqual([
    texts.statusSilent,
    'turn',
    'open',
    'pay',
  ]);
  expect(words({ standing, connection: 'live', quietMs: 11_000 })).toEqual([
    texts.statusSilent,
    'warn',
    'open',
    'wait',
  ]);
  expect(words({ standing: { ...standing, status: 'redeemed' } })).toEqual([texts.statusPaid, 'good', 'open', null]);
  expect(words({ standing: { ...standing, status: 'expired' } })).toEqual([texts.statusTimeUp, 'off', 'open', 'buy']);
  expect(words({ campaign: null, refusal: 'campaign_not_found' })).toEqual([texts.statusUnknown, 'off', 'shut', null]);
});

test('leads back to the shop where nothing can be bought', () => {
  const shop_url = 'https://shop.example/';
  const sold = { ...campaign, sold_out: true, branding: { shop_url } };
  expect(look({ campaign: sold }).pay).toEqual({ label: texts.toShop, href: shop_url, untilMs: null });
  expect(look({ campaign: { ...sold, sold_out: false } }).pay).toBeNull();
});

test('leads a shopper who has paid to the order', () => {
  const paid: Standing = { ...standing, status: 'redeemed', position: null, order_id: 'ord_1' };
  expect(look({ standing: paid }).pay).toBeNull();
  const branded = { ...campaign, branding: { order_url: 'https://shop.example/orders' } };
  expect(look({ standing: paid, campaign: branded }).pay).toEqual({
    ...{ label: texts.viewOrder, href: 'https://shop.example/orders', untilMs: null },
  });
});

test('has one action in each state, and announces the turn in the way that works', () => {
  const action = (state: Partial<PageState>) => look(state).other;
  expect(action({ standing })).toEqual({ label: texts.turnOnSound, action: 'alert', pressed: false });
  expect(action({ standing, alert: { by: 'sound', on: true } })?.label).toBe(texts.soundIsOn);
  expect(action({ standing, alert: { by: 'push', on: false } })?.label).toBe(texts.notify);
  expect(action({ standing, alert: { by: 'push', on: true } })).toEqual({
    ...{ label: texts.notified, action: 'alert', pressed: true },
  });
  expect(action({ standing, connection: 'live', quietMs: 11_000 })?.label).toBe(texts.tryNow);
  expect(action({ campaign: null, refusal: 'campaign_not_found' })?.label).toBe(texts.checkAgain);
  const mine: Standing = { ...standing, status: 'promoted', position: null, order_id: 'ord_1' };
  expect(action({ standing: { ...mine, pay_before: '2026-11-11T12:05:00Z' } })?.action).toBe('copy');
  expect(action({ standing: { ...mine, status: 'redeemed' } })?.action).toBe('copy');
  expect(action({})).toBeNull();
});

test('shows an amount only if the page knows it, and how much of the time to pay is left', () => {
  const pay_before = '2026-11-11T12:05:00Z';
  const mine: Standing = {
    ...standing,
    status: 'promoted',
    position: null,
    pay_before,
    checkout_url: 'https://a.example',
  };
  const at = (units: number | null, price: string | null) =>
    viewOf({ ...opened, standing: mine, units, campaign: { ...campaign, hold_seconds: 600 } }, NOW, {
      ...words,
      price,
    });
  expect(at(1, null).reserved).toEqual({ text: '1', note: texts.unitReserved });
  expect(at(1, '€5').reserved).toEqual({ text: '€5', note: '1 × Night sale' });
  expect([at(null, '€5').reserved, at(3, '€5').reserved]).toEqual([null, null]);
  expect(at(1, null).bar).toEqual({ percent: 50, label: texts.timeLeft });
});

test('shows what a press has done instead of a quiet connection', () => {
  expect(look({ standing, connection: 'live', quietMs: 0, notice: 'Copied' }).connection).toBe('Copied');
  expect(look({ standing, connection: 'offline', quietMs: 0, notice: 'Copied' }).connection).toBe(texts.offline);
});

test('has a text for an unknown refusal', () => {
  expect(problemText('sold_out', texts)).toBe(texts.problems.sold_out);
  expect(problemText('constructor', texts)).toBe(texts.problems.other);
});

test('takes the language of the address, then of the browser, then English', () => {
  const all = new Map(Object.entries(LANGUAGES));
  expect(languageOf(['zh-TW', 'en'], all)).toBe('zh');
  expect(languageOf(['fr', 'de', 'id-ID', 'en'], all)).toBe('id');
  expect(languageOf(['fr'], all)).toBe('en');
  expect(languageOf(['toString'], all)).toBe('en');
  expect(acceptedLanguages('de;q=0.5, ar, id;q=0.9')).toEqual(['ar', 'id', 'de']);
  const own = withTexts(all, { fa: { buy: 'بخر' }, en: { buy: 'Snatch it' } });
  expect([own.get('fa')?.dir, own.get('fa')?.texts.buy, own.get('fa')?.texts.ended]).toEqual([
    'rtl',
    'بخر',
    texts.ended,
  ]);
  expect([own.get('en')?.texts.buy, all.get('en')?.texts.buy]).toEqual(['Snatch it', texts.buy]);
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
