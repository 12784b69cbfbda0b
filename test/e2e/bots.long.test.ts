import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { solve } from '../harness/challenge.js';
import { type Answer, Operator, send } from '../harness/clients.js';
import { startService } from '../harness/service.js';
import { countStatuses } from '../harness/shoppers.js';
import { freshToken, signToken } from '../harness/tokens.js';

// Bots of several kinds and ordinary shoppers at the same time, in one campaign that wants a proof of work.

const service = await startService({ TRUST_PROXY: '1' });
const operator = new Operator(service.url);
const UNITS = 400;
const product = await operator.openCampaign({
  total_limit: UNITS,
  risk: 'enforce',
  limits: { attestation_level: 1, unusual_hours: null },
});

const addressOf = (i: number) => `10.${(i >> 16) & 255}.${(i >> 8) & 255}.${i & 255}`;
function buy(user: string, token: Record<string, unknown>, address: string, fields: Record<string, unknown> = {}) {
  const json = { product_id: product, user_id: user, qty: 1, ...token, idempotency_key: randomUUID(), ...fields };
  return send(`${service.url}/flash-sale/checkout`, { method: 'POST', headers: { 'x-forwarded-for': address }, json });
}

/** Of a bot: eight attempts at once beside each shopper. An unlimited flood would measure the cores. */
const AT_ONCE = 8;
type Bot = (i: number) => Promise<Answer>;
const attack = (bots: readonly Bot[], round: number): Promise<Answer[][]> =>
  Promise.all(
    bots.map((attempt) => Promise.all(Array.from({ length: AT_ONCE }, (_, i) => attempt(round * AT_ONCE + i)))),
  );

/** An ordinary shopper: an own device and address, a token for a solution, one checkout. */
async function shop(i: number): Promise<Answer> {
  const [device, headers] = [`fp-shopper-${i}`, { 'x-forwarded-for': addressOf(70_000 + i) }];
  const path = `${service.url}/flash-sale/token?device_fp=${device}&product_id=${product}`;
  const solution = await solve(await send(path, { headers }));
  const token = await send(path, { headers: { ...headers, 'x-challenge-solution': solution } });
  return buy(`shopper-${i}`, token.data, addressOf(70_000 + i));
}

test('no shopper is refused, and bots that do not work get nothing', async () => {
  const token = freshToken('fp-bot');
  const yesterday = Math.floor(Date.now() / 1000) - 86_400;
  const worked = await (async () => {
    const path = `${service.url}/flash-sale/token?device_fp=fp-once&product_id=${product}`;
    return (await send(path, { headers: { 'x-challenge-solution': await solve(await send(path)) } })).data;
  })();
  const bots: Bot[] = [
    (i) => buy(`bot-a-${i}`, token, addressOf(i)),
    (i) => buy(`bot-b-${i}`, freshToken(`fp-b-${i}`), '10.200.0.1'),
    // One that has worked once and shares it with all its accounts.
    (i) => buy(`bot-c-${i}`, worked, addressOf(100_000 + i)),
    // The same one with devices of other accounts, and tokens of yesterday.
    (i) => buy(`bot-e-${i}`, { ...worked, device_fp: `fp-e-${i}` }, addressOf(300_000 + i)),
    (i) => buy(`bot-f-${i}`, signToken(`fp-f-${i}`, yesterday), addressOf(400_000 + i)),
    (i) =>
      send(`${service.url}/coupons/redeem`, {
        method: 'POST',
        headers: { 'x-forwarded-for': addressOf(200_000 + i) },
        json: { code: `GUESS${i}`, user_id: `bot-d-${i}`, order_id: 'o', idempotency_key: randomUUID() },
      }),
  ];
  // One at a time, as on devices of their own: a challenge that waits for the solutions of others may run out.
  const shoppers: Answer[] = [];
  const attempts = bots.map((): Answer[] => []);
  for (let i = 0; i < 40; i += 1) {
    const [shopper, answers] = await Promise.all([shop(i), attack(bots, i)]);
    shoppers.push(shopper);
    for (const [bot, made] of answers.entries()) attempts[bot]?.push(...made);
  }
  const [sameDevice, sameAddress, sharers, transplanted, stale, guessers] = attempts.map(countStatuses);
  expect(countStatuses(shoppers)).toEqual({ 200: 40 });
  for (const refused of [sameDevice, sameAddress, stale]) expect(Object.keys(refused ?? {})).toEqual(['403']);
  expect(Object.keys(transplanted ?? {})).toEqual(['401']);
  expect(sharers?.[200] ?? 0).toBeLessThanOrEqual(1);
  expect(guessers?.[201] ?? 0).toBe(0);
  const { redeemed } = await operator.stats(product);
  // Less than one in a hundred: the one token with a proof of work serves one user.
  expect(redeemed - 40).toBeLessThanOrEqual(1);
});
