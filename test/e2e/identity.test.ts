import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { expectProblem } from '../harness/checks.js';
import { type Answer, Operator, PaymentService, type Shopper, send } from '../harness/clients.js';
import { handOverOf, JWT_SECRET, jwtOf, SIGNING_KEY, secondsFromNow } from '../harness/identity.js';
import { startApiProcess, startService } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { openSocket } from '../harness/sockets.js';
import { freshToken, signToken } from '../harness/tokens.js';

/** Whom the server believes to be which shopper, in each mode of SHOPPER_IDENTITY, and who gets the ticket of a place. */
const service = await startService();
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

const line = { total_limit: 1, hold_seconds: 900, waiting_room: { enabled: true } };
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

type Call = { headers?: Record<string, string>; url?: string; key?: string } & Record<string, unknown>;
/** A checkout in the name of a user, from a device of its own unless another one is given. */
function checkoutAs(user: string, product: string, { headers = {}, url = service.url, key, ...fields }: Call = {}) {
  const token = 'attestation' in fields || fields.device_fp === null ? {} : freshToken(`fp-${randomUUID()}`);
  const { device_fp, ...rest } = { ...token, ...fields } as Record<string, unknown>;
  const json = { product_id: product, user_id: user, qty: 1, ...(device_fp ? { device_fp } : {}), ...rest };
  return send(`${url}/flash-sale/checkout`, {
    method: 'POST',
    headers: { 'idempotency-key': key ?? randomUUID(), ...headers },
    json,
  });
}

/** A campaign whose only unit is held, and somebody in line for it. */
async function openWithVictim(terms: object = {}): Promise<{ product: string; held: string; victim: Shopper }> {
  const product = await operator.openCampaign({ ...line, ...terms });
  const held = String((await arrive(service.url, product).checkout()).data.reservation_id);
  const victim = arrive(service.url, product);
  expect((await victim.checkout()).status).toBe(202);
  return { product, held, victim };
}

const withTicket = (ticket: unknown) => ({ 'x-ticket': String(ticket) });
const leaveWith = (ticket: unknown) =>
  send(`${service.url}/flash-sale/queue`, { method: 'DELETE', headers: withTicket(ticket) });
const releaseWith = (ticket: unknown, reservation: unknown) =>
  send(`${service.url}/flash-sale/release`, {
    method: 'POST',
    headers: withTicket(ticket),
    json: { reservation_id: reservation },
  });

/** The place is told, and nothing that gives power over it. */
function expectPlaceOnly(answer: Answer, victim: Shopper): void {
  expect([answer.status, answer.data.status, answer.data.position]).toEqual([202, 'queued', 1]);
  expect(Object.keys(answer.data).sort()).toEqual([
    'estimated_wait_seconds',
    'poll_after_seconds',
    'position',
    'queue_size',
    'status',
  ]);
  expect(answer.text).not.toContain(String(victim.ticket));
}

