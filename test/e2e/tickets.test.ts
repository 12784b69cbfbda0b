import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { LIMITS } from '../../shared/config/limits.js';
import { expectProblem } from '../harness/checks.js';
import { Operator, PaymentService, send } from '../harness/clients.js';
import {
  checkoutAs,
  expectPlaceOnly,
  jwtOf,
  oneUnit,
  openWithVictim,
  PLACE_FIELDS,
  secondsFromNow,
  withTicket,
} from '../harness/identity.js';
import { sharedService } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { openSocket } from '../harness/sockets.js';
import { freshToken, signToken } from '../harness/tokens.js';

/** Which callers get the ticket of a place where users do not prove their identity, and what a ticket allows. */
const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);

const newUser = () => `user-${randomUUID()}`;
const leaveWith = (ticket: unknown) =>
  send(`${service.url}/flash-sale/queue`, { method: 'DELETE', headers: withTicket(ticket) });
const releaseWith = (ticket: unknown, reservation: unknown, more: object = {}) =>
  send(`${service.url}/flash-sale/release`, {
    method: 'POST',
    headers: withTicket(ticket),
    json: { reservation_id: reservation, ...more },
  });

describe('gateway: a checkout in the name of a user who waits already', () => {
  test('returns no ticket to another device, however it presents itself', async () => {
    const { product, victim } = await openWithVictim(operator);
    const { user } = victim;
    expectPlaceOnly(await checkoutAs(service.url, user, product), victim);
    expectPlaceOnly(
      await checkoutAs(service.url, user, product, { headers: { 'x-shopper': 'shopper-v1.s1.e30.e30' } }),
      victim,
    );
    expectPlaceOnly(
      await checkoutAs(service.url, user, product, {
        headers: { authorization: `Bearer ${jwtOf({ sub: user, exp: secondsFromNow(60) })}` },
      }),
      victim,
    );
    expectPlaceOnly(await checkoutAs(service.url, user, product, { headers: withTicket('t1.1.x.y') }), victim);
    expectPlaceOnly(await checkoutAs(service.url, user, product, { ...freshToken(`${victim.device}x`) }), victim);
    // The name of the device without a token for it.
    const named = { ...freshToken('fp-of-the-stranger'), headers: { 'x-device-fingerprint': victim.device } };
    expectPlaceOnly(await checkoutAs(service.url, user, product, named), victim);
    const forged = signToken(victim.device, secondsFromNow(20), { id: 'a1', key: Buffer.alloc(32, 1) });
    expectProblem(await checkoutAs(service.url, user, product, { ...forged }), 401, 'attestation_invalid');
    const stale = signToken(victim.device, secondsFromNow(-120));
    expectProblem(await checkoutAs(service.url, user, product, { ...stale }), 401, 'attestation_expired');
    expect((await victim.queueStatus()).data).toMatchObject({ status: 'queued', position: 1 });
  });

  test('returns no ticket to a call without a token, where the campaign needs none', async () => {
    const { product, victim } = await openWithVictim(operator, { require_attestation: false });
    expectPlaceOnly(await checkoutAs(service.url, victim.user, product, { device_fp: null }), victim);
    const named = { device_fp: victim.device, attestation: undefined };
    expectPlaceOnly(await checkoutAs(service.url, victim.user, product, named), victim);
    const header = { device_fp: null, headers: { 'x-device-fingerprint': victim.device } };
    expectPlaceOnly(await checkoutAs(service.url, victim.user, product, header), victim);
  });

  test('returns the ticket to the device that took the place, with another key', async () => {
    const { product, victim } = await openWithVictim(operator);
    const again = await checkoutAs(service.url, victim.user, product, { ...freshToken(victim.device) });
    expect([again.status, again.data.ticket]).toEqual([202, victim.ticket]);
    expect((await leaveWith(again.data.ticket)).status).toBe(200);
  });

  test('returns no ticket for a derived fingerprint, which neighbours share', async () => {
    const { product, victim } = await openWithVictim(operator);
    const derivedToken = async () => (await send(`${service.url}/flash-sale/token`)).data;
    const { device_fp: derived } = await derivedToken();
    // The fingerprint may be left out, or named as the token names it.
    for (const [i, device_fp] of [null, derived].entries()) {
      const user = newUser();
      const taken = await checkoutAs(service.url, user, product, { ...(await derivedToken()), device_fp });
      expect([taken.status, typeof taken.data.ticket]).toEqual([202, 'string']);
      for (const asked of [null, derived]) {
        const token = await derivedToken();
        expect(token.device_fp).toBe(derived);
        const answer = await checkoutAs(service.url, user, product, { ...token, device_fp: asked });
        expect([answer.status, answer.data.position, answer.data.ticket]).toEqual([202, 2 + i, undefined]);
      }
    }
    expect((await victim.queueStatus()).data.position).toBe(1);
  });

  test('is replayed to its key as it was, without a ticket', async () => {
    const { product, victim } = await openWithVictim(operator);
    const key = randomUUID();
    const first = await checkoutAs(service.url, victim.user, product, { key });
    expectPlaceOnly(first, victim);
    const replay = await checkoutAs(service.url, victim.user, product, { key, ...freshToken(victim.device) });
    expect([replay.text, replay.headers.get('idempotent-replayed')]).toEqual([first.text, 'true']);
  });

  test('returns no ticket through a code either', async () => {
    const product = await operator.openCampaign({ ...oneUnit, code: `WAIT${Date.now()}`, require_attestation: false });
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
    const strangers = [await redeem(user), await checkoutAs(service.url, user, product)];
    for (const answer of strangers) {
      expect([answer.status, answer.data.position, answer.data.ticket]).toEqual([202, 1, undefined]);
      expect(answer.text).not.toContain(String(queued.data.ticket));
    }
  });

  test('is no way to the reservation after the promotion', async () => {
    const { product, held, victim } = await openWithVictim(operator);
    const stranger = await checkoutAs(service.url, victim.user, product);
    await payments.release(held);
    const { data: own } = await victim.queueStatus(withTicket(victim.ticket));
    expect(own.status).toBe('promoted');
    const answers = [
      stranger,
      await checkoutAs(service.url, victim.user, product),
      await victim.queueStatus(),
      await send(`${service.url}/flash-sale/campaign?product_id=${product}&user_id=${victim.user}`),
    ];
    expect(answers.map(({ status }) => status)).toEqual([202, 409, 200, 200]);
    expect(Object.keys(answers[2]?.data ?? {}).sort()).toEqual(PLACE_FIELDS);
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
    const product = await operator.openCampaign(oneUnit);
    const buyer = arrive(service.url, product);
    const held = String((await buyer.checkout()).data.reservation_id);
    // A stranger comes first, takes a place in the name of the victim, and leaves it again.
    const user = newUser();
    const early = String((await checkoutAs(service.url, user, product)).data.ticket);
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
    // Users behind, with a socket in each round of the position broadcast.
    const behind = arrive(service.url, product);
    await behind.checkout();
    const turns = Array.from({ length: LIMITS.sockets.positionTurns }, () => openSocket(service.url, behind.ticket));
    const watching = await Promise.all(turns);
    await Promise.all(watching.map((one) => one.frame('welcome')));
    await payments.release(held);
    const { reservation_id: reservation, order_id: order } = await own.frame('promoted');
    expectProblem(await releaseWith(early, reservation), 403, 'forbidden');
    const status = await victim.queueStatus(withTicket(early));
    expect([status.status, status.data.status, status.data.reservation_id]).toEqual([200, 'promoted', undefined]);
    const late = await openSocket(service.url, early);
    expect((await late.frame('welcome')).reservation_id).toBeUndefined();
    // Every round has passed since the promotion, so all of its frames have been sent.
    await Promise.all(watching.map((one) => one.frame('position')));
    socket.send({ type: 'ping' });
    await socket.frame('pong');
    for (const { frames } of [socket, late]) {
      expect(JSON.stringify(frames)).not.toContain(String(reservation));
      expect(JSON.stringify(frames)).not.toContain(String(order));
    }
    expect((await releaseWith(victim.ticket, reservation)).data.status).toBe('released');
  });

  test('of a unit releases it with whatever else the client sends', async () => {
    const product = await operator.openCampaign({ total_limit: 5, hold_seconds: 900 });
    const shopper = arrive(service.url, product);
    const { data } = await shopper.checkout();
    const { ticket, reservation_id } = data;
    expectProblem(await releaseWith(ticket, undefined, { order_id: data.order_id }), 400, 'invalid_request');
    expect((await releaseWith(ticket, reservation_id, { ...data, product_id: 7 })).data.status).toBe('released');
  });

  test('of one unit has no power over another unit of the same user, and shows its own', async () => {
    const product = await operator.openCampaign({ total_limit: 5, hold_seconds: 900, per_user_limit: 2 });
    const victim = arrive(service.url, product);
    const first = (await victim.checkout()).data;
    const strangers = (await checkoutAs(service.url, victim.user, product)).data;
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
