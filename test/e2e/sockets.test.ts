import { once } from 'node:events';
import { describe, expect, test } from '@jest/globals';
import { WebSocket } from 'ws';
import { expireNow } from '../harness/campaign.js';
import { withoutAdvice } from '../harness/checks.js';
import { Operator, PaymentService, type Shopper } from '../harness/clients.js';
import { sharedService, startApiProcess } from '../harness/service.js';
import { arrive, checkoutInTurn, gatherShoppers, joinLine, range } from '../harness/shoppers.js';
import { type Frame, openSocket, ShopperSocket } from '../harness/sockets.js';
import { until } from '../harness/until.js';

const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
// Opened here, so that the other tests run while it waits for its five seconds.
const silentSince = performance.now();
const silent = await openSocket(service.url, null);
const silentClosed = silent.closed().then((code) => ({ code, seconds: (performance.now() - silentSince) / 1000 }));

const open = (shopper: Shopper) => openSocket(service.url, shopper.ticket);
const payload = ({ type: _, seq: __, time: ___, ...rest }: Frame) => rest;

/** A campaign of one unit that is held, and people waiting for it, each with a socket that was welcomed. */
async function openWithSockets(count: number, terms: Record<string, unknown> = {}) {
  const product = await operator.openCampaign({
    total_limit: 1,
    hold_seconds: 900,
    waiting_room: { enabled: true },
    ...terms,
  });
  const buyer = arrive(service.url, product);
  const bought = (await buyer.checkout()).data;
  const line = gatherShoppers(service.url, product, count);
  await checkoutInTurn(line);
  const sockets = await Promise.all(line.map(open));
  await Promise.all(sockets.map((socket) => socket.frame('welcome')));
  return { product, buyer, bought, held: String(bought.reservation_id), line, sockets };
}

describe('a subscription', () => {
  test('by query and by message is welcomed with the fields of queue-status', async () => {
    const { line } = await openWithSockets(2);
    const [, second] = line as [Shopper, Shopper];
    const status = await second.queueStatus({ 'x-ticket': String(second.ticket) });
    const byQuery = await open(second);
    const byMessage = await openSocket(service.url, null);
    byMessage.send({ type: 'subscribe', ticket: second.ticket });
    for (const socket of [byQuery, byMessage]) {
      const welcome = await socket.frame('welcome');
      expect(payload(welcome)).toEqual(status.data);
      expect(withoutAdvice(payload(welcome))).toEqual({
        status: 'queued',
        position: 2,
        queue_size: 2,
        reservation_id: null,
        order_id: null,
        pay_before: null,
      });
      expect(socket.frames[0]).toBe(welcome);
      expect(welcome.seq).toBe(1);
    }
  });

  test('of a buyer is welcomed with the unit that they hold', async () => {
    const { buyer, bought } = await openWithSockets(0);
    const { reservation_id, order_id, pay_before } = bought;
    expect(await (await open(buyer)).frame('welcome')).toMatchObject({
      status: 'completed',
      position: null,
      reservation_id,
      order_id,
      pay_before,
    });
  });

  test('happens once: a second one is refused and the first goes on', async () => {
    const { line, sockets } = await openWithSockets(2);
    const [socket] = sockets as [ShopperSocket];
    socket.send({ type: 'subscribe', ticket: line[1]?.ticket });
    expect((await socket.frame('error')).code).toMatch(/^[a-z_]+$/);
    expect(socket.ofType('welcome')).toHaveLength(1);
    expect(socket.closeCode).toBeNull();
  });

  test('with a bad ticket is closed with 4401, by query and by message', async () => {
    const { line } = await openWithSockets(1);
    const genuine = String(line[0]?.ticket);
    const bad = [
      '',
      'nonsense',
      '....',
      `${genuine}x`,
      genuine.replace(/\.[^.]+$/, `.${'A'.repeat(22)}`),
      'x'.repeat(1_000),
    ];
    for (const ticket of bad) {
      expect([ticket, await (await openSocket(service.url, ticket)).closed()]).toEqual([ticket, 4401]);
      const socket = await openSocket(service.url, null);
      socket.send({ type: 'subscribe', ticket });
      expect([ticket, await socket.closed()]).toEqual([ticket, 4401]);
      expect(socket.frames.filter(({ type }) => type === 'welcome')).toEqual([]);
    }
  });
});

