import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { expectProblem, expectRows, expectStock, pointersOf } from '../harness/checks.js';
import { type Answer, Operator, PaymentService, send } from '../harness/clients.js';
import { keyNames } from '../harness/key-names.js';
import { startService } from '../harness/service.js';
import { arrive, checkoutAtOnce, countStatuses, range, theOne, withinASecond } from '../harness/shoppers.js';
import { redisSeconds, signToken } from '../harness/tokens.js';
import { until } from '../harness/until.js';

// One proxy may name the address, so that a test can come from anywhere.
const service = await startService({ TRUST_PROXY: '1' });
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const sale = { total_limit: 10, hold_seconds: 900, max_qty: 5, waiting_room: { enabled: true } };

/** A campaign without a free unit: every user joins the line. */
async function openSoldOut(): Promise<string> {
  const product = await operator.openCampaign({ ...sale, total_limit: 1 });
  await arrive(service.url, product).checkout();
  return product;
}

const twentyTimes = (call: () => Promise<Answer>) => Promise.all(Array.from({ length: 20 }, call));
const isReplay = ({ headers }: Answer) => headers.get('idempotent-replayed') === 'true';

/** One first answer and 19 replays with its status and, to the byte, its body. */
function expectHeaderReplays(answers: readonly Answer[], status: number): void {
  expect(countStatuses(answers)).toEqual({ [status]: 20 });
  expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
  expect(answers.filter(isReplay)).toHaveLength(19);
  expect(answers.filter(({ headers }) => !headers.has('idempotent-replayed'))).toHaveLength(1);
}

/** One first answer and 19 conflicts that carry it. */
function expectBodyReplays(answers: readonly Answer[], status: number): void {
  expect(countStatuses(answers)).toEqual({ [status]: 1, 409: 19 });
  const first = theOne(answers, status);
  for (const conflict of answers.filter((answer) => answer !== first)) {
    expectProblem(conflict, 409, 'duplicate_request');
    expect(conflict.body.original_status).toBe(status);
    expect(JSON.stringify(conflict.body.data)).toBe(JSON.stringify(first.data));
    expect(conflict.headers.has('idempotent-replayed')).toBe(false);
  }
}

