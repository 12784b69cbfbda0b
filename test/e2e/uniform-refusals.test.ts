import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import type { ProductId } from '../../shared/domain/ids.js';
import { shardOfProduct } from '../../shared/domain/shards.js';
import { solve } from '../harness/challenge.js';
import { expectProblem } from '../harness/checks.js';
import { type Answer, Operator, send } from '../harness/clients.js';
import { startService } from '../harness/service.js';
import { freshToken } from '../harness/tokens.js';
import { until } from '../harness/until.js';

// No response may reveal whether a code of a campaign with uniform refusals exists. Each test does the same with a
// made-up code and with a real one that cannot be used, and compares the complete responses.

const SHARDS = 4;
const service = await startService({ TRUST_PROXY: '1', UNKNOWN_CODES_PER_MINUTE: '60', SHARDS: String(SHARDS) });
const operator = new Operator(service.url);
const inProse = (text: string) => `${text}${randomUUID().replaceAll('-', '').slice(0, 12).toUpperCase()}`;
const newUser = () => `user-${randomUUID()}`;
let networks = 0;
const newNetwork = () => {
  networks += 1;
  return `2001:db8:${networks.toString(16)}::1`;
};

type Fields = Record<string, unknown>;
const post = (path: string, address: string, json: Fields) =>
  send(`${service.url}${path}`, { method: 'POST', headers: { 'x-forwarded-for': address }, json });
const check = (address: string, code: string, user: string, fields: Fields = {}) =>
  post('/coupons/validate', address, { code, user_id: user, ...fields });
const redeem = (address: string, code: string, user: string, fields: Fields = {}) =>
  post('/coupons/redeem', address, {
    code,
    user_id: user,
    order_id: 'o-1',
    idempotency_key: randomUUID(),
    ...fields,
  });

/** A campaign with uniform refusals and an audience that excludes the user; and a made-up code of the same length. */
async function openUniform(terms: Fields = {}): Promise<{ product: string; real: string; madeUp: string }> {
  const [real, madeUp] = [inProse('REAL'), inProse('MADE')];
  const product = await operator.openCampaign({
    code: real,
    total_limit: 1_000,
    uniform_refusals: true,
    audience: { attribute: 'tier', eq: 'gold' },
    ...terms,
  });
  const looksLike = async () => (await check(newNetwork(), madeUp, newUser())).body.code === 'code_not_usable';
  await until('made-up codes of that length are refused alike', looksLike);
  return { product, real, madeUp };
}
const close = (product: string) => operator.call('POST', `/admin/campaigns/${product}/close`);

/** What may not differ: everything but ids, times with jitter and what is random in a challenge. */
function shown(answer: Answer): unknown {
  const { instance: _, data: found, challenge, ...body } = answer.body;
  const { nonce, salt, expiresAt, data, ...work } = challenge?.parameters ?? {};
  const fields = ['ratelimit-policy', 'retry-after', 'www-authenticate', 'location'];
  const headers = fields.map((name) => [name, answer.headers.get(name) !== null]);
  const quota = answer.headers.get('ratelimit')?.replace(/t=\d+/, 't');
  const reasons = found?.left_out?.map(({ reason }: { reason: string }) => reason);
  return { status: answer.status, body, reasons, work, quota, policy: answer.headers.get('ratelimit-policy'), headers };
}

/** Does the same with both codes, from a network and as a user of its own each. */
async function expectAlike(
  { real, madeUp }: { real: string; madeUp: string },
  trace: (code: string, address: string, user: string) => Promise<Answer[]>,
): Promise<Answer[]> {
  const known = await trace(real, newNetwork(), newUser());
  const unknown = await trace(madeUp, newNetwork(), newUser());
  expect(unknown.map(shown)).toEqual(known.map(shown));
  return known;
}
const times = async (count: number, call: () => Promise<Answer>): Promise<Answer[]> => {
  const answers: Answer[] = [];
  for (let i = 0; i < count; i += 1) answers.push(await call());
  return answers;
};

// First, since each process knows for seconds what a closed campaign has set.
test('a user waits after as many failures', async () => {
  const codes = await openUniform({ limits: { validate_per_minute_per_user: 100 } });
  const waiting = await expectAlike(codes, async (code, address, user) => {
    await times(5, () => check(address, code, user));
    return [
      await until(
        'the user waits',
        async () => (await check(address, code, user)).status === 429 && check(address, code, user),
      ),
    ];
  });
  expect(waiting[0]?.body.policy).toBe('cooldown');
  await close(codes.product);
});

test('the quotas that are left afterwards are the same, also where the campaign sets its own', async () => {
  const open = inProse('OPEN');
  await operator.openCampaign({ code: open, total_limit: 1_000, per_user_limit: 100 });
  for (const limits of [{}, { validate_per_minute_per_user: 3, redeem_per_minute_per_user: 2 }]) {
    const codes = await openUniform({ limits });
    const after = await expectAlike(codes, async (code, address, user) => [
      await check(address, code, user),
      await redeem(address, code, user),
      await check(address, open, user),
      await redeem(address, open, user),
    ]);
    expect(after.map(({ status }) => status)).toEqual([404, 404, 200, 201]);
    await close(codes.product);
  }
});

