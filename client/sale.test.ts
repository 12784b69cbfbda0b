import { expect, jest, test } from '@jest/globals';
import { type KeyStore, MemoryStore, Refusal, Sale } from './sale.js';

/** A sale whose checkouts get these responses; null = the response is lost. */
function saleWith(store: KeyStore, answers: (Response | null)[]) {
  const sent: { key: string | null; qty: number }[] = [];
  const send = async (url: unknown, init: RequestInit = {}) => {
    if (String(url).includes('/token')) return Response.json({ data: TOKEN });
    if (String(url).includes('/queue-status')) return Response.json({ data: PAID });
    const { qty } = JSON.parse(String(init.body ?? '{}'));
    sent.push({ key: new Headers(init.headers).get('Idempotency-Key'), qty });
    const answer = answers.shift();
    if (!answer) throw new TypeError('the response was lost');
    return answer;
  };
  const options = { productId: 'lamp', userId: 'ann', deviceId: 'phone', WebSocket: null, store };
  return { sale: new Sale({ ...options, fetch: send as typeof fetch }), sent };
}

const TOKEN = { attestation: 'a1.x', device_fp: 'phone', expires_at: 1_800_000_000 };
const PAID = { status: 'redeemed', position: null, queue_size: 0, poll_after_seconds: 30 };
const UNIT = { status: 'completed', reservation_id: 'r1', order_id: 'o1', pay_before: null, ticket: 't1' };
const unit = () => Response.json({ data: UNIT });
const refused = (status: number, code: string) =>
  Response.json({ type: `https://doorbuster.dev/errors/${code}`, code, status }, { status });
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => null,
    (error: unknown) => (error instanceof Refusal ? error.code : String(error)),
  );

test.each([
  [410, 'sold_out'],
  [409, 'already_redeemed'],
  [404, 'campaign_not_found'],
])('%s after a lost response ends the attempt, and its key is kept aside for the next press', async (status, code) => {
  const store = new MemoryStore();
  const before = saleWith(store, [null, refused(status, code)]);
  expect(await codeOf(before.sale.attempt())).toBe(code);
  const reloaded = saleWith(store, [unit()]);
  // Nothing is sent without a press.
  expect([await reloaded.sale.resume(), reloaded.sent]).toEqual([null, []]);
  expect(await reloaded.sale.attempt()).toMatchObject({ status: 'completed' });
  reloaded.sale.stop();
  expect(reloaded.sent).toEqual([before.sent[0]]);
});

test.each([
  [403, 'blocked'],
  [401, 'unauthorized'],
  [400, 'invalid_request'],
  [404, 'not_found'],
])('%s %s after a lost response does not end the attempt', async (status, code) => {
  const store = new MemoryStore();
  const before = saleWith(store, [null, refused(status, code)]);
  expect(await codeOf(before.sale.attempt())).toBe(code);
  const reloaded = saleWith(store, [unit()]);
  expect(await reloaded.sale.resume()).toMatchObject({ status: 'completed' });
  reloaded.sale.stop();
  expect(reloaded.sent).toEqual([before.sent[0]]);
});

test('a press for another quantity, after an attempt has ended in doubt, has a key of its own', async () => {
  const store = new MemoryStore();
  const before = saleWith(store, [null, refused(410, 'sold_out')]);
  expect(await codeOf(before.sale.attempt(2))).toBe('sold_out');
  const { sale, sent } = saleWith(store, [unit()]);
  await sale.resume();
  await sale.attempt(1);
  sale.stop();
  expect(sent).toEqual([{ key: expect.any(String), qty: 1 }]);
  expect(sent[0]?.key).not.toBe(before.sent[0]?.key);
});

test('the key and ticket of an attempt are stored until the next one has its own', async () => {
  const store = new MemoryStore();
  const { sale } = saleWith(store, [unit(), refused(410, 'sold_out')]);
  const paid = new Promise((resolve) => sale.on('redeemed', resolve));
  await sale.attempt();
  await paid;
  const stored: string[] = [];
  const { setItem, removeItem } = store;
  store.setItem = (name, value) => {
    stored.push(JSON.parse(value).ticket ?? 'a new key');
    setItem.call(store, name, value);
  };
  store.removeItem = (name) => {
    stored.push('nothing');
    removeItem.call(store, name);
  };
  expect(await codeOf(sale.attempt())).toBe('sold_out');
  expect(stored).toEqual(['a new key', 'nothing']);
});

test('a device that takes over an attempt continues it in place of one that has ended', async () => {
  const store = new MemoryStore();
  expect(await codeOf(saleWith(store, [null, refused(410, 'sold_out')]).sale.attempt())).toBe('sold_out');
  const { sale } = saleWith(store, []);
  const transfer = { key: 'key-of-the-phone', qty: 1, ticket: 't2' };
  await sale.adopt(transfer);
  await sale.resume();
  expect(sale.transfer).toEqual(transfer);
  sale.stop();
});

