import { expect, test } from '@jest/globals';
import { type KeyStore, MemoryStore, Refusal, Sale } from './sale.js';

/** A sale whose checkouts get these responses; null = the response is lost. */
function saleWith(store: KeyStore, answers: (Response | null)[]) {
  const sent: { key: string | null; qty: number }[] = [];
  const send = async (url: unknown, init: RequestInit = {}) => {
    if (String(url).includes('/token')) return Response.json({ data: {} });
    sent.push({ key: new Headers(init.headers).get('Idempotency-Key'), qty: JSON.parse(String(init.body)).qty });
    const answer = answers.shift();
    if (!answer) throw new TypeError('the response was lost');
    return answer;
  };
  const options = { productId: 'lamp', userId: 'ann', deviceId: 'phone', WebSocket: null, store };
  return { sale: new Sale({ ...options, fetch: send as typeof fetch }), sent };
}

const unit = () => Response.json({ data: { status: 'redeemed', ticket: 't1' } });
const refused = (status: number, code: string) =>
  Response.json({ type: `https://doorbuster.dev/errors/${code}`, code }, { status });
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
  expect(await reloaded.sale.attempt()).toMatchObject({ status: 'redeemed' });
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
  expect(await reloaded.sale.resume()).toMatchObject({ status: 'redeemed' });
  expect(reloaded.sent).toEqual([before.sent[0]]);
});

test('a press for another quantity, after an attempt has ended in doubt, has a key of its own', async () => {
  const store = new MemoryStore();
  const before = saleWith(store, [null, refused(410, 'sold_out')]);
  expect(await codeOf(before.sale.attempt(2))).toBe('sold_out');
  const { sale, sent } = saleWith(store, [unit()]);
  await sale.resume();
  await sale.attempt(1);
  expect(sent).toEqual([{ key: expect.any(String), qty: 1 }]);
  expect(sent[0]?.key).not.toBe(before.sent[0]?.key);
});

test('the key and ticket of an attempt are stored until the next one has its own', async () => {
  const store = new MemoryStore();
  const { sale } = saleWith(store, [unit(), refused(410, 'sold_out')]);
  await sale.attempt();
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