describe('twenty connections at once with one key', () => {
  test('in the header get one unit and twenty times the same answer', async () => {
    const product = await operator.openCampaign(sale);
    const shopper = arrive(service.url, product);
    const key = randomUUID();
    expectHeaderReplays(await twentyTimes(() => shopper.checkoutWithHeader(key)), 200);
    await expectStock(operator, product, { total: 10, free: 9, held: 1 });
    await expectRows(service, product, { reserved: 1 });
  });

  test('in the body get one unit and nineteen conflicts with the first answer', async () => {
    const product = await operator.openCampaign(sale);
    const shopper = arrive(service.url, product);
    const idempotency_key = randomUUID();
    expectBodyReplays(await twentyTimes(() => shopper.checkout({ idempotency_key })), 200);
    await expectStock(operator, product, { total: 10, free: 9, held: 1 });
    await expectRows(service, product, { reserved: 1 });
  });

  test('in the header get one place in line and twenty times the same answer', async () => {
    const product = await openSoldOut();
    const shopper = arrive(service.url, product);
    const key = randomUUID();
    const answers = await twentyTimes(() => shopper.checkoutWithHeader(key));
    expectHeaderReplays(answers, 202);
    for (const { headers } of answers) {
      expect(headers.get('location')).toMatch(/^\/flash-sale\/queue-status\?/);
      expect(headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
    }
    await expectStock(operator, product, { total: 1, held: 1, waiting: 1 });
  });

  test('in the body get one place in line and nineteen conflicts with the first answer', async () => {
    const product = await openSoldOut();
    const shopper = arrive(service.url, product);
    const idempotency_key = randomUUID();
    expectBodyReplays(await twentyTimes(() => shopper.checkout({ idempotency_key })), 202);
    await expectStock(operator, product, { total: 1, held: 1, waiting: 1 });
  });
});

describe('a key belongs to its user', () => {
  test('another user with the same key gets their own response, and neither learns of the other', async () => {
    const product = await operator.openCampaign(sale);
    const [stranger, victim] = [arrive(service.url, product), arrive(service.url, product)];
    const key = `first-try-${victim.user}`;
    const answers = [];
    // Each header and body, in turn: whichever user comes first.
    for (const who of [stranger, victim, stranger, victim]) answers.push(await who.checkoutWithHeader(key));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect(answers.map(({ headers }) => headers.get('idempotent-replayed'))).toEqual([null, null, 'true', 'true']);
    expect([answers[2]?.text, answers[3]?.text]).toEqual([answers[0]?.text, answers[1]?.text]);
    expect(answers[0]?.data.reservation_id).not.toBe(answers[1]?.data.reservation_id);
    const inBody = await victim.checkout({ idempotency_key: key });
    expectProblem(inBody, 409, 'duplicate_request');
    expect(inBody.body.data).toEqual(answers[1]?.data);
    await expectStock(operator, product, { total: 10, free: 8, held: 2 });
  });

  test('the user and the key are separate, wherever one ends and the other begins', async () => {
    const product = await operator.openCampaign(sale);
    const first = await arrive(service.url, product, 'ann:12345678').checkoutWithHeader('abcdefgh');
    const second = await arrive(service.url, product, 'ann').checkoutWithHeader('12345678:abcdefgh');
    expect([first.status, second.status]).toEqual([200, 200]);
    expect(second.headers.get('idempotent-replayed')).toBeNull();
  });
});

describe('a key is bound to its request', () => {
  test('another quantity or product of the same user with the same key is refused with 422 and takes nothing', async () => {
    const product = await operator.openCampaign(sale);
    const other = await operator.openCampaign(sale);
    const shopper = arrive(service.url, product);
    const key = randomUUID();
    const first = await shopper.checkoutWithHeader(key);
    for (const changed of [{ qty: 2 }, { product_id: other }]) {
      expectProblem(await shopper.checkoutWithHeader(key, changed), 422, 'idempotency_key_reused');
      expectProblem(await shopper.checkout({ idempotency_key: key, ...changed }), 422, 'idempotency_key_reused');
    }
    await expectStock(operator, product, { total: 10, free: 9, held: 1 });
    await expectStock(operator, other, { total: 10, free: 10 });
    // A misuse of the key has not spoiled it.
    expect((await shopper.checkoutWithHeader(key)).text).toBe(first.text);
  });

  test('a refreshed token, another device and other unknown fields are the same request', async () => {
    const product = await operator.openCampaign(sale);
    const shopper = arrive(service.url, product);
    const key = randomUUID();
    const first = await shopper.checkoutWithHeader(key);
    const later = (shopper.token?.expires_at ?? 0) + 5;
    for (const fields of [signToken(shopper.device, later), signToken('another-device', later), { colour: 'red' }]) {
      const again = await shopper.checkoutWithHeader(key, { ...fields });
      expect({ status: again.status, replayed: isReplay(again), text: again.text }).toEqual({
        status: 200,
        replayed: true,
        text: first.text,
      });
    }
    await expectStock(operator, product, { total: 10, free: 9, held: 1 });
  });

  test('a replay with a genuine token of an hour ago is answered, one with a forged token is not', async () => {
    const product = await operator.openCampaign(sale);
    const shopper = arrive(service.url, product);
    const key = randomUUID();
    const first = await shopper.checkoutWithHeader(key);
    const stale = signToken(shopper.device, Math.floor(await redisSeconds(service.redis.client)) - 3_600);
    expect((await shopper.checkoutWithHeader(key, { ...stale })).text).toBe(first.text);
    const forged = { attestation: `a1.${'A'.repeat(43)}` };
    expectProblem(await shopper.checkoutWithHeader(key, forged), 401, 'attestation_invalid');
    // Without the key of the first call the old token is what it is.
    expectProblem(await shopper.checkoutWithHeader(randomUUID(), { ...stale }), 401, 'attestation_expired');
  });
});

describe('what is replayed', () => {
  test('the first response is replayed after the reservation was paid, released, and the sale closed', async () => {
    const product = await operator.openCampaign(sale);
    const [paying, leaving] = [arrive(service.url, product), arrive(service.url, product)];
    const [keyOfPaying, keyOfLeaving] = [randomUUID(), randomUUID()];
    const [paid, left] = [await paying.checkoutWithHeader(keyOfPaying), await leaving.checkoutWithHeader(keyOfLeaving)];
    await payments.confirm(String(paid.data.reservation_id));
    await payments.release(String(left.data.reservation_id));
    for (const action of ['pause', 'resume', 'close']) {
      expect((await operator.call('POST', `/admin/campaigns/${product}/${action}`)).status).toBe(200);
      expect((await paying.checkoutWithHeader(keyOfPaying)).text).toBe(paid.text);
      expect((await leaving.checkoutWithHeader(keyOfLeaving)).text).toBe(left.text);
    }
    await expectStock(operator, product, { total: 10, free: 9, redeemed: 1 });
  });

  test('the first place is replayed after the shopper was promoted', async () => {
    const product = await operator.openCampaign({ ...sale, total_limit: 1 });
    const holder = await arrive(service.url, product).checkout();
    const waiting = arrive(service.url, product);
    const key = randomUUID();
    const queued = await waiting.checkoutWithHeader(key);
    await payments.release(String(holder.data.reservation_id));
    expect((await waiting.queueStatus()).data.status).toBe('promoted');
    const again = await waiting.checkoutWithHeader(key);
    expect([again.status, again.text]).toEqual([202, queued.text]);
  });

  test('thirty replays of one device within a second cost no quota', async () => {
    const product = await operator.openCampaign(sale);
    const shopper = arrive(service.url, product);
    const key = randomUUID();
    await shopper.checkoutWithHeader(key);
    const replays = await Promise.all(Array.from({ length: 30 }, () => shopper.checkoutWithHeader(key)));
    expect(countStatuses(replays)).toEqual({ 200: 30 });
  });

  test('a waiting shopper with a new key gets the existing place, and each key its own first response', async () => {
    const product = await openSoldOut();
    const ahead = arrive(service.url, product);
    const shopper = arrive(service.url, product);
    await ahead.checkout();
    const [first, second] = [randomUUID(), randomUUID()];
    const before = await shopper.checkoutWithHeader(first);
    expect(before.data).toMatchObject({ position: 2, queue_size: 2 });
    expect((await ahead.leave()).status).toBe(200);
    const moved = await shopper.checkoutWithHeader(second);
    expect([moved.status, isReplay(moved)]).toEqual([202, false]);
    expect(moved.data).toMatchObject({ position: 1, queue_size: 1 });
    expect((await shopper.checkoutWithHeader(first)).text).toBe(before.text);
    expect((await shopper.checkoutWithHeader(second)).text).toBe(moved.text);
    await expectStock(operator, product, { total: 1, held: 1, waiting: 1 });
  });

  test('a thousand new keys of one waiting user leave sixty-one records, and refuse the user nothing', async () => {
    const product = await openSoldOut();
    const shopper = arrive(service.url, product);
    const first = await shopper.checkoutWithHeader('the-first-key');
    const journal = () => service.redis.client.call('XINFO', 'STREAM', 'db1:journal') as Promise<unknown[]>;
    // Promises are numbered without a gap, however many share an entry.
    const added = async () => {
      const info = await journal();
      return Number(String(info[info.indexOf('last-generated-id') + 1]).split('-')[1]);
    };
    // Of this user alone: those of a campaign that another test has closed may go meanwhile.
    const records = async () => (await keyNames(service.redis.client, `db1:i:${shopper.user}|*`)).length;
    const before = [await records(), await added()] as const;
    const from = (address: string, key: string) => {
      const stranger = arrive(service.url, product, shopper.user);
      return send(`${service.url}/flash-sale/checkout`, {
        method: 'POST',
        headers: { 'x-forwarded-for': address, 'idempotency-key': key },
        json: { product_id: product, user_id: shopper.user, qty: 1, ...stranger.token, device_fp: stranger.device },
      });
    };
    // Like an attacker, in the user's name and on many devices.
    const answers: Answer[] = [];
    for (let i = 0; i < 1_000; i += 10)
      answers.push(...(await Promise.all(range(1, 10).map(() => from('198.51.100.1', randomUUID())))));
    // Sixty, and as many as the user may have.
    expect(countStatuses(answers)).toEqual({ 202: 61, 429: 939 });
    expect(answers.at(-1)?.body.policy).toBe('place');
    expect((await records()) - before[0]).toBe(61);
    expect((await added()) - before[1]).toBe(61);
    for (const address of ['198.51.100.1', '198.51.100.2'])
      expect((await from(address, 'the-first-key')).text).toBe(first.text);
    expect((await from('198.51.100.2', randomUUID())).data).toMatchObject({ status: 'queued', position: 1 });
    await expectStock(operator, product, { total: 1, held: 1, waiting: 1 });
  });
});

test('a user who takes and gives back gets sixty units in ten minutes beyond the allowance, and each key its answer', async () => {
  const product = await operator.openCampaign({ total_limit: 100, hold_seconds: 900 });
  const shopper = arrive(service.url, product);
  const statuses: number[] = [];
  for (let i = 0; i < 62; i += 1) {
    const { token } = arrive(service.url, product, shopper.user);
    const answer = await send(`${service.url}/flash-sale/checkout`, {
      method: 'POST',
      headers: { 'idempotency-key': `take-and-give-${i}` },
      json: { product_id: product, user_id: shopper.user, qty: 1, ...token },
    });
    statuses.push(answer.status);
    if (answer.status !== 200) continue;
    const { reservation_id } = answer.data;
    const released = { method: 'POST', headers: { 'x-ticket': answer.data.ticket }, json: { reservation_id } };
    expect((await send(`${service.url}/flash-sale/release`, released)).status).toBe(200);
  }
  expect(statuses).toEqual([...Array(61).fill(200), 429]);
  const { token } = arrive(service.url, product, shopper.user);
  const again = await send(`${service.url}/flash-sale/checkout`, {
    method: 'POST',
    headers: { 'idempotency-key': 'take-and-give-0' },
    json: { product_id: product, user_id: shopper.user, qty: 1, ...token },
  });
  expect([again.status, isReplay(again)]).toEqual([200, true]);
  expect((await arrive(service.url, product).checkout()).status).toBe(200);
});

describe('refusals are not remembered', () => {
  test('after 400, 401, 422 and 503 the same key still buys', async () => {
    const product = await operator.openCampaign(sale);
    const shopper = arrive(service.url, product);
    const key = randomUUID();
    expectProblem(await shopper.checkoutWithHeader(key, { qty: 6 }), 400, 'invalid_request');
    expectProblem(await shopper.checkoutWithHeader(key, { qty: 'one' }), 400, 'invalid_request');
    expectProblem(await shopper.checkoutWithHeader(key, { attestation: 'a1.no' }), 401, 'attestation_invalid');
    await operator.call('POST', `/admin/campaigns/${product}/pause`);
    expectProblem(await shopper.checkoutWithHeader(key), 503, 'campaign_paused');
    await operator.call('POST', `/admin/campaigns/${product}/resume`);
    const bought = await shopper.checkoutWithHeader(key);
    expect([bought.status, isReplay(bought)]).toEqual([200, false]);
  });

  test('after 429 the same key still buys', async () => {
    const key = randomUUID();
    let [product, hasty] = ['', arrive(service.url, '')];
    const answers = await withinASecond(async () => {
      product = await operator.openCampaign(sale);
      hasty = arrive(service.url, product);
      // Refused after the quota was counted: they use it up and take nothing.
      const tooMany = await checkoutAtOnce(
        Array.from({ length: 20 }, () => hasty),
        { qty: 6 },
      );
      return [...tooMany, await hasty.checkoutWithHeader(key)];
    });
    expect(countStatuses(answers)).toEqual({ 400: 20, 429: 1 });
    expectProblem(answers[20] as Answer, 429, 'rate_limited');
    await until('the key is admitted', async () => (await hasty.checkoutWithHeader(key)).status === 200);
    await expectStock(operator, product, { total: 10, free: 9, held: 1 });
  });
});

describe('the form of a key', () => {
  test('in the header it may be quoted, and is the same key as bare', async () => {
    const shopper = arrive(service.url, await operator.openCampaign(sale));
    const key = randomUUID();
    const first = await shopper.checkoutWithHeader(`"${key}"`);
    const again = await shopper.checkoutWithHeader(key);
    expect([first.status, again.status, isReplay(again), again.text]).toEqual([200, 200, true, first.text]);
  });

  test('in both places it must be equal, and is answered as in the header', async () => {
    const shopper = arrive(service.url, await operator.openCampaign(sale));
    const key = randomUUID();
    const differing = await shopper.checkoutWithHeader(key, { idempotency_key: randomUUID() });
    expectProblem(differing, 400, 'invalid_request');
    expect(pointersOf(differing)).toEqual(['#/idempotency_key']);
    expect((await shopper.checkoutWithHeader(key, { idempotency_key: key })).status).toBe(200);
    const replay = await shopper.checkoutWithHeader(key, { idempotency_key: key });
    expect([replay.status, isReplay(replay)]).toEqual([200, true]);
  });

  test('it has 8 to 255 characters of A-Z a-z 0-9 . _ ~ : -, and nothing else', async () => {
    const product = await operator.openCampaign({ ...sale, total_limit: null });
    const buy = (key: string) => arrive(service.url, product).checkout({ idempotency_key: key });
    for (const key of ['A1._~:-z', 'k'.repeat(255), '........', ':::::::-']) expect((await buy(key)).status).toBe(200);
    const bad = [
      '',
      'seven-7',
      'k'.repeat(256),
      'with space',
      'with/slash',
      'kéy-kéy-kéy',
      '"quoted-8"',
      'nul\0nul\0nul',
    ];
    for (const key of bad) {
      const refused = await buy(key);
      expectProblem(refused, 400, 'invalid_request');
      expect(pointersOf(refused)).toEqual(['#/idempotency_key']);
    }
    for (const key of ['', 'seven-7', 'k'.repeat(256), 'with space', '"half-quoted', '""']) {
      expectProblem(await arrive(service.url, product).checkoutWithHeader(key), 400, 'invalid_request');
    }
  });

  test('one of the two places must have it', async () => {
    const shopper = arrive(service.url, await operator.openCampaign(sale));
    const refused = await shopper.checkout({ idempotency_key: undefined });
    expectProblem(refused, 400, 'invalid_request');
    expect(pointersOf(refused)).toEqual(['#/idempotency_key']);
  });
});
