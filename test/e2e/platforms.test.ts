import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { TestApple, TestPhone } from '../harness/app-attest-fixtures.js';
import { solve } from '../harness/challenge.js';
import { expectProblem, expectStock, pointersOf } from '../harness/checks.js';
import { type Answer, Operator, send } from '../harness/clients.js';
import { TestGoogle } from '../harness/google.js';
import { behindApi, sharedService, startApiProcess } from '../harness/service.js';
import { countStatuses } from '../harness/shoppers.js';
import { freshToken } from '../harness/tokens.js';
import { until } from '../harness/until.js';

// Tokens of level 2: Apple or Google vouch for app and device. Both are ours here (harness/app-attest-fixtures.ts,
// harness/google.ts).

const APP = 'ABCDE12345.com.example.shop';
const apple = new TestApple();
const google = new TestGoogle();
const service = await behindApi(await sharedService(), {
  ...apple.trustedBy(),
  APP_ATTEST_APP_IDS: `ZZZZZ99999.com.example.other,${APP}`,
  ...google.env,
});
const operator = new Operator(service.url);
const openLevel2 = (terms: Record<string, unknown> = {}) =>
  operator.openCampaign({ total_limit: 1_000, limits: { attestation_level: 2 }, ...terms });

const someDevice = () => `fp-${randomUUID()}`;
const buy = (product: string, token: Record<string, unknown>, user = `user-${randomUUID()}`): Promise<Answer> =>
  send(`${service.url}/flash-sale/checkout`, {
    method: 'POST',
    json: { product_id: product, user_id: user, qty: 1, idempotency_key: randomUUID(), ...token },
  });
const ask = (product: string, device: string) =>
  send(`${service.url}/flash-sale/token?device_fp=${device}&product_id=${product}`);
const prove = (product: string, device: string, platform: unknown, url = service.url) =>
  send(`${url}/flash-sale/token`, { method: 'POST', json: { device_fp: device, product_id: product, platform } });
/** What the platform has to sign for this device in this campaign. */
async function nonceFor(product: string, device: string): Promise<string> {
  const refused = await ask(product, device);
  expectProblem(refused, 403, 'challenge_required');
  return nonceOf(refused);
}
function nonceOf(refused: Answer): string {
  expect(refused.body.challenge).toEqual({
    kind: 'platform',
    nonce: expect.stringMatching(/^[\w-]{16,90}$/),
    expires_at: expect.any(Number),
    platforms: ['app_attest', 'play_integrity'],
  });
  return refused.body.challenge.nonce;
}
const changed = (nonce: string) => `${nonce.slice(0, 20)}${nonce[20] === 'A' ? 'B' : 'A'}${nonce.slice(21)}`;
const expectDistrust = (answer: Answer, why: RegExp) => {
  expectProblem(answer, 403, 'challenge_required');
  expect(answer.body.detail).toMatch(why);
  nonceOf(answer);
};