test.each([
  ['data of another service', { status: 'ok' }],
  ['a unit without a reservation', { status: 'completed' }],
  ['a place without a number', { status: 'queued', queue_size: 3, poll_after_seconds: 2 }],
  ['a standing', PAID],
  ['a list', []],
])('%s in place of the response to a checkout counts as none', async (_, data) => {
  const store = new MemoryStore();
  const { sale, sent } = saleWith(store, [Response.json({ data }), unit()]);
  expect(await sale.attempt()).toMatchObject({ status: 'completed', reservation_id: 'r1' });
  expect(sent[1]).toEqual(sent[0]);
  sale.stop();
});

test('data of another service in place of the token change nothing but the token', async () => {
  const bodies: unknown[] = [];
  const tokens = [{ user_id: 'guest' }, [], { ...TOKEN, user_id: 'guest', qty: 3, role: 'guest' }];
  const send = async (url: unknown, init: RequestInit = {}) => {
    if (String(url).includes('/token')) return Response.json({ data: tokens.shift() });
    if (String(url).includes('/queue-status')) return Response.json({ data: PAID });
    bodies.push(JSON.parse(String(init.body)));
    return unit();
  };
  const sale = new Sale({
    ...{ productId: 'lamp', userId: 'ann', deviceId: 'phone', WebSocket: null, store: new MemoryStore() },
    fetch: send as typeof fetch,
  });
  await sale.attempt();
  sale.stop();
  expect(bodies).toEqual([{ ...TOKEN, product_id: 'lamp', user_id: 'ann', qty: 1 }]);
});

test('a response of another service does not end a place or a unit', async () => {
  const foreign = async () => Response.json({ data: [] });
  const sale = new Sale({
    ...{ productId: 'lamp', userId: 'ann', WebSocket: null, store: new MemoryStore(), retryForMs: 0 },
    fetch: foreign as typeof fetch,
  });
  sale.standing = { ...PAID, ...UNIT, status: 'queued', estimated_wait_seconds: null };
  for (const call of [() => sale.leave(), () => sale.release(), () => sale.campaign()])
    expect(await codeOf(call())).toBe('unreachable');
  expect(sale.standing).toMatchObject({ status: 'queued' });
});

test.each([
  ['leave', (sale: Sale) => sale.leave()],
  ['release', (sale: Sale) => sale.release()],
  ['subscribeToPush', (sale: Sale) => sale.subscribeToPush({ endpoint: 'e', keys: { p256dh: 'p', auth: 'a' } })],
  ['unsubscribeFromPush', (sale: Sale) => sale.unsubscribeFromPush()],
])('a ticket that `%s` finds not valid any more is lost, and the next attempt gets a new one', async (_, call) => {
  const { sale, sent } = saleWith(new MemoryStore(), [unit(), refused(401, 'ticket_invalid'), unit()]);
  const lost: unknown[] = [];
  sale.on('lost', (code) => lost.push(code));
  await sale.attempt();
  expect(await codeOf(call(sale))).toBe('ticket_invalid');
  expect([lost, sale.holdsTicket]).toEqual([['ticket_invalid'], false]);
  await sale.attempt();
  sale.stop();
  expect([sale.holdsTicket, sent[2]?.key]).toEqual([true, sent[0]?.key]);
});

test('a late refusal of an old ticket does not end a newer one', async () => {
  const tickets: unknown[] = [];
  let renew = async () => {};
  const send = async (url: unknown, init: RequestInit = {}) => {
    if (String(url).includes('/token')) return Response.json({ data: TOKEN });
    if (String(url).includes('/queue-status'))
      return Response.json({ data: { ...PAID, status: 'queued', position: 3 } });
    if (String(url).includes('/checkout')) return Response.json({ data: { ...UNIT, ticket: `t${++made}` } });
    tickets.push(new Headers(init.headers).get('X-Ticket'));
    await renew();
    return refused(401, 'ticket_invalid');
  };
  let made = 0;
  const sale = new Sale({
    ...{ productId: 'lamp', userId: 'ann', deviceId: 'phone', WebSocket: null, store: new MemoryStore() },
    fetch: send as typeof fetch,
  });
  await sale.attempt();
  // Another call has found the ticket lost, and the shopper has pressed again.
  renew = async () => {
    renew = async () => {};
    await codeOf(sale.leave());
    await sale.attempt();
  };
  expect(await codeOf(sale.leave())).toBe('ticket_invalid');
  expect([tickets, sale.transfer?.ticket]).toEqual([['t1', 't1'], 't2']);
  sale.stop();
});

test('a store that never responds keeps nobody from buying', async () => {
  const never = () => new Promise<null>(() => {});
  const { sale } = saleWith({ getItem: never, setItem: never, removeItem: never }, [unit()]);
  jest.useFakeTimers();
  try {
    const attempt = sale.attempt();
    await jest.advanceTimersByTimeAsync(60_000);
    expect(await attempt).toMatchObject({ status: 'completed' });
  } finally {
    jest.useRealTimers();
    sale.stop();
  }
});
