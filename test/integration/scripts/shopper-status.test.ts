import { afterEach, expect, test } from '@jest/globals';
import type { UserId } from '../../../shared/domain/ids.js';
import { ContractError, EngineUnavailable } from '../../../shared/errors/faults.js';
import { keys } from '../../../shared/redis/keys.js';
import { standingOfPresent } from '../../../shared/sale/standing-of-present.js';
import { MAX_STANDINGS } from '../../../shared/sale/standings.js';
import type { TestCampaign } from '../../harness/campaign.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
afterEach(() => sale.expectConsistent());

const statusOf = async (campaign: TestCampaign, user: string) => {
  const outcome = await campaign.standing(user);
  return outcome.kind === 'standing' ? outcome.status : outcome.kind;
};

test('shopper_status distinguishes unknown, waiting and departed users', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 0 });
  await campaign.join('ann');
  await campaign.join('bob');
  await campaign.join('cid');
  await campaign.leave('ann');
  const holdsNothing = {
    kind: 'standing',
    queueSize: 2,
    reservationId: '',
    orderId: '',
    dueMs: 0,
    code: null,
    qty: 0,
    paceMs: null,
    presenceMs: 0,
    durable: false,
  };
  expect(await campaign.standing('nobody')).toEqual({ ...holdsNothing, status: 'not_queued', position: 0 });
  expect(await campaign.standing('ann')).toEqual({ ...holdsNothing, status: 'left', position: 0 });
  expect(await campaign.standing('bob')).toEqual({ ...holdsNothing, status: 'queued', position: 1 });
  expect(await campaign.standing('cid')).toEqual({ ...holdsNothing, status: 'queued', position: 2 });
});

test('shopper_status returns a holder’s reservation, and whether it came from the line', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 2, perUserLimit: 2 });
  const reservation = await campaign.take('ann', { order: 'cart-1' });
  const held = await campaign.reservation(reservation);
  expect(await campaign.standing('ann')).toEqual({
    kind: 'standing',
    status: 'completed',
    position: 0,
    queueSize: 0,
    reservationId: reservation,
    orderId: 'cart-1',
    dueMs: held?.dueMs,
    code: null,
    qty: 1,
    paceMs: null,
    presenceMs: 0,
    durable: false,
  });
  const second = await campaign.take('cid');
  await campaign.join('bob');
  await campaign.release(second);
  expect(await campaign.standing('bob')).toMatchObject({
    status: 'promoted',
    reservationId: (await campaign.person('bob'))?.reservation,
  });
});

test('shopper_status follows a reservation to its end', async () => {
  const campaign = await sale.openCampaign({ perUserLimit: 9, latePayment: 'reacquire' });
  expect(await statusOf(campaign, 'ann')).toBe('not_queued');
  const released = await campaign.take('ann');
  await campaign.release(released);
  expect(await statusOf(campaign, 'ann')).toBe('released');
  await campaign.confirm(released);
  expect(await statusOf(campaign, 'ann')).toBe('redeemed');
  const overdue = await campaign.take('ann');
  await campaign.letDeadlinePass(overdue);
  expect(await statusOf(campaign, 'ann')).toBe('expired');
  await campaign.expire();
  expect(await statusOf(campaign, 'ann')).toBe('expired');
  const refunded = await campaign.take('ann');
  await campaign.confirm(refunded);
  expect(await statusOf(campaign, 'ann')).toBe('redeemed');
  await campaign.refund(refunded);
  expect(await statusOf(campaign, 'ann')).toBe('released');
  const burned = await campaign.take('ann');
  await campaign.amend({ refundPolicy: 'burn' });
  await campaign.confirm(burned);
  await campaign.refund(burned);
  expect(await statusOf(campaign, 'ann')).toBe('released');
  await campaign.void(await campaign.take('ann'), 'returns');
  expect(await statusOf(campaign, 'ann')).toBe('released');
});

test('shopper_status returns closed to users whose line is gone or whose sale is over', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 0 });
  await campaign.join('ann');
  await campaign.set({ ends_at: (await sale.nowMs()) - 1 });
  expect(await statusOf(campaign, 'ann')).toBe('closed');
  await campaign.set({ ends_at: 0 });
  await campaign.setStatus('pause');
  expect(await statusOf(campaign, 'ann')).toBe('queued');
  await campaign.setStatus('close');
  expect(await statusOf(campaign, 'ann')).toBe('closed');
});

test('shopper_status returns the requested unit, and no other user’s', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 3, perUserLimit: 2 });
  const [first, second, bobs] = [await campaign.take('ann'), await campaign.take('ann'), await campaign.take('bob')];
  await campaign.confirm(first);
  const idOf = async (place: string | null) => {
    const standing = await campaign.standing('ann', place);
    return standing.kind === 'standing' ? [standing.status, standing.reservationId] : standing.kind;
  };
  expect(await idOf(first)).toEqual(['redeemed', first]);
  expect(await idOf(second)).toEqual(['completed', second]);
  for (const place of [null, bobs, 'no-such-unit']) expect(await idOf(place)).toEqual(['completed', second]);
  // A unit is returned also while its user waits for another one, or has left.
  await campaign.release(second);
  await campaign.take('cid');
  await campaign.join('ann');
  expect(await idOf(first)).toEqual(['redeemed', first]);
  expect(await idOf(null)).toEqual(['queued', '']);
  // A place that is not the present one has ended.
  expect(await idOf('no-such-place')).toEqual(['left', '']);
  await campaign.leave('ann');
  expect(await idOf(first)).toEqual(['redeemed', first]);
});