describe('a campaign that wants attestation by the platform', () => {
  test('sells to a phone of Apple’s that attests its key, and asserts with it afterwards', async () => {
    const product = await openLevel2();
    const [phone, device] = [new TestPhone(apple, APP), someDevice()];
    const first = await prove(product, device, phone.attest(await nonceFor(product, device)));
    expect([first.status, first.data.attestation]).toEqual([200, expect.stringMatching(/^a1\.2\./)]);
    expect((await buy(product, first.data)).status).toBe(200);
    for (const _ of [1, 2]) {
      const next = await prove(product, device, phone.assert(await nonceFor(product, device)));
      expect((await buy(product, next.data)).status).toBe(200);
    }
    await expectStock(operator, product, { total: 1_000, free: 997, redeemed: 3 });
  });

  test('sells to a phone of Google’s', async () => {
    const product = await openLevel2();
    const device = someDevice();
    const token = await prove(product, device, await google.vouch(await nonceFor(product, device)));
    expect(token.status).toBe(200);
    expect((await buy(product, token.data)).status).toBe(200);
  });

  test('refuses tokens of lower levels, whatever work comes with them, and those of another campaign, device or user', async () => {
    const product = await openLevel2();
    const device = someDevice();
    nonceOf(await buy(product, freshToken(device)));
    const level1 = await operator.openCampaign({ total_limit: 10, limits: { attestation_level: 1 } });
    const challenge_solution = await solve(await buy(level1, freshToken(device)));
    nonceOf(await buy(product, { ...freshToken(device), challenge_solution }));
    const { data: token } = await prove(product, device, await google.vouch(await nonceFor(product, device)));
    expectProblem(await buy(product, { ...token, device_fp: someDevice() }), 401, 'attestation_invalid');
    expectProblem(await buy(await openLevel2(), token), 401, 'attestation_invalid');
    const lower = { ...token, attestation: token.attestation.replace('.2.', '.1.') };
    expectProblem(await buy(level1, lower), 401, 'attestation_invalid');
    expect((await buy(product, token, 'user-first')).status).toBe(200);
    nonceOf(await buy(product, token, 'user-second'));
  });

  test('gives one token for a hundred replays of one proof', async () => {
    const product = await openLevel2();
    const device = someDevice();
    const proof = await google.vouch(await nonceFor(product, device));
    const answers = await Promise.all(Array.from({ length: 100 }, () => prove(product, device, proof)));
    expect(countStatuses(answers)).toEqual({ 200: 1, 403: 99 });
  });

  test('wants it of coupons too', async () => {
    const code = `VOUCH${randomUUID().slice(0, 8).toUpperCase()}`;
    const product = await openLevel2({ code, uniform_refusals: true });
    const device = someDevice();
    const redeem = (typed: string, token: Record<string, unknown>) =>
      send(`${service.url}/coupons/redeem`, {
        method: 'POST',
        json: { code: typed, user_id: 'ann', order_id: 'o-1', idempotency_key: randomUUID(), ...token },
      });
    const [issued, made] = [await redeem(code, freshToken(device)), await redeem('MADE-UP-CODE', freshToken(device))];
    expectProblem(made, 403, 'challenge_required');
    expect([made.body.detail, Object.keys(made.body)]).toEqual([issued.body.detail, Object.keys(issued.body)]);
    const token = await prove(product, device, await google.vouch(await nonceFor(product, device)));
    expect((await redeem(code, token.data)).status).toBe(201);
  });
});

describe('App Attest', () => {
  test('is not believed for another device, campaign, app, key or root, nor in development, nor changed', async () => {
    const [product, other] = [await openLevel2(), await openLevel2()];
    const device = someDevice();
    const fresh = () => nonceFor(product, device);
    const phone = new TestPhone(apple, APP);
    const refused: [string, unknown, RegExp][] = [
      ['a nonce of another device', phone.attest(await nonceFor(product, someDevice())), /nonce is expired or not for/],
      ['a nonce of another campaign', phone.attest(await nonceFor(other, device)), /nonce is expired or not for/],
      ['a nonce that was changed', phone.attest(changed(await fresh())), /nonce is expired or not for/],
      ['another text of a nonce', phone.attest(`${await fresh()}A`), /nonce is expired or not for/],
      ['an attestation over another nonce', { ...phone.attest(await fresh()), nonce: await fresh() }, /not valid/],
      ['another app', new TestPhone(apple, 'ABCDE12345.com.evil').attest(await fresh()), /not valid/],
      ['a development build', phone.attest(await fresh(), { development: true }), /not valid/],
      ['another root', new TestPhone(new TestApple(), APP).attest(await fresh()), /not valid/],
      [
        'the key of another phone',
        { ...phone.attest(await fresh()), key_id: new TestPhone(apple, APP).keyId },
        /not valid/,
      ],
      ['what is no CBOR', { ...phone.attest(await fresh()), attestation: 'AAAA' }, /not valid/],
      [
        'an assertion as attestation',
        { ...phone.attest(await fresh()), attestation: phone.assert('x').assertion },
        /not valid/,
      ],
      ['an assertion by an unknown key', phone.assert(await fresh()), /key is unknown/],
    ];
    for (const [what, proof, why] of refused) {
      const answer = await prove(product, device, proof);
      expect([what, answer.status]).toEqual([what, 403]);
      expectDistrust(answer, why);
    }
    expect((await prove(product, device, phone.attest(await fresh()))).status).toBe(200);
  });

  test('binds a key to the first device, and refuses assertions that do not count up or sign something else', async () => {
    const product = await openLevel2();
    const [device, other] = [someDevice(), someDevice()];
    const phone = new TestPhone(apple, APP);
    expect((await prove(product, device, phone.attest(await nonceFor(product, device)))).status).toBe(200);
    const fresh = () => nonceFor(product, device);
    expectDistrust(await prove(product, other, phone.attest(await nonceFor(product, other))), /another device/);
    expectDistrust(await prove(product, other, phone.assert(await nonceFor(product, other))), /another device/);
    expect((await prove(product, device, phone.assert(await fresh(), 5))).status).toBe(200);
    for (const uses of [5, 4, 0])
      expectDistrust(await prove(product, device, phone.assert(await fresh(), uses)), /not valid|not higher/);
    expectDistrust(
      await prove(product, device, { ...phone.assert(await fresh(), 6), nonce: await fresh() }),
      /not valid/,
    );
    const stranger = new TestPhone(apple, APP);
    expectDistrust(
      await prove(product, device, { ...stranger.assert(await fresh(), 7), key_id: phone.keyId }),
      /not valid/,
    );
    const elsewhere = new TestPhone(apple, 'ZZZZZ99999.com.example.other');
    expectDistrust(
      await prove(product, device, { ...elsewhere.assert(await fresh(), 7), key_id: phone.keyId }),
      /not valid/,
    );
    expect((await prove(product, device, phone.assert(await fresh(), 8))).status).toBe(200);
  });
});

