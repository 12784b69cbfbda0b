import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { expectProblem } from '../harness/checks.js';
import { Operator, PaymentService, send } from '../harness/clients.js';
import {
  checkoutAs,
  expectPlaceOnly,
  handOverOf,
  JWT_SECRET,
  jwtOf,
  oneUnit,
  openWithVictim,
  SIGNING_KEY,
  secondsFromNow,
  withTicket,
} from '../harness/identity.js';
import { behindApi, sharedService, startApiProcess } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';

/** Which requests prove their user where SHOPPER_IDENTITY requires a proof. */
const service = await behindApi(await sharedService(), {});
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const jwtApi = await startApiProcess({
  ...service.env,
  SHOPPER_IDENTITY: 'jwt',
  SHOPPER_JWT_SECRET: JWT_SECRET,
  SHOPPER_JWT_ISSUER: 'login',
  SHOPPER_JWT_AUDIENCE: 'shop',
  SHOPPER_JWT_ATTRIBUTES: 'tier',
});
const signedApi = await startApiProcess({
  ...service.env,
  SHOPPER_IDENTITY: 'signed',
  SHOPPER_SIGNING_KEYS: `s1:${SIGNING_KEY.toString('base64')}`,
});

const newUser = () => `user-${randomUUID()}`;
const bearer = (jwt: string) => ({ authorization: `Bearer ${jwt}` });
const claims = (user: string, more: object = {}) => ({
  sub: user,
  iss: 'login',
  aud: 'shop',
  exp: secondsFromNow(3_600),
  ...more,
});
const jwtFor = (user: string, more: object = {}) => bearer(jwtOf(claims(user, more)));
const handOverFor = (user: string, more: object = {}) => ({
  'x-shopper': handOverOf({ user_id: user, expires_at: secondsFromNow(600), ...more }),
});

/** The two modes in which a shopper proves who they are. */
const modes = [
  { mode: 'jwt', url: jwtApi.url, proofOf: jwtFor, scheme: /^Bearer\b/ },
  { mode: 'signed', url: signedApi.url, proofOf: handOverFor, scheme: /^Shopper\b/ },
];