describe('frames', () => {
  test('have a type, a seq that counts from 1, and an RFC 3339 time', async () => {
    const { held, sockets } = await openWithSockets(1);
    const [socket] = sockets as [ShopperSocket];
    for (const _ of range(1, 5)) socket.send({ type: 'ping' });
    await until('all pongs are there', () => socket.ofType('pong').length === 5);
    await payments.release(held);
    await socket.frame('promoted');
    expect(socket.frames.map(({ type }) => type)).toEqual(['welcome', ...Array(5).fill('pong'), 'promoted']);
    expect(socket.frames.map(({ seq }) => seq)).toEqual(range(1, 7));
    for (const { time } of socket.frames) expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/);
  });

  test('of position come while places change, at most once a second', async () => {
    const { line, sockets } = await openWithSockets(1);
    const ahead = line[0] as Shopper;
    const crowd = await joinLine(gatherShoppers(service.url, ahead.product, 250));
    const last = crowd[249] as Shopper;
    const socket = await open(last);
    await socket.frame('welcome');
    const began = performance.now();
    let left = 0;
    await until('three positions were sent', async () => {
      // Several leave within a second, and not all of them before the third position.
      if (performance.now() >= began + left * 80) {
        await crowd.shift()?.leave();
        left += 1;
      }
      return socket.ofType('position').length >= 3;
    });
    // By this clock, since the times in the frames are estimates that a busy process corrects.
    const seconds = (performance.now() - began) / 1000;
    expect(socket.ofType('position').length).toBeLessThanOrEqual(1 + seconds / 0.95);
    await until('the last position sent is the current one', async () => {
      const { position, queue_size } = (await last.queueStatus()).data;
      const told = socket.ofType('position').at(-1);
      return told?.position === position && told?.queue_size === queue_size;
    });
    // Nothing of it concerns the one at the head but the length of the line.
    expect(new Set((sockets[0] as ShopperSocket).ofType('position').map(({ position }) => position))).toEqual(
      new Set([1]),
    );
  });

  test('send the promotion to the promoted user, and to no other', async () => {
    const { held, line, sockets } = await openWithSockets(2);
    const [first, second] = sockets as [ShopperSocket, ShopperSocket];
    await payments.release(held);
    const promoted = await first.frame('promoted');
    const { data } = await (line[0] as Shopper).queueStatus({ 'x-ticket': String(line[0]?.ticket) });
    expect(payload(promoted)).toEqual({
      reservation_id: data.reservation_id,
      order_id: data.order_id,
      pay_before: data.pay_before,
    });
    await until('the second one moved up', () => second.ofType('position').at(-1)?.position === 1);
    expect(second.ofType('promoted')).toEqual([]);
  });

  test('notify the holder that the unit is redeemed, released or expired', async () => {
    const product = await operator.openCampaign({ total_limit: 3, hold_seconds: 900 });
    const shoppers = gatherShoppers(service.url, product, 3) as [Shopper, Shopper, Shopper];
    const [paying, leaving, forgetting] = shoppers;
    const [paid, left, forgotten] = await checkoutInTurn(shoppers);
    const [payer, leaver, forgetter] = await Promise.all([paying, leaving, forgetting].map(open));
    await Promise.all([payer, leaver, forgetter].map((socket) => socket?.frame('welcome')));
    await payments.confirm(String(paid?.data.reservation_id));
    await payments.release(String(left?.data.reservation_id));
    await expireNow(service.redis.client, product, String(forgotten?.data.reservation_id));
    for (const [socket, type, answer] of [
      [payer, 'redeemed', paid],
      [leaver, 'released', left],
      [forgetter, 'expired', forgotten],
    ] as const) {
      const frame = await (socket as ShopperSocket).frame(type);
      expect(frame).toMatchObject({ reservation_id: answer?.data.reservation_id, order_id: answer?.data.order_id });
      expect(socket?.frames.map((each) => each.type)).toEqual(['welcome', type]);
    }
  });

  test('notify waiting users, and only them, that the campaign is closed', async () => {
    const { product, buyer, line, sockets } = await openWithSockets(2);
    const holder = await open(buyer);
    await holder.frame('welcome');
    await operator.call('POST', `/admin/campaigns/${product}/close`);
    await Promise.all(sockets.map((socket) => socket.frame('closed')));
    expect((await (line[0] as Shopper).queueStatus()).data.status).toBe('closed');
    expect(holder.ofType('closed')).toEqual([]);
    expect(await (await open(line[1] as Shopper)).frame('welcome')).toMatchObject({ status: 'closed' });
  });

  test('notify waiting users, and only them, that the sale is paused and continues', async () => {
    const { product, buyer, sockets } = await openWithSockets(2);
    const holder = await open(buyer);
    await holder.frame('welcome');
    await operator.call('POST', `/admin/campaigns/${product}/pause`);
    await Promise.all(sockets.map((socket) => socket.frame('paused')));
    expect(sockets.flatMap((socket) => socket.ofType('resumed'))).toEqual([]);
    await operator.call('POST', `/admin/campaigns/${product}/resume`);
    await Promise.all(sockets.map((socket) => socket.frame('resumed')));
    expect([...holder.ofType('paused'), ...holder.ofType('resumed')]).toEqual([]);
  });

  test('come as heartbeats to a client that asked for them, and to no other', async () => {
    const { line, sockets } = await openWithSockets(1);
    const [shopper] = line as [Shopper];
    const asked = await openSocket(service.url, null);
    asked.send({ type: 'subscribe', ticket: shopper.ticket, heartbeat: true });
    const heartbeat = await asked.frame('heartbeat');
    expect(payload(heartbeat)).toEqual({});
    expect(asked.frames.map(({ type }) => type)[0]).toBe('welcome');
    expect(sockets[0]?.ofType('heartbeat')).toEqual([]);
  });

  test('reach every socket of a user, whichever API process holds it', async () => {
    const { held, line, sockets } = await openWithSockets(1);
    const [shopper] = line as [Shopper];
    const other = await startApiProcess(service.env);
    const all = [...sockets, await open(shopper), await openSocket(other.url, shopper.ticket)];
    await Promise.all(all.map((socket) => socket.frame('welcome')));
    await all[1]?.hangUp();
    await payments.release(held);
    const [first, elsewhere] = await Promise.all(
      [all[0], all[2]].map((socket) => (socket as ShopperSocket).frame('promoted')),
    );
    expect(payload(first as Frame)).toEqual(payload(elsewhere as Frame));
    expect(all[1]?.ofType('promoted')).toEqual([]);

    // A process that stops sends its people elsewhere.
    await other.process.stop();
    const reconnect = await (all[2] as ShopperSocket).frame('reconnect');
    expect(Number.isInteger(reconnect.after_ms) && Number(reconnect.after_ms) >= 0).toBe(true);
    expect(await all[2]?.closed()).toBe(1001);
    expect(all[0]?.closeCode).toBeNull();
  });
});

