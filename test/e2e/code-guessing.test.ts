import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { solve } from '../harness/challenge.js';
import { expectProblem } from '../harness/checks.js';
import { type Answer, Operator, send } from '../harness/clients.js';
import { importCodes } from '../harness/issued-codes.js';
import { keyNames } from '../harness/key-names.js';
import { startService } from '../harness/service.js';
import { countStatuses } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

// Many unknown codes from one network, each in the name of another user.

const LIMIT = 20;
const service = await startService({ TRUST_PROXY: '1', UNKNOWN_CODES_PER_MINUTE: String(LIMIT) });
const operator = new Operator(service.url);
const newCode = () => `CODE${randomUUID().replaceAll('-', '').slice(0, 12).toUpperCase()}`;
const newUser = () => `user-${randomUUID()}`;
async function open(terms: Record<string, unknown> = {}) {
  const code = newCode();
  return { code, product: await operator.openCampaign({ code, total_limit: 10_000, ...terms }) };
}
const inTurn = async (times: number, call: () => Promise<Answer>) => {
  const answers: Answer[] = [];
  for (let i = 0; i < times; i += 1) answers.push(await call());
  return answers;
};

const call = (path: string, address: string, json: Record<string, unknown>) =>
  send(`${service.url}${path}`, { method: 'POST', headers: { 'x-forwarded-for': address }, json });
const ask = (address: string, fields: Record<string, unknown> = {}) =>
  call('/coupons/validate', address, {
    user_id: newUser(),
    ...('codes' in fields ? {} : { code: newCode() }),
    ...fields,
  });
const use = (address: string, fields: Record<string, unknown> = {}) =>
  call('/coupons/redeem', address, {
    code: newCode(),
    user_id: newUser(),
    order_id: randomUUID(),
    idempotency_key: randomUUID(),
    ...fields,
  });

test('a network gets 429 after UNKNOWN_CODES_PER_MINUTE, by any route and user, and right codes are still served', async () => {
  const { code } = await open();
  const address = '198.51.100.40';
  const first = await inTurn(LIMIT, () => ask(address));
  expect(countStatuses(first)).toEqual({ 404: LIMIT });
  for (const refused of [await ask(address), await use(address), await ask(address, { codes: [newCode()] })]) {
    expectProblem(refused, 429, 'rate_limited');
    expect([refused.body.policy, refused.headers.get('ratelimit-policy')]).toEqual([
      'unknown-codes',
      `"unknown-codes";q=${LIMIT};w=60`,
    ]);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
  }
  expect((await ask(address, { code })).status).toBe(200);
  expect((await use(address, { code })).status).toBe(201);
  const several = await ask(address, { codes: [newCode(), code], cart: { subtotal: 100, currency: 'USD' } });
  expect(several.data.left_out).toEqual([expect.objectContaining({ reason: 'rate_limited' }), expect.anything()]);
  expect((await ask('198.51.100.41')).status).toBe(404);
});

test('each code of a request is counted, and a code that is bound to another user is unknown too', async () => {
  const address = '198.51.100.42';
  const cart = { subtotal: 100, currency: 'USD' };
  const ten = () => ask(address, { codes: Array.from({ length: 10 }, newCode), cart });
  expect((await inTurn(3, ten)).map(({ status }) => status)).toEqual([200, 200, 429]);
  const bound = newCode();
  await importCodes(operator, await operator.openCampaign({ type: 'unique' }), [`${bound},ann`]);
  await until('it is issued', async () => (await ask('198.51.100.47', { code: bound, user_id: 'ann' })).status === 200);
  expectProblem(await ask(address, { code: bound }), 429, 'rate_limited');
  expect((await ask(address, { code: bound, user_id: 'ann' })).status).toBe(200);
});

test('requests beyond the limit leave no rows and no keys', async () => {
  const address = '198.51.100.43';
  await inTurn(LIMIT, () => ask(address));
  const users = Array.from({ length: 50 }, newUser);
  const answers = await Promise.all(users.map((user_id) => ask(address, { user_id })));
  expect(countStatuses(answers)).toEqual({ 429: 50 });
  expect(await keyNames(service.redis.client, `db1:*${address}*`)).toEqual([]);
  // Rows are written in order, so the last one within the limit follows all others.
  const last = newUser();
  await ask('198.51.100.44', { user_id: last });
  const written = async (network: string) =>
    (await service.database.client.query('select user_id from redemption_attempts where network = $1', [network])).rows;
  await until('the last attempt is written', async () => (await written('198.51.100.44')).length === 1);
  expect((await written(address)).length).toBe(LIMIT);
});

test('while a campaign enforces its rules, each further check of the network costs work, and none of an allowed one', async () => {
  const { code, product } = await open({ risk: 'enforce', limits: { unusual_hours: null } });
  const [address, allowed] = ['198.51.100.45', '198.51.100.46'];
  await operator.call('POST', '/admin/bans', {
    effect: 'allow',
    kind: 'network',
    subject: allowed,
    reason: 'a till',
  });
  await until('the rules are known', async () => (await use('198.51.100.48', { code })).status === 201);
  for (const from of [address, allowed]) await inTurn(LIMIT + 1, () => ask(from));
  const user_id = newUser();
  const [right, wrong] = [await ask(address, { code, user_id }), await ask(address, { user_id })];
  expect([right.status, right.body.detail]).toEqual([wrong.status, wrong.body.detail]);
  const challenge_solution = await solve(right);
  expect((await ask(address, { code, user_id, challenge_solution })).status).toBe(200);
  expectProblem(await ask(address, { code, user_id, challenge_solution }), 403, 'challenge_required');
  expect((await ask(allowed, { code })).status).toBe(200);
  expectProblem(await ask(allowed), 404, 'code_not_found');
  await operator.call('POST', `/admin/campaigns/${product}/close`);
});