describe.each(modes)('$mode', ({ url, proofOf, scheme }) => {
  const statusOf = (product: string, user: string, headers: Record<string, string> = {}) =>
    send(`${url}/flash-sale/queue-status?product_id=${product}&user_id=${user}`, { headers });

  test('a user is served with their own proof, and refused with none or that of another user', async () => {
    const product = await operator.openCampaign({ total_limit: 5, hold_seconds: 900 });
    const user = newUser();
    const calls = (headers: Record<string, string>) => [
      checkoutAs(url, user, product, { headers }),
      statusOf(product, user, headers),
      send(`${url}/coupons/token?code=ABCDEFGH&user_id=${user}`, { headers }),
      send(`${url}/coupons/validate`, { method: 'POST', headers, json: { code: 'ABCDEFGH', user_id: user } }),
      send(`${url}/coupons/redeem`, {
        method: 'POST',
        headers: { 'idempotency-key': randomUUID(), ...headers },
        json: { code: 'ABCDEFGH', user_id: user, order_id: 'o' },
      }),
    ];
    for (const refused of await Promise.all(calls({}))) {
      expectProblem(refused, 401, 'unauthorized');
      expect(refused.headers.get('www-authenticate')).toMatch(scheme);
    }
    for (const refused of await Promise.all(calls(proofOf(newUser())))) expectProblem(refused, 403, 'forbidden');
    const served = await Promise.all(calls(proofOf(user)));
    expect(served.map(({ status }) => status)).toEqual([200, 200, 200, 404, 404]);
  });

  test('the ticket of a place goes to its user on any device, and the status has what the ticket would show', async () => {
    const product = await operator.openCampaign(oneUnit);
    const held = String((await arrive(service.url, product).checkout()).data.reservation_id);
    const user = newUser();
    const first = await checkoutAs(url, user, product, { headers: proofOf(user) });
    const second = await checkoutAs(url, user, product, { headers: proofOf(user) });
    expect([second.status, second.data.ticket]).toEqual([202, first.data.ticket]);
    await payments.release(held);
    const byProof = await statusOf(product, user, proofOf(user));
    expect(byProof.data).toMatchObject({ status: 'promoted', reservation_id: expect.any(String) });
    // The ticket alone is enough, as it is for a page whose proof has expired.
    expect((await statusOf(product, user, withTicket(first.data.ticket))).data).toEqual(byProof.data);
    expectProblem(await statusOf(product, newUser(), withTicket(first.data.ticket)), 403, 'forbidden');
  });

  test('a place that was taken in gateway mode goes to its user, and its key to no other user', async () => {
    const { product, victim } = await openWithVictim(operator);
    const key = randomUUID();
    const stranger = await checkoutAs(service.url, victim.user, product, { key });
    expectPlaceOnly(stranger, victim);
    const replay = await checkoutAs(url, victim.user, product, { key, headers: proofOf(victim.user) });
    expect([replay.text, replay.headers.get('idempotent-replayed')]).toEqual([stranger.text, 'true']);
    const own = await checkoutAs(url, victim.user, product, { headers: proofOf(victim.user) });
    expect(own.data.ticket).toBe(victim.ticket);
    expectProblem(await checkoutAs(url, victim.user, product, { key }), 401, 'unauthorized');
  });

  test('attributes come from the proof, and those of the body are ignored', async () => {
    const audience = { attribute: 'tier', eq: 'gold' };
    const code = `GOLD${randomUUID().slice(0, 8)}`;
    const created = await operator.call('POST', '/admin/campaigns', {
      product_id: `sale-${randomUUID()}`,
      total_limit: 5,
      code,
      audience,
    });
    expect(created.status).toBe(201);
    const validate = (user: string, headers: Record<string, string>, attributes = {}) =>
      send(`${url}/coupons/validate`, { method: 'POST', headers, json: { code, user_id: user, attributes } });
    const redeem = (user: string, headers: Record<string, string>, attributes = {}) =>
      send(`${url}/coupons/redeem`, {
        method: 'POST',
        headers: { 'idempotency-key': randomUUID(), ...headers },
        json: { code, user_id: user, order_id: randomUUID(), attributes },
      });
    const gold = { tier: 'gold' };
    // A claim of a JWT, an attribute of a hand-over.
    const proven = (user: string, attributes: object) =>
      url === jwtApi.url ? proofOf(user, attributes) : proofOf(user, { attributes });
    const [ann, bob] = [newUser(), newUser()];
    for (const call of [validate, redeem]) {
      expectProblem(await call(bob, proofOf(bob), gold), 403, 'audience_mismatch');
      expectProblem(await call(bob, proven(bob, { tier: 'silver' }), gold), 403, 'audience_mismatch');
    }
    expect((await validate(ann, proven(ann, gold), { tier: 'silver' })).status).toBe(200);
    expect((await redeem(ann, proven(ann, gold))).status).toBe(201);
  });
});

describe('jwt', () => {
  test('refuses what the login service did not make for this shop, or for good', async () => {
    const { product, victim } = await openWithVictim(operator);
    const { user } = victim;
    const { exp: _, ...endless } = claims(user);
    const refused = [
      jwtOf(claims(user), { alg: 'none' }),
      jwtOf(claims(user), { secret: `${JWT_SECRET}!` }),
      jwtOf(claims(user, { aud: 'another-shop' })),
      jwtOf(claims(user, { aud: undefined })),
      jwtOf(claims(user, { iss: 'another-login' })),
      jwtOf(claims(user, { iss: undefined })),
      jwtOf(endless),
      jwtOf(claims(user, { exp: secondsFromNow(-1) })),
      jwtOf(claims(user, { exp: String(secondsFromNow(60)) })),
      jwtOf(claims(user, { nbf: secondsFromNow(60) })),
      `${jwtOf(claims(user))}=`,
      handOverFor(user)['x-shopper'],
    ];
    for (const jwt of refused) {
      expectProblem(await checkoutAs(jwtApi.url, user, product, { headers: bearer(jwt) }), 401, 'unauthorized');
    }
    const byHandOver = await checkoutAs(jwtApi.url, user, product, { headers: handOverFor(user) });
    expectProblem(byHandOver, 401, 'unauthorized');
  });
});