describe('Play Integrity', () => {
  test('is not believed of another app, certificate or time, without its verdicts, or by other keys', async () => {
    const product = await openLevel2();
    const device = someDevice();
    const fresh = () => nonceFor(product, device);
    const vouched = async (parts: Record<string, Record<string, unknown>>) => google.vouch(await fresh(), parts);
    const strangersToken = async () => {
      const stranger = new TestGoogle();
      return { ...(await stranger.vouch(await fresh())), nonce: await fresh() };
    };
    const refused: [unknown, RegExp][] = [
      [await vouched({ requestDetails: { nonce: await fresh() } }), /another nonce/],
      [await vouched({ requestDetails: { requestPackageName: 'com.evil' } }), /another app/],
      [await vouched({ appIntegrity: { packageName: 'com.evil' } }), /another app/],
      [await vouched({ requestDetails: { timestampMillis: String(Date.now() - 3_600_000) } }), /too old/],
      [await vouched({ requestDetails: { timestampMillis: String(Date.now() + 3_600_000) } }), /too old/],
      [await vouched({ requestDetails: { timestampMillis: 'soon' } }), /not valid/],
      [await vouched({ appIntegrity: { appRecognitionVerdict: 'UNRECOGNIZED_VERSION' } }), /the store/],
      [await vouched({ appIntegrity: { certificateSha256Digest: ['A'.repeat(43)] } }), /the store/],
      [await vouched({ deviceIntegrity: { deviceRecognitionVerdict: [] } }), /genuine/],
      [await vouched({ deviceIntegrity: { deviceRecognitionVerdict: ['MEETS_BASIC_INTEGRITY'] } }), /genuine/],
      [await vouched({ accountDetails: { appLicensingVerdict: 'UNLICENSED' } }), /the store/],
      [await strangersToken(), /not valid/],
      [{ kind: 'play_integrity', nonce: await fresh(), token: 'a.b.c.d.e' }, /not valid/],
    ];
    for (const [proof, why] of refused) expectDistrust(await prove(product, device, proof), why);
    expect((await prove(product, device, await vouched({}))).status).toBe(200);
  });
});

test('a network whose proofs are not believed is not heard any more, and others are', async () => {
  const product = await openLevel2();
  const { url } = await startApiProcess({ ...service.env, TRUST_PROXY: '1' });
  const proveFrom = (address: string, platform: unknown) =>
    send(`${url}/flash-sale/token`, {
      method: 'POST',
      headers: { 'x-forwarded-for': address },
      json: { device_fp: 'fp', product_id: product, platform },
    });
  const forged = { kind: 'play_integrity', nonce: 'made-up', token: 'a.b.c.d.e' };
  const answers = await Promise.all(Array.from({ length: 310 }, () => proveFrom('192.0.2.1', forged)));
  expect(countStatuses(answers)[200]).toBeUndefined();
  const refused = await proveFrom('192.0.2.1', await google.vouch(await nonceFor(product, 'fp')));
  expectProblem(refused, 429, 'rate_limited');
  expect(refused.body.policy).toBe('wrong-proof');
  expect((await proveFrom('192.0.2.2', await google.vouch(await nonceFor(product, 'fp')))).status).toBe(200);
});