describe('a client that', () => {
  test('leaves by message loses its place', async () => {
    const { line, sockets } = await openWithSockets(2);
    const [first, second] = sockets as [ShopperSocket, ShopperSocket];
    first.send({ type: 'leave' });
    await until('the other one moved up', () => second.ofType('position').at(-1)?.position === 1);
    expect((await (line[0] as Shopper).queueStatus()).data.status).toBe('left');
    first.send({ type: 'ping' });
    await first.frame('pong');
    expect(first.ofType('error')).toEqual([]);
  });

  test('sends an invalid frame gets an error and stays connected', async () => {
    const { sockets } = await openWithSockets(1);
    const [socket] = sockets as [ShopperSocket];
    const nonsense = [
      '',
      'hello',
      '{',
      'null',
      '[]',
      '42',
      '"ping"',
      '{}',
      '{"type":null}',
      '{"type":"unknown"}',
      '{"type":"__proto__"}',
      '{"type":["ping"]}',
      '{"type":"subscribe"}',
      '{"type":"subscribe","ticket":5}',
      '\u0000',
      '{"type":"ping"}}',
      '1e400',
    ];
    for (const text of nonsense) socket.send(text);
    await until('each was answered', () => socket.ofType('error').length === nonsense.length);
    for (const { code } of socket.ofType('error')) expect(code).toMatch(/^[a-z_]+$/);
    socket.send({ type: 'ping' });
    await socket.frame('pong');
  });

  test('sends too many frames is closed with 4429', async () => {
    const { sockets } = await openWithSockets(1);
    const [socket] = sockets as [ShopperSocket];
    for (const _ of range(1, 200)) socket.send({ type: 'ping' });
    expect(await socket.closed()).toBe(4429);
    expect(socket.ofType('pong').length).toBeLessThan(200);
  });

  test('sends a frame that is too big is closed with 1009', async () => {
    const { sockets } = await openWithSockets(1);
    const [socket] = sockets as [ShopperSocket];
    socket.send({ type: 'ping', padding: 'x'.repeat(16 * 1024) });
    expect(await socket.closed()).toBe(1009);
  });

  test('sends a binary frame is closed with 1008', async () => {
    const { sockets } = await openWithSockets(1);
    const [socket] = sockets as [ShopperSocket];
    socket.send(Buffer.from('{"type":"ping"}'));
    expect(await socket.closed()).toBe(1008);
  });

  test('sends no ticket for five seconds is closed with 4408', async () => {
    const { code, seconds } = await silentClosed;
    expect(code).toBe(4408);
    expect(seconds).toBeGreaterThan(4.9);
    expect(silent.frames).toEqual([]);
  });
});