describe('signed', () => {
  test('refuses a hand-over that is expired, lasts too long, or was changed', async () => {
    const { product, victim } = await openWithVictim(operator);
    const { user } = victim;
    const good = handOverFor(user)['x-shopper'];
    const [prefix, id, payload, mac] = good.split('.') as [string, string, string, string];
    const other = Buffer.from(JSON.stringify({ user_id: user, expires_at: secondsFromNow(700) })).toString('base64url');
    const refused = [
      handOverOf({ user_id: user, expires_at: secondsFromNow(-1) }),
      handOverOf({ user_id: user, expires_at: secondsFromNow(86_400) }),
      handOverOf({ user_id: user }),
      handOverOf({ user_id: user, expires_at: secondsFromNow(60) }, { key: Buffer.alloc(32, 12) }),
      handOverOf({ user_id: user, expires_at: secondsFromNow(60) }, { id: 's9' }),
      handOverOf({ user_id: user, expires_at: secondsFromNow(60) }, { prefix: 'shopper-v0' }),
      `${prefix}.${id}.${other}.${mac}`,
      `${prefix}.${id}.${payload}.`,
      `${good}=`,
      `${good}A`,
      jwtOf(claims(user)),
      '',
    ];
    for (const text of refused) {
      const answer = await checkoutAs(signedApi.url, user, product, { headers: { 'x-shopper': text } });
      expectProblem(answer, 401, 'unauthorized');
    }
    expectProblem(await checkoutAs(signedApi.url, user, product, { headers: jwtFor(user) }), 401, 'unauthorized');
    expect((await checkoutAs(signedApi.url, user, product, { headers: { 'x-shopper': good } })).status).toBe(202);
  });

  test('a hand-over for one campaign is refused in every other', async () => {
    const [product, other] = [await operator.openCampaign(oneUnit), await operator.openCampaign(oneUnit)];
    const user = newUser();
    const headers = handOverFor(user, { product_id: product });
    const statusOf = (where: string) =>
      send(`${signedApi.url}/flash-sale/queue-status?product_id=${where}&user_id=${user}`, { headers });
    expectProblem(await checkoutAs(signedApi.url, user, other, { headers }), 403, 'forbidden');
    expectProblem(await statusOf(other), 403, 'forbidden');
    const code = `ELSE${randomUUID().slice(0, 8)}`;
    await operator.openCampaign({ total_limit: 1, code });
    const json = { code, user_id: user, order_id: 'o' };
    const key = { 'idempotency-key': randomUUID() };
    const calls = [
      send(`${signedApi.url}/coupons/validate`, { method: 'POST', headers, json }),
      send(`${signedApi.url}/coupons/redeem`, { method: 'POST', headers: { ...headers, ...key }, json }),
    ];
    for (const refused of await Promise.all(calls)) expectProblem(refused, 403, 'forbidden');
    expect((await checkoutAs(signedApi.url, user, product, { headers })).status).toBe(200);
    expect((await statusOf(product)).data.reservation_id).toEqual(expect.any(String));
  });
});

test('the start says how shoppers are identified', () => {
  const said = (log: readonly string[]) => log.find((text) => text.includes('shoppers are identified'));
  expect(said(service.api.log)).toContain('"identity":"gateway"');
  expect(said(jwtApi.process.log)).toContain('"identity":"jwt"');
  expect(said(signedApi.process.log)).toContain('"identity":"signed"');
});