test('says what is wrong with a proof that has not the right form', async () => {
  const product = await openLevel2();
  const phone = new TestPhone(apple, APP);
  const nonce = await nonceFor(product, 'fp');
  const wrong: [unknown, string][] = [
    [{ kind: 'knox', nonce }, '#/platform/kind'],
    [{ ...phone.attest(nonce), nonce: 'x'.repeat(91) }, '#/platform/nonce'],
    [{ ...phone.attest(nonce), nonce: 'a b' }, '#/platform/nonce'],
    [{ ...phone.attest(nonce), key_id: 'short' }, '#/platform/key_id'],
    [{ kind: 'app_attest', nonce, key_id: phone.keyId }, '#/platform/attestation'],
    [{ ...phone.attest(nonce), ...phone.assert(nonce) }, '#/platform/attestation'],
    [{ ...phone.attest(nonce), attestation: 7 }, '#/platform/attestation'],
    [{ ...phone.attest(nonce), attestation: 'not base64!' }, '#/platform/attestation'],
    [{ kind: 'play_integrity', nonce, token: 'a.b.c' }, '#/platform/token'],
    ['app_attest', '#/platform'],
  ];
  for (const [platform, pointer] of wrong) {
    const answer = await prove(product, 'fp', platform);
    expectProblem(answer, 400, 'invalid_request');
    expect([pointer, pointersOf(answer)]).toEqual([pointer, expect.arrayContaining([pointer])]);
  }
  const json = { device_fp: 'fp', platform: phone.attest(nonce) };
  const nowhere = await send(`${service.url}/flash-sale/token`, { method: 'POST', json });
  expectProblem(nowhere, 400, 'invalid_request');
  expect(pointersOf(nowhere)).toEqual(['#/product_id']);
});

test('a token is posted for without a platform as well, and takes work where that is wanted', async () => {
  const device = someDevice();
  const post = (json: Record<string, unknown>) =>
    send(`${service.url}/flash-sale/token`, { method: 'POST', json: { device_fp: device, ...json } });
  expect((await post({})).data).toMatchObject({
    device_fp: device,
    attestation: expect.stringMatching(/^a1\.[\w-]{43}$/),
  });
  const product_id = await operator.openCampaign({ total_limit: 10, limits: { attestation_level: 1 } });
  const challenge_solution = await solve(await post({ product_id }));
  const worked = await post({ product_id, challenge_solution });
  expect((await buy(product_id, worked.data)).status).toBe(200);
  // More than is wanted is taken too.
  const { challenge } = (await ask(await openLevel2(), device)).body;
  expectDistrust(
    await post({ product_id, platform: await google.vouch(challenge.nonce) }),
    /nonce is expired or not for/,
  );
});

test('without a platform that is set up no campaign may demand one, and each process answers what the others asked', async () => {
  const { APP_ATTEST_APP_IDS, PLAY_INTEGRITY_PACKAGE, PLAY_INTEGRITY_CERTIFICATES, ...rest } = service.env;
  const { PLAY_INTEGRITY_DECRYPTION_KEY, PLAY_INTEGRITY_VERIFICATION_KEY, ...env } = rest;
  const bare = await startApiProcess(env);
  const there = new Operator(bare.url);
  const terms = { product_id: `sale-${randomUUID()}`, total_limit: 1, limits: { attestation_level: 2 } };
  const refused = await there.call('POST', '/admin/campaigns', terms);
  expectProblem(refused, 400, 'invalid_request');
  expect(refused.body.errors).toEqual([
    { pointer: '#/limits/attestation_level', detail: expect.stringContaining('APP_ATTEST_APP_IDS') },
  ]);
  const product = await there.openCampaign({ total_limit: 1 });
  const amended = await there.call('PATCH', `/admin/campaigns/${product}`, { limits: { attestation_level: 2 } });
  expectProblem(amended, 400, 'invalid_request');

  const twin = await startApiProcess(service.env);
  const [sold, device] = [await openLevel2(), someDevice()];
  const phone = new TestPhone(apple, APP);
  await until('the twin knows the campaign', async () => {
    const asked = await send(`${twin.url}/flash-sale/token?device_fp=${device}&product_id=${sold}`);
    return asked.status === 403;
  });
  expect((await prove(sold, device, phone.attest(await nonceFor(sold, device)), twin.url)).status).toBe(200);
  expect((await prove(sold, device, phone.assert(await nonceFor(sold, device)))).status).toBe(200);
});
