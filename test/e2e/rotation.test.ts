import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { solve } from '../harness/challenge.js';
import { expectProblem } from '../harness/checks.js';
import { Operator, Shopper, send } from '../harness/clients.js';
import { ATTESTATION_KEY, sharedService, startApiProcess, TICKET_KEY } from '../harness/service.js';
import { until } from '../harness/until.js';

// Keys are changed in three steps, each on one process after the other: the new one is added behind the old one, then
// put before it, then the old one is taken away.
const keysOf = (kid: string, byte: number, old: Buffer) => {
  const [fresh, former] = [`${kid}2:${Buffer.alloc(32, byte).toString('base64')}`, `${kid}1:${old.toString('base64')}`];
  return { before: former, added: `${former},${fresh}`, moved: `${fresh},${former}`, after: fresh };
};
const attestation = keysOf('a', 21, ATTESTATION_KEY);
const tickets = keysOf('t', 22, TICKET_KEY);

const service = await sharedService();
const step = async (name: keyof typeof attestation) =>
  (await startApiProcess({ ...service.env, ATTESTATION_KEYS: attestation[name], TICKET_KEYS: tickets[name] })).url;
const STEPS = ['before', 'added', 'moved', 'after'] as const;
const urls = await Promise.all(STEPS.map(step));
/** Processes that serve at the same time while a step is carried out. */
const together = urls.slice(0, -1).map((url, i) => [url, String(urls[i + 1])] as const);
/** From one of them to the other, and back. */
const ways = together.flatMap(([older, newer]) => [[older, newer] as const, [newer, older] as const]);
const operator = new Operator(service.url);

test('device tokens of each step are taken by the processes of the next and of the one before', async () => {
  const product = await operator.openCampaign({ total_limit: 1_000 });
  for (const [from, to] of ways) {
    const shopper = new Shopper(from, product);
    const token = await shopper.getToken();
    const json = { product_id: product, user_id: shopper.user, qty: 1, idempotency_key: randomUUID(), ...token };
    expect((await send(`${to}/flash-sale/checkout`, { method: 'POST', json })).status).toBe(200);
  }
});

test('so are tokens of a device that was derived, whether or not the shopper sends its name back', async () => {
  const product = await operator.openCampaign({ total_limit: 1_000 });
  for (const [from, to] of ways) {
    const { data } = await send(`${from}/flash-sale/token`);
    for (const device_fp of [undefined, data.device_fp]) {
      const json = { product_id: product, user_id: randomUUID(), qty: 1, idempotency_key: randomUUID(), ...data };
      expect((await send(`${to}/flash-sale/checkout`, { method: 'POST', json: { ...json, device_fp } })).status).toBe(
        200,
      );
    }
  }
});

test('tickets of each step are accepted too, and a replay returns the first one', async () => {
  const product = await operator.openCampaign({ total_limit: 1_000, hold_seconds: 900 });
  for (const [from, to] of ways) {
    const shopper = new Shopper(from, product);
    const key = randomUUID();
    const first = await shopper.checkoutWithHeader(key);
    expect(first.status).toBe(200);
    const query = new URLSearchParams({ product_id: product, user_id: shopper.user });
    const headers = { 'x-ticket': String(shopper.ticket) };
    const status = await send(`${to}/flash-sale/queue-status?${query}`, { headers });
    expect([status.status, status.data.reservation_id]).toEqual([200, first.data.reservation_id]);
    const json = { product_id: product, user_id: shopper.user, qty: 1, ...shopper.token };
    const replay = await send(`${to}/flash-sale/checkout`, {
      method: 'POST',
      json,
      headers: { 'idempotency-key': key },
    });
    expect([replay.status, replay.data.ticket]).toEqual([200, first.data.ticket]);
  }
});

test('challenges of each step are accepted too', async () => {
  const product = await operator.openCampaign({ total_limit: 1_000, limits: { attestation_level: 1 } });
  for (const url of urls) {
    // Processes get the policies of campaigns by a notification.
    const path = `/flash-sale/token?device_fp=fp-0&product_id=${product}`;
    await until('the process knows the campaign', async () => (await send(`${url}${path}`)).status === 403);
  }
  for (const [from, to] of ways) {
    const device = `fp-${randomUUID()}`;
    const path = `/flash-sale/token?device_fp=${device}&product_id=${product}`;
    const solution = await solve(await send(`${from}${path}`));
    expect((await send(`${to}${path}`, { headers: { 'x-challenge-solution': solution } })).status).toBe(200);
  }
});

test('values that only the old key signed are refused once it is removed', async () => {
  const product = await operator.openCampaign({ total_limit: 10 });
  const shopper = new Shopper(String(urls[0]), product);
  const token = await shopper.getToken();
  const json = { product_id: product, user_id: shopper.user, qty: 1, idempotency_key: randomUUID(), ...token };
  const refused = await send(`${urls[3]}/flash-sale/checkout`, { method: 'POST', json });
  expectProblem(refused, 401, 'attestation_invalid');
});
