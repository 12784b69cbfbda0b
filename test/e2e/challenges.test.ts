import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { encode, solve } from '../harness/challenge.js';
import { expectProblem, expectStock } from '../harness/checks.js';
import { type Answer, Operator, send } from '../harness/clients.js';
import { sharedService } from '../harness/service.js';
import { countStatuses } from '../harness/shoppers.js';
import { freshToken } from '../harness/tokens.js';
import { until } from '../harness/until.js';

const service = await sharedService();
const operator = new Operator(service.url);
const openLevel1 = (terms: Record<string, unknown> = {}) =>
  operator.openCampaign({ total_limit: 1_000, limits: { attestation_level: 1 }, ...terms });

type Who = { user: string; device: string };
const somebody = (): Who => ({ user: `user-${randomUUID()}`, device: `fp-${randomUUID()}` });
const buy = (product: string, { user, device }: Who, fields: Record<string, unknown> = {}): Promise<Answer> =>
  send(`${service.url}/flash-sale/checkout`, {
    method: 'POST',
    json: {
      product_id: product,
      user_id: user,
      qty: 1,
      ...freshToken(device),
      idempotency_key: randomUUID(),
      ...fields,
    },
  });
const tokenFor = (product: string, device: string, solution?: string) =>
  send(`${service.url}/flash-sale/token?device_fp=${device}&product_id=${product}`, {
    ...(solution === undefined ? {} : { headers: { 'x-challenge-solution': solution } }),
  });

describe('a campaign that wants a proof of work', () => {
  test('refuses a token that cost nothing with a challenge, and takes the solution with the repeated request', async () => {
    const product = await openLevel1();
    const who = somebody();
    const key = randomUUID();
    const refused = await buy(product, who, { idempotency_key: key });
    const challenge_solution = await solve(refused);
    expect(JSON.stringify(refused.body.challenge)).not.toContain(product);
    const bought = await buy(product, who, { idempotency_key: key, challenge_solution });
    expect([bought.status, bought.data.status]).toEqual([200, 'completed']);
    const again = await buy(product, who, { idempotency_key: key, challenge_solution });
    expectProblem(again, 409, 'duplicate_request');
    expect(again.body.data).toEqual(bought.data);
    await expectStock(operator, product, { total: 1_000, free: 999, redeemed: 1 });
  });

  test('gives a token for a solution, once, and the token serves one user there and nowhere else', async () => {
    const product = await openLevel1();
    const who = somebody();
    const solution = await solve(await tokenFor(product, who.device));
    const token = await tokenFor(product, who.device, solution);
    expect(token.status).toBe(200);
    await solve(await tokenFor(product, who.device, solution));
    const first = await buy(product, who, token.data);
    expect(first.status).toBe(200);
    await solve(await buy(product, { ...somebody(), device: who.device }, token.data));
    const other = await openLevel1();
    expectProblem(await buy(other, who, token.data), 401, 'attestation_invalid');
    expectProblem(await buy(product, somebody(), { ...token.data, device_fp: 'fp-other' }), 401, 'attestation_invalid');
    for (const level of ['.1.', '.2.', '.0.']) {
      const change = (_: string, first: string) => `${level}${first === 'A' ? 'B' : 'A'}`;
      const attestation = token.data.attestation.replace(/\.1\.(.)/, change);
      expectProblem(await buy(product, who, { ...token.data, attestation }), 401, 'attestation_invalid');
    }
  });

  test('lets one of a hundred replays of a solution pass', async () => {
    const product = await openLevel1();
    const { device, user } = somebody();
    const challenge_solution = await solve(await buy(product, { device, user }));
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => buy(product, { device, user: `user-${randomUUID()}` }, { challenge_solution })),
    );
    expect(countStatuses(answers)).toEqual({ 200: 1, 403: 9 });
    const solution = await solve(await tokenFor(product, device));
    const tokens = await Promise.all(Array.from({ length: 100 }, () => tokenFor(product, device, solution)));
    expect(countStatuses(tokens)).toEqual({ 200: 1, 403: 99 });
    await expectStock(operator, product, { total: 1_000, free: 999, redeemed: 1 });
  });

  test('takes no solution of another device, user or campaign, none that was changed, and none that is none', async () => {
    const product = await openLevel1();
    const other = await openLevel1();
    const who = somebody();
    const refused = await buy(product, who);
    const solution = await solve(refused);
    const { challenge } = refused.body as { challenge: { parameters: Record<string, any>; signature: string } };
    const solved = JSON.parse(Buffer.from(solution, 'base64').toString()).solution;
    const forged = [
      '',
      'x',
      'e30=',
      encode({}, {}),
      encode(null, null),
      encode(challenge, null),
      encode(challenge, { ...solved, counter: solved.counter + 1 }),
      encode(challenge, { counter: 0, derivedKey: '000'.padEnd(64, '0') }),
      encode({ ...challenge, signature: '0'.repeat(64) }, solved),
      encode({ ...challenge, parameters: { ...challenge.parameters, cost: 1 } }, solved),
      encode({ ...challenge, parameters: { ...challenge.parameters, keyPrefix: '0' } }, solved),
      encode({ ...challenge, parameters: { ...challenge.parameters, expiresAt: 4_000_000_000 } }, solved),
      encode({ ...challenge, parameters: { ...challenge.parameters, data: { kid: 'made-up', for: 'x' } } }, solved),
    ];
    for (const challenge_solution of forged)
      expectProblem(await buy(product, who, { challenge_solution }), 403, 'challenge_required');
    const stranger = { challenge_solution: solution };
    expectProblem(await buy(other, who, stranger), 403, 'challenge_required');
    expectProblem(await buy(product, somebody(), stranger), 403, 'challenge_required');
    expectProblem(await buy(product, who, { challenge_solution: 'x'.repeat(9_000) }), 400, 'invalid_request');
    expect((await buy(product, who, stranger)).status).toBe(200);
  });

  test('demands it for codes too, without revealing which codes exist', async () => {
    const code = `WORK${randomUUID().slice(0, 8).toUpperCase()}`;
    await openLevel1({ code, uniform_refusals: true });
    const redeem = (typed: string, fields: Record<string, unknown> = {}) => {
      const json = { code: typed, user_id: 'ann', order_id: 'o-1', idempotency_key: 'key-of-ann', ...fields };
      return send(`${service.url}/coupons/redeem`, { method: 'POST', json });
    };
    const [issued, made] = [await redeem(code), await redeem('MADE-UP-CODE')];
    expectProblem(made, 403, 'challenge_required');
    expect([made.body.detail, Object.keys(made.body)]).toEqual([issued.body.detail, Object.keys(issued.body)]);
    expect((await redeem(code, { challenge_solution: await solve(issued) })).status).toBe(201);
  });

  test('asks for more work while it is stormed', async () => {
    const product = await openLevel1();
    const askedFor = async () => (await buy(product, somebody())).body.challenge.parameters.cost;
    expect(await askedFor()).toBe(8);
    // A slow machine sends the calls over more than a second, and none of these seconds may have enough of them.
    await until('the work of a storm is doubled', async () =>
      (await Promise.all(Array.from({ length: 400 }, askedFor))).includes(16),
    );
  });
});