test('shopper_status writes nothing', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1 });
  await campaign.letDeadlinePass(await campaign.take('ann'));
  await campaign.join('bob');
  const [before, last] = [await campaign.inRedis(), await sale.journal.lastId()];
  for (const user of ['ann', 'bob', 'nobody']) await campaign.standing(user);
  expect([await campaign.inRedis(), await sale.journal.lastId()]).toEqual([before, last]);
});

test('shopper_status finds neither a product without a campaign nor a draft', async () => {
  expect(await sale.unknownCampaign().standing('ann')).toEqual({ kind: 'not_found' });
  expect(await (await sale.openCampaign({ status: 'draft' })).standing('ann')).toEqual({ kind: 'not_found' });
  await sale.withoutEpoch(() => expect(sale.unknownCampaign().standing('ann')).rejects.toThrow(EngineUnavailable));
});

test('shopper_status without a recall returns the status of an unknown user for an archived campaign', async () => {
  const terms = { waitingRoom: { enabled: true, maxSize: 9, presenceSeconds: 60 } };
  const [campaign, closed] = [await sale.openCampaign(terms), await sale.openCampaign(terms)];
  await campaign.pretendArchived();
  await closed.setStatus('close');
  expect(await campaign.standing('ann')).toEqual(await closed.standing('ann'));
});

/** Scripts that this Redis has run. */
const scriptCalls = async () =>
  Number(/cmdstat_evalsha:calls=(\d+)/.exec(await sale.redis.info('commandstats'))?.[1] ?? 0);

test('shopper_status reads many at once, each with its own outcome', async () => {
  const campaign = await sale.openCampaign({
    totalLimit: 1,
    waitingRoom: { enabled: true, maxSize: 999, presenceSeconds: null },
  });
  const unit = await campaign.take('holder');
  const line = Array.from({ length: 150 }, (_, i) => `u${i}`);
  for (const user of line) await campaign.join(user);
  await campaign.leave('u7');
  const record = String(await sale.redis.hget(keys.people(campaign.product), 'u9'));
  await sale.redis.hset(keys.people(campaign.product), 'u9', 'nonsense');
  const asked = ['holder', ...line, 'nobody', 'holder'];
  const ask = (user: string) => campaign.standing(user, user === 'holder' ? unit : null);
  const before = await scriptCalls();
  const together = await Promise.allSettled(asked.map(ask));
  expect((await scriptCalls()) - before).toBe(Math.ceil(asked.length / MAX_STANDINGS));
  const alone: unknown[] = [];
  for (const user of asked) alone.push(...(await Promise.allSettled([ask(user)])));
  expect(together).toEqual(alone);
  const told = together.map((one) => (one.status === 'fulfilled' ? one.value : one.reason));
  expect(told[0]).toMatchObject({ status: 'completed', reservationId: unit });
  expect(told.slice(6, 12)).toMatchObject([
    { status: 'queued', position: 6 },
    { status: 'queued', position: 7 },
    { status: 'left', position: 0 },
    { status: 'queued', position: 8 },
    expect.any(ContractError),
    { status: 'queued', position: 10 },
  ]);
  expect(String(told[10])).toContain('a person record is malformed');
  await sale.redis.hset(keys.people(campaign.product), 'u9', record);
});

test('shopper_status records users who poll together as present with one call, and returns an absent one to their place', async () => {
  const presence = { enabled: true, maxSize: 9, presenceSeconds: 60 };
  const campaign = await sale.openCampaign({ totalLimit: 1, waitingRoom: presence });
  const line = ['ann', 'bob', 'cid'];
  await campaign.take('holder');
  for (const user of line) await campaign.join(user);
  await campaign.letPresenceLapse('ann');
  await campaign.tend();
  expect(await campaign.line()).toEqual(['bob', 'cid', 'ann']);
  await campaign.letPresenceLapse('bob');
  const before = await scriptCalls();
  const standings = await Promise.all(
    line.map((user) => standingOfPresent(campaign.store, campaign.product, user as UserId, null)),
  );
  expect(standings).toMatchObject([1, 2, 3].map((position) => ({ status: 'queued', position })));
  // Two for the standings, as one of them has changed, and one for the presence.
  expect((await scriptCalls()) - before).toBe(3);
  await campaign.tend();
  expect(await campaign.line()).toEqual(line);
});

test('every reply of the script has come in this file', () => {
  expect(sale.unmetReplies('shopper_status')).toEqual([]);
});