describe('gateway: a checkout in the name of a user who waits already', () => {
  test('returns no ticket to another device, however it presents itself', async () => {
    const { product, victim } = await openWithVictim();
    const { user } = victim;
    expectPlaceOnly(await checkoutAs(user, product), victim);
    expectPlaceOnly(await checkoutAs(user, product, { headers: { 'x-shopper': 'shopper-v1.s1.e30.e30' } }), victim);
    expectPlaceOnly(await checkoutAs(user, product, { headers: jwtFor(user) }), victim);
    expectPlaceOnly(await checkoutAs(user, product, { headers: withTicket('t1.1.x.y') }), victim);
    expectPlaceOnly(await checkoutAs(user, product, { ...freshToken(`${victim.device}x`) }), victim);
    // The name of the device without a token for it.
    const named = { ...freshToken('fp-of-the-stranger'), headers: { 'x-device-fingerprint': victim.device } };
    expectPlaceOnly(await checkoutAs(user, product, named), victim);
    const forged = signToken(victim.device, secondsFromNow(20), { id: 'a1', key: Buffer.alloc(32, 1) });
    expectProblem(await checkoutAs(user, product, { ...forged }), 401, 'attestation_invalid');
    const stale = signToken(victim.device, secondsFromNow(-120));
    expectProblem(await checkoutAs(user, product, { ...stale }), 401, 'attestation_expired');
    expect((await victim.queueStatus()).data).toMatchObject({ status: 'queued', position: 1 });
  });

  test('returns no ticket to a call without a token, where the campaign needs none', async () => {
    const { product, victim } = await openWithVictim({ require_attestation: false });
    expectPlaceOnly(await checkoutAs(victim.user, product, { device_fp: null }), victim);
    const named = { device_fp: victim.device, attestation: undefined };
    expectPlaceOnly(await checkoutAs(victim.user, product, named), victim);
    const header = { device_fp: null, headers: { 'x-device-fingerprint': victim.device } };
    expectPlaceOnly(await checkoutAs(victim.user, product, header), victim);
  });

  test('returns the ticket to the device that took the place, with another key', async () => {
    const { product, victim } = await openWithVictim();
    const again = await checkoutAs(victim.user, product, { ...freshToken(victim.device) });
    expect([again.status, again.data.ticket]).toEqual([202, victim.ticket]);
    expect((await leaveWith(again.data.ticket)).status).toBe(200);
  });

  test('returns no ticket for a derived fingerprint, which neighbours share', async () => {
    const { product, victim } = await openWithVictim();
    const user = newUser();
    const own = await send(`${service.url}/flash-sale/token`);
    const { device_fp: derived, ...token } = own.data;
    const taken = await checkoutAs(user, product, { ...token, device_fp: null });
    expect([taken.status, typeof taken.data.ticket]).toEqual([202, 'string']);
    for (const device_fp of [null, derived]) {
      const neighbour = await send(`${service.url}/flash-sale/token`);
      expect(neighbour.data.device_fp).toBe(derived);
      const answer = await checkoutAs(user, product, { ...neighbour.data, device_fp });
      expect([answer.status, answer.data.position, answer.data.ticket]).toEqual([202, 2, undefined]);
    }
    expect((await victim.queueStatus()).data.position).toBe(1);
  });

  test('is replayed to its key as it was, without a ticket', async () => {
    const { product, victim } = await openWithVictim();
    const key = randomUUID();
    const first = await checkoutAs(victim.user, product, { key });
    expectPlaceOnly(first, victim);
    const replay = await checkoutAs(victim.user, product, { key, ...freshToken(victim.device) });
    expect([replay.text, replay.headers.get('idempotent-replayed')]).toEqual([first.text, 'true']);
  });

  test('returns no ticket through a code either', async () => {
    const product = await operator.openCampaign({ ...line, code: `WAIT${Date.now()}`, require_attestation: false });
    const code = (await operator.call('GET', `/admin/campaigns/${product}`)).data.code;
    const redeem = (user: string) =>
      send(`${service.url}/coupons/redeem`, {
        method: 'POST',
        headers: { 'idempotency-key': randomUUID() },
        json: { code, user_id: user, order_id: randomUUID() },
      });
    const user = newUser();
    expect((await redeem(newUser())).status).toBe(201);
    const queued = await redeem(user);
    expect([queued.status, typeof queued.data.ticket]).toEqual([202, 'string']);
    const strangers = [await redeem(user), await checkoutAs(user, product)];
    for (const answer of strangers) {
      expect([answer.status, answer.data.position, answer.data.ticket]).toEqual([202, 1, undefined]);
      expect(answer.text).not.toContain(String(queued.data.ticket));
    }
  });

  test('is no way to the reservation after the promotion', async () => {
    const { product, held, victim } = await openWithVictim();
    const stranger = await checkoutAs(victim.user, product);
    await payments.release(held);
    const { data: own } = await victim.queueStatus(withTicket(victim.ticket));
    expect(own.status).toBe('promoted');
    const answers = [
      stranger,
      await checkoutAs(victim.user, product),
      await victim.queueStatus(),
      await send(`${service.url}/flash-sale/campaign?product_id=${product}&user_id=${victim.user}`),
    ];
    expect(answers.map(({ status }) => status)).toEqual([202, 409, 200, 200]);
    expect(Object.keys(answers[2]?.data ?? {}).sort()).toEqual([
      'estimated_wait_seconds',
      'poll_after_seconds',
      'position',
      'queue_size',
      'status',
    ]);
    for (const { text } of answers) {
      for (const secret of [own.reservation_id, own.order_id, own.pay_before, victim.ticket]) {
        expect(text).not.toContain(String(secret));
      }
    }
    expectProblem(await releaseWith('', own.reservation_id), 401, 'ticket_invalid');
  });
});