test('a ticket has a few sockets: the oldest goes when one more comes', async () => {
  const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900, waiting_room: { enabled: true } });
  await arrive(service.url, product).checkout();
  const { ticket } = (await arrive(service.url, product).checkout()).data;
  const sockets: ShopperSocket[] = [];
  for (let i = 0; i < 12; i += 1) {
    const socket = new ShopperSocket(service.url, String(ticket));
    sockets.push(socket);
    await socket.frame('welcome');
  }
  expect(await Promise.all(sockets.slice(0, 2).map((socket) => socket.closed()))).toEqual([4429, 4429]);
  expect(sockets.slice(2).map(({ closeCode }) => closeCode)).toEqual(Array(10).fill(null));
  // The remaining sockets still get frames.
  await operator.call('POST', `/admin/campaigns/${product}/close`);
  await Promise.all(sockets.slice(2).map((socket) => socket.frame('closed')));
});

test('a ticket of a place that ended closes no socket of the next place, and learns nothing about it', async () => {
  const { line } = await openWithSockets(2);
  const [shopper] = line as [Shopper];
  const { ticket: ended } = shopper;
  await shopper.leave();
  const { ticket } = (await shopper.checkout()).data;
  expect(ticket).not.toBe(ended);
  const present = await openSocket(service.url, String(ticket));
  expect(await present.frame('welcome')).toMatchObject({ status: 'queued', position: 2 });
  for (let i = 0; i < 12; i += 1) {
    const welcome = await (await openSocket(service.url, String(ended))).frame('welcome');
    expect(welcome).toMatchObject({ status: 'left', position: null });
  }
  expect(present.closeCode).toBeNull();
  expect((await shopper.queueStatus({ 'x-ticket': String(ended) })).data).toMatchObject({ status: 'left' });
  expect((await shopper.queueStatus({ 'x-ticket': String(ticket) })).data).toMatchObject({ status: 'queued' });
});

test('control frames count like others, and a socket that floods them is cut off', async () => {
  for (const flood of ['ping', 'pong'] as const) {
    const socket = new WebSocket(`${service.url.replace('http', 'ws')}/flash-sale/ws`, { autoPong: false });
    const closed = once(socket, 'close');
    socket.on('error', () => {
      // Reset while it still sends.
    });
    await once(socket, 'open');
    for (let i = 0; i < 200; i += 1) socket[flood]();
    expect([flood, (await closed)[0]]).toEqual([flood, 4429]);
  }
});