test('the refusals of a user who continues are the same, up to the cooldown', async () => {
  const codes = await openUniform({ limits: { validate_per_minute_per_user: 3, redeem_per_minute_per_user: 2 } });
  const checks = await expectAlike(codes, (code, address, user) => times(5, () => check(address, code, user)));
  expect(checks.map(({ status }) => status)).toEqual([404, 404, 404, 429, 429]);
  const redeems = await expectAlike(codes, (code, address, user) => times(4, () => redeem(address, code, user)));
  expect(redeems.map(({ status }) => status)).toEqual([404, 404, 429, 429]);
  await close(codes.product);
});

test('the limit of unknown codes for a network is the same', async () => {
  const codes = await openUniform();
  const answers = await expectAlike(codes, (code, address) => times(61, () => check(address, code, newUser())));
  expect([answers[59]?.status, answers[60]?.status, answers[60]?.body.policy]).toEqual([404, 429, 'unknown-codes']);
  await close(codes.product);
});

test('the responses while the campaign is paused, and when it is over, are the same', async () => {
  const codes = await openUniform({ audience: null });
  for (const action of ['pause', 'close']) {
    await operator.call('POST', `/admin/campaigns/${codes.product}/${action}`);
    const answers = await expectAlike(codes, async (code, address, user) => [
      await check(address, code, user),
      await redeem(address, code, user),
      await check(address, code, user, { code: undefined, codes: [code] }),
    ]);
    for (const answer of answers.slice(0, 2)) expectProblem(answer, 404, 'code_not_usable');
  }
});

test('the responses to wrong tokens, and to devices over their quota, are the same', async () => {
  const codes = await openUniform();
  const forged = { device_fp: 'fp-1', attestation: 'a1.forged', expires_at: Math.floor(Date.now() / 1000) + 30 };
  const wrong = await expectAlike(codes, async (code, address, user) => [
    await redeem(address, code, user, forged),
    await redeem(address, code, user, { ...freshToken('fp-2'), device_fp: 'fp-1' }),
    await redeem(address, code, user, { attestation: 'a1.forged' }),
    await redeem(address, code, user, { token: 'no.token.of.ours' }),
  ]);
  for (const answer of wrong) expectProblem(answer, 404, 'code_not_usable');
  const flood = await expectAlike(codes, async (code, address) => {
    const token = freshToken(`fp-${address}`);
    return Promise.all(Array.from({ length: 40 }, () => redeem(address, code, newUser(), token)));
  });
  expect(new Set(flood.map(({ status }) => status))).toEqual(new Set([404]));
  await close(codes.product);
});

test('the challenges are the same, whichever campaign demands them, and so is the use of a solution', async () => {
  const strict = await openUniform({ limits: { attestation_level: 1, unusual_hours: null } });
  const lax = await openUniform({ limits: { unusual_hours: null } });
  const enforcing = await operator.openCampaign({
    code: inProse('WORK'),
    total_limit: 10,
    risk: 'enforce',
    limits: { unusual_hours: null, redeem_per_minute_per_address: 1 },
  });
  for (const codes of [strict, lax, { real: strict.real, madeUp: lax.real }]) {
    const answers = await expectAlike(codes, async (code, address, user) => {
      const asked = await redeem(address, code, user);
      const challenge_solution = await solve(asked);
      const worked = await redeem(address, code, user, { challenge_solution });
      return [asked, worked, await redeem(address, code, user, { challenge_solution })];
    });
    expect(answers.map(({ status }) => status)).toEqual([403, 404, 403]);
  }
  // A solution that was asked for with one code is good for another, made up or not.
  await expectAlike(lax, async (code, address, user) => {
    const challenge_solution = await solve(await redeem(address, lax.madeUp, user));
    return [await redeem(address, code, user, { challenge_solution })];
  });
  await Promise.all([strict.product, lax.product, enforcing].map(close));
});

test('a repetition is recognised on the shard of its campaign, whatever a new redemption would need', async () => {
  const shardOf = (product: string) => shardOfProduct(product as ProductId, SHARDS);
  const terms = { audience: null, risk: 'enforce', limits: { unusual_hours: null, redeem_per_minute_per_address: 3 } };
  let campaign = await openUniform(terms);
  while (shardOf(campaign.product) === shardOf('')) campaign = await openUniform(terms);
  const [address, user, idempotency_key] = [newNetwork(), newUser(), randomUUID()];
  const first = () => redeem(address, campaign.real, user, { idempotency_key });
  const isServed = async () => (await redeem(newNetwork(), campaign.real, newUser())).status === 201;
  await until('the limits of the campaigns before are gone', isServed);
  expect((await first()).status).toBe(201);
  for (let i = 0; i < 2; i += 1) expect((await redeem(address, campaign.real, newUser())).status).toBe(201);
  expectProblem(await redeem(address, campaign.real, newUser()), 403, 'challenge_required');
  expectProblem(await first(), 409, 'duplicate_request');
});