describe('a ticket', () => {
  test('of an earlier place of the same user has no power over a later one', async () => {
    const product = await operator.openCampaign(line);
    const buyer = arrive(service.url, product);
    const held = String((await buyer.checkout()).data.reservation_id);
    // A stranger comes first, takes a place in the name of the victim, and leaves it again.
    const user = newUser();
    const early = String((await checkoutAs(user, product)).data.ticket);
    expect((await leaveWith(early)).status).toBe(200);
    const victim = arrive(service.url, product, user);
    expect((await victim.checkout()).data.position).toBe(1);

    const socket = await openSocket(service.url, early);
    await socket.frame('welcome');
    expectProblem(await leaveWith(early), 409, 'not_waiting');
    socket.send({ type: 'leave' });
    expect((await socket.frame('error')).code).toBe('not_waiting');
    const own = await openSocket(service.url, victim.ticket);
    await own.frame('welcome');
    await payments.release(held);
    const { reservation_id: reservation, order_id: order } = await own.frame('promoted');
    expectProblem(await releaseWith(early, reservation), 403, 'forbidden');
    const status = await victim.queueStatus(withTicket(early));
    expect([status.status, status.data.status, status.data.reservation_id]).toEqual([200, 'promoted', undefined]);
    const late = await openSocket(service.url, early);
    expect((await late.frame('welcome')).reservation_id).toBeUndefined();
    // Everything that the promotion sent has arrived, since this came after it.
    socket.send({ type: 'ping' });
    await socket.frame('pong');
    for (const { frames } of [socket, late]) {
      expect(JSON.stringify(frames)).not.toContain(String(reservation));
      expect(JSON.stringify(frames)).not.toContain(String(order));
    }
    expect((await releaseWith(victim.ticket, reservation)).data.status).toBe('released');
  });

  test('of one unit has no power over another unit of the same user, and tells of its own', async () => {
    const product = await operator.openCampaign({ total_limit: 5, hold_seconds: 900, per_user_limit: 2 });
    const victim = arrive(service.url, product);
    const first = (await victim.checkout()).data;
    const strangers = (await checkoutAs(victim.user, product)).data;
    expect(strangers.status).toBe('completed');
    expectProblem(await releaseWith(strangers.ticket, first.reservation_id), 403, 'forbidden');
    expectProblem(await releaseWith(first.ticket, strangers.reservation_id), 403, 'forbidden');
    expect((await releaseWith(strangers.ticket, strangers.reservation_id)).status).toBe(200);
    const status = (ticket: unknown) => victim.queueStatus(withTicket(ticket));
    expect((await status(first.ticket)).data).toMatchObject({
      status: 'completed',
      reservation_id: first.reservation_id,
      order_id: first.order_id,
    });
    expect((await status(strangers.ticket)).data).toMatchObject({ status: 'released' });
    expect((await victim.queueStatus()).data.status).toBe('released');
  });
});

/** The two modes in which a shopper proves who they are. */
const modes = [
  { mode: 'jwt', url: jwtApi.url, proofOf: jwtFor, scheme: /^Bearer\b/ },
  { mode: 'signed', url: signedApi.url, proofOf: handOverFor, scheme: /^Shopper\b/ },
];

