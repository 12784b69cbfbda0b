import { expect, test } from '@jest/globals';
import { missUser } from '../harness/campaign.js';
import { expectProblem } from '../harness/checks.js';
import { Operator, PaymentService, type Shopper } from '../harness/clients.js';
import { sharedService } from '../harness/service.js';
import { arrive, checkoutInTurn, gatherShoppers } from '../harness/shoppers.js';
import { openSocket } from '../harness/sockets.js';
import { until } from '../harness/until.js';

/** Maintenance of the line: absent users, estimates, and its end. */
const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);

async function openWithLine(people: number, terms: Record<string, unknown>) {
  const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900, ...terms });
  const buyer = arrive(service.url, product);
  const held = String((await buyer.checkout()).data.reservation_id);
  const line = gatherShoppers(service.url, product, people);
  await checkoutInTurn(line);
  return { product, buyer, held, line };
}
const present = { waiting_room: { enabled: true, presence_seconds: 3 } };
const statusOf = async (shopper: Shopper) => (await shopper.queueStatus()).data.status;
/** Polls with the ticket, which shows that the user is there. */
const poll = (shopper: Shopper) => shopper.queueStatus({ 'x-ticket': String(shopper.ticket) });

test('a user who neither polls nor keeps a socket is passed over, and gets the place again with the next poll', async () => {
  const { product, held, line } = await openWithLine(3, { waiting_room: { enabled: true, presence_seconds: 60 } });
  const [gone, asking, connected] = line as [Shopper, Shopper, Shopper];
  const socket = await openSocket(service.url, connected.ticket);
  await socket.frame('welcome');
  // Polls keep the user present; their position does not count the absent one.
  await missUser(service.redis.client, product, gone.user);
  await until('the one ahead is missed', async () => (await poll(asking)).data.position === 1);
  await until('the socket gets it', () => socket.ofType('position').at(-1)?.position === 2);
  expect((await asking.queueStatus()).data).toMatchObject({ queue_size: 3 });
  await payments.release(held);
  expect(await statusOf(asking)).toBe('promoted');

  // Polls without the ticket, which anyone can send, do not count.
  for (let i = 0; i < 3; i += 1) await gone.queueStatus();
  await until('the socket has its position', () => socket.ofType('position').at(-1)?.position === 1);
  expect((await poll(gone)).data).toMatchObject({ status: 'queued', position: 1 });
  await until('the socket gets the old position again', () => socket.ofType('position').at(-1)?.position === 2);
  const owned = await poll(asking);
  await payments.release(String(owned.data.reservation_id));
  expect(await statusOf(gone)).toBe('promoted');
  expect(await statusOf(connected)).toBe('queued');
});

test('a socket that stays open without pongs does not count as present, like a laptop with a closed lid', async () => {
  const { held, line } = await openWithLine(2, present);
  const [asleep, awake] = line as [Shopper, Shopper];
  const [silent, socket] = [
    await openSocket(service.url, asleep.ticket, { silent: true }),
    await openSocket(service.url, awake.ticket),
  ];
  await silent.frame('welcome');
  // Often enough to be present.
  expect((await awake.queueStatus()).data.poll_after_seconds).toBe(1);
  await until('the user is absent', () => socket.ofType('position').at(-1)?.position === 1);
  expect(silent.closeCode).toBeNull();
  await payments.release(held);
  await socket.frame('promoted');
  expect(silent.ofType('promoted')).toEqual([]);
});

test('a line without presence keeps every user in place', async () => {
  const { held, line } = await openWithLine(2, { waiting_room: { enabled: true } });
  await payments.release(held);
  expect(await statusOf(line[0] as Shopper)).toBe('promoted');
});

test('the estimate follows the pace of the line, also on a socket', async () => {
  const { held, line } = await openWithLine(12, { waiting_room: { enabled: true } });
  const last = line.at(-1) as Shopper;
  const socket = await openSocket(service.url, last.ticket);
  expect((await socket.frame('welcome')).estimated_wait_seconds).toBeNull();
  let next = held;
  for (const shopper of line.slice(0, 4)) {
    await payments.release(next);
    next = String((await shopper.queueStatus({ 'x-ticket': String(shopper.ticket) })).data.reservation_id);
  }
  const told = await until('a place comes with an estimate', () =>
    socket.ofType('position').find((frame) => frame.position === 8 && frame.estimated_wait_seconds !== null),
  );
  expect(Number(told.estimated_wait_seconds) % 5).toBe(0);
  expect((await last.queueStatus()).data.estimated_wait_seconds).toEqual(expect.any(Number));
  const newcomer = arrive(service.url, last.product);
  const [first, again] = [
    await newcomer.checkoutWithHeader('one-and-the-same'),
    await newcomer.checkoutWithHeader('one-and-the-same'),
  ];
  expect(first.data).toMatchObject({ status: 'queued', estimated_wait_seconds: expect.any(Number) });
  expect([again.status, again.text]).toEqual([202, first.text]);
});

test('when all units are sold, waiting users get closed and new ones sold_out', async () => {
  const { product, held, line } = await openWithLine(3, { waiting_room: { enabled: true } });
  const sockets = await Promise.all(line.map((shopper) => openSocket(service.url, shopper.ticket)));
  await Promise.all(sockets.map((socket) => socket.frame('welcome')));
  expect((await payments.confirm(held)).status).toBe(200);
  await Promise.all(sockets.map((socket) => socket.frame('closed')));
  for (const shopper of line) expect(await statusOf(shopper)).toBe('closed');
  expect(await operator.stats(product)).toMatchObject({ free: 0, redeemed: 1, waiting: 0 });
  expectProblem(await arrive(service.url, product).checkout(), 410, 'sold_out');

  // The campaign is open all the same: more units are more units.
  await operator.call('POST', `/admin/campaigns/${product}/stock`, { delta: 1 });
  expect((await (line[1] as Shopper).checkout()).status).toBe(200);
  await until('Postgres has closed their tickets', async () => {
    const { rows } = await service.database.client.query(
      'select t.status from waiting_tickets t join campaigns using (campaign_id) where product_id = $1',
      [product],
    );
    return rows.length === 3 && rows.every(({ status }) => status === 'closed');
  });
});

test('a group that can never be served is notified, and the users behind it are served', async () => {
  const { held, line } = await openWithLine(0, { total_limit: 2, max_qty: 2, waiting_room: { enabled: true } });
  expect(line).toEqual([]);
  const product = await operator.openCampaign({
    total_limit: 2,
    max_qty: 2,
    hold_seconds: 900,
    waiting_room: { enabled: true },
  });
  const [first, second] = gatherShoppers(service.url, product, 2) as [Shopper, Shopper];
  const reservations = [
    (await first.checkout()).data.reservation_id,
    (await second.checkout()).data.reservation_id,
  ].map(String);
  const [pair, single] = gatherShoppers(service.url, product, 2) as [Shopper, Shopper];
  expect((await pair.checkout({ qty: 2 })).status).toBe(202);
  expect((await single.checkout()).status).toBe(202);
  const socket = await openSocket(service.url, pair.ticket);
  await socket.frame('welcome');
  await payments.confirm(String(reservations[0]));
  await socket.frame('closed');
  await payments.release(String(reservations[1]));
  expect(await statusOf(single)).toBe('promoted');
  await payments.release(held);
});