describe.each(modes)('$mode', ({ url, proofOf, scheme }) => {
  const statusOf = (product: string, user: string, headers: Record<string, string> = {}) =>
    send(`${url}/flash-sale/queue-status?product_id=${product}&user_id=${user}`, { headers });

  test('a user is served with their own proof, and nobody with none or that of another user', async () => {
    const product = await operator.openCampaign({ total_limit: 5, hold_seconds: 900 });
    const user = newUser();
    const calls = (headers: Record<string, string>) => [
      checkoutAs(user, product, { url, headers }),
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
    const product = await operator.openCampaign(line);
    const held = String((await arrive(service.url, product).checkout()).data.reservation_id);
    const user = newUser();
    const first = await checkoutAs(user, product, { url, headers: proofOf(user) });
    const second = await checkoutAs(user, product, { url, headers: proofOf(user) });
    expect([second.status, second.data.ticket]).toEqual([202, first.data.ticket]);
    await payments.release(held);
    const byProof = await statusOf(product, user, proofOf(user));
    expect(byProof.data).toMatchObject({ status: 'promoted', reservation_id: expect.any(String) });
    // The ticket alone is enough, as it is for a page whose proof has expired.
    expect((await statusOf(product, user, withTicket(first.data.ticket))).data).toEqual(byProof.data);
    expectProblem(await statusOf(product, newUser(), withTicket(first.data.ticket)), 403, 'forbidden');
  });

  test('a place that was taken in gateway mode is given to its user, and its key to nobody else', async () => {
    const { product, victim } = await openWithVictim();
    const key = randomUUID();
    const stranger = await checkoutAs(victim.user, product, { key });
    expectPlaceOnly(stranger, victim);
    const replay = await checkoutAs(victim.user, product, { url, key, headers: proofOf(victim.user) });
    expect([replay.text, replay.headers.get('idempotent-replayed')]).toEqual([stranger.text, 'true']);
    const own = await checkoutAs(victim.user, product, { url, headers: proofOf(victim.user) });
    expect(own.data.ticket).toBe(victim.ticket);
    expectProblem(await checkoutAs(victim.user, product, { url, key }), 401, 'unauthorized');
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
    const { product, victim } = await openWithVictim();
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
      expectProblem(await checkoutAs(user, product, { url: jwtApi.url, headers: bearer(jwt) }), 401, 'unauthorized');
    }
    const byHandOver = { url: jwtApi.url, headers: handOverFor(user) };
    expectProblem(await checkoutAs(user, product, byHandOver), 401, 'unauthorized');
  });
});

describe('signed', () => {
  test('refuses a hand-over that is expired, lasts too long, or was changed', async () => {
    const { product, victim } = await openWithVictim();
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
      const answer = await checkoutAs(user, product, { url: signedApi.url, headers: { 'x-shopper': text } });
      expectProblem(answer, 401, 'unauthorized');
    }
    expectProblem(await checkoutAs(user, product, { url: signedApi.url, headers: jwtFor(user) }), 401, 'unauthorized');
    expect((await checkoutAs(user, product, { url: signedApi.url, headers: { 'x-shopper': good } })).status).toBe(202);
  });

  test('a hand-over for one campaign is refused in every other', async () => {
    const [product, other] = [await operator.openCampaign(line), await operator.openCampaign(line)];
    const user = newUser();
    const headers = handOverFor(user, { product_id: product });
    const statusOf = (where: string) =>
      send(`${signedApi.url}/flash-sale/queue-status?product_id=${where}&user_id=${user}`, { headers });
    expectProblem(await checkoutAs(user, other, { url: signedApi.url, headers }), 403, 'forbidden');
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
    expect((await checkoutAs(user, product, { url: signedApi.url, headers })).status).toBe(200);
    expect((await statusOf(product)).data.reservation_id).toEqual(expect.any(String));
  });
});

test('the start says how shoppers are identified', () => {
  const said = (log: readonly string[]) => log.find((text) => text.includes('shoppers are identified'));
  expect(said(service.api.log)).toContain('"identity":"gateway"');
  expect(said(jwtApi.process.log)).toContain('"identity":"jwt"');
  expect(said(signedApi.process.log)).toContain('"identity":"signed"');
});
