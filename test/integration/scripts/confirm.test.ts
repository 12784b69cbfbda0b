import { randomUUID } from 'node:crypto';
import { afterEach, describe, expect, test } from '@jest/globals';
import type { OrderId, UserId } from '../../../shared/domain/ids.js';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import { keys } from '../../../shared/redis/keys.js';
import type { TestCampaign } from '../../harness/campaign.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
afterEach(() => sale.expectConsistent());

const NOBODYS = '01890a5d-ac96-774b-bcce-b302099a8057';

test('redeems a reservation, once, and returns the same again', async () => {
  const campaign = await sale.openCampaign();
  const reservation = await campaign.take('ann', { qty: 2, order: 'cart-1' });
  const redeemed = { kind: 'redeemed', orderId: 'cart-1', reacquired: false };
  expect(await campaign.confirm(reservation, 'pay-1', 'trace-1')).toMatchObject(redeemed);
  expect(await campaign.stock()).toMatchObject({ free: 8, held: 0, redeemed: 2 });
  expect(await campaign.lastEntries(1)).toEqual([
    {
      kind: 'redeemed',
      no: campaign.terms.no,
      atMs: expect.any(Number),
      reservation,
      slot: 1,
      reacquired: false,
      payment: 'pay-1',
      trace: 'trace-1',
    },
  ]);
  const last = await sale.journal.lastId();
  expect(await campaign.confirm(reservation, 'pay-1')).toMatchObject({ ...redeemed, paidBy: '' });
  expect(await campaign.confirm(reservation)).toMatchObject({ ...redeemed, paidBy: '' });
  expect(await sale.journal.lastId()).toBe(last);
});

describe('another payment of what is paid', () => {
  const paid = async (campaign: TestCampaign, payment: string) => {
    const before = await sale.journal.lastId();
    const outcome = await campaign.confirm(String(reservation), payment);
    if (outcome.kind !== 'redeemed') throw new Error(outcome.kind);
    return [outcome.paidBy, (await sale.journal.lastId()) !== before];
  };
  let reservation: string | null = null;
  const open = async (...payments: string[]) => {
    const campaign = await sale.openCampaign({ perUserLimit: 9 });
    reservation = await campaign.take('ann');
    for (const payment of payments) await campaign.confirm(reservation, payment);
    return campaign;
  };

  test('names the first, is journaled once, and so is a third', async () => {
    const campaign = await open('pay|1"');
    const { stock } = { stock: await campaign.stock() };
    expect(await paid(campaign, 'pay-2')).toEqual(['pay|1"', true]);
    expect(await campaign.lastEntries(1)).toEqual([
      {
        kind: 'paid_again',
        no: campaign.terms.no,
        atMs: expect.any(Number),
        reservation,
        payment: 'pay-2',
        first: 'pay|1"',
        trace: '',
      },
    ]);
    expect(await paid(campaign, 'pay-2')).toEqual(['pay|1"', false]);
    expect(await paid(campaign, 'pay-3')).toEqual(['pay|1"', true]);
    expect(await paid(campaign, 'pay-2')).toEqual(['pay|1"', false]);
    expect(await paid(campaign, 'pay|1"')).toEqual(['', false]);
    expect(await campaign.stock()).toEqual(stock);
  });

  test('is none when the first had no reference: it is kept as the first then', async () => {
    const campaign = await open('');
    expect(await paid(campaign, 'pay-1')).toEqual(['', true]);
    expect(await campaign.lastEntries(1)).toMatchObject([{ kind: 'paid_again', payment: 'pay-1', first: '' }]);
    expect(await paid(campaign, 'pay-1')).toEqual(['', false]);
    expect(await paid(campaign, '')).toEqual(['', false]);
    expect(await paid(campaign, 'pay-2')).toEqual(['pay-1', true]);
  });

  test('is one of a late payment that took a unit again, too', async () => {
    const campaign = await sale.openCampaign({ latePayment: 'reacquire' });
    reservation = await campaign.take('ann');
    await campaign.release(reservation);
    expect(await paid(campaign, 'pay-1')).toEqual(['', true]);
    expect(await paid(campaign, 'pay-2')).toEqual(['pay-1', true]);
  });

  test('is refused after a refund, as every payment is', async () => {
    const campaign = await open('pay-1');
    await campaign.refund(String(reservation));
    expect(await campaign.confirm(String(reservation), 'pay-2')).toMatchObject({ kind: 'ended', state: 'refunded' });
  });

  test('is journaled again when there are more references than Redis keeps', async () => {
    const campaign = await open(...Array.from({ length: 21 }, (_, i) => `pay-${i + 1}`));
    expect(await paid(campaign, 'pay-20')).toEqual(['pay-1', false]);
    expect(await paid(campaign, 'pay-21')).toEqual(['pay-1', true]);
  });
});

test('finds neither an unknown reservation nor a product without a campaign', async () => {
  expect(await (await sale.openCampaign()).confirm(NOBODYS)).toEqual({ kind: 'not_found' });
  expect(await sale.unknownCampaign().confirm(NOBODYS)).toEqual({ kind: 'not_found' });
  await sale.withoutEpoch(() => expect(sale.unknownCampaign().confirm(NOBODYS)).rejects.toThrow(EngineUnavailable));
});

test('returns how the promise ended when it has ended, and changes nothing', async () => {
  const campaign = await sale.openCampaign({ perUserLimit: 5 });
  const [released, expired, refunded, burned, voided] = [
    await campaign.take('ann'),
    await campaign.take('ann'),
    await campaign.take('ann'),
    await campaign.take('ann'),
    await campaign.take('ann'),
  ];
  await campaign.release(released);
  await campaign.letDeadlinePass(expired);
  await campaign.expire();
  await campaign.confirm(refunded);
  await campaign.refund(refunded);
  await campaign.amend({ refundPolicy: 'burn' });
  await campaign.confirm(burned);
  await campaign.refund(burned);
  await campaign.void(voided, 'returns');
  const [before, last] = [await campaign.inRedis(), await sale.journal.lastId()];
  for (const [reservation, state] of Object.entries({
    [released]: 'released',
    [expired]: 'expired',
    [refunded]: 'refunded',
    [burned]: 'burned',
    [voided]: 'voided',
  })) {
    expect(await campaign.confirm(reservation)).toMatchObject({ kind: 'ended', state });
  }
  expect([await campaign.inRedis(), await sale.journal.lastId()]).toEqual([before, last]);
});

test('finds the promise over at its deadline though no sweep has been there, and gives the unit to the next in line', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1 });
  const reservation = await campaign.take('ann');
  await campaign.join('bob');
  await campaign.letDeadlinePass(reservation);
  expect(await campaign.confirm(reservation)).toMatchObject({ kind: 'ended', state: 'expired' });
  expect(await campaign.standing('bob')).toMatchObject({ status: 'promoted' });
  expect(await campaign.lastEntries(2)).toMatchObject([
    { kind: 'expired', reservation, reason: 'deadline' },
    { kind: 'reserved', user: 'bob', lineNo: 1 },
  ]);
});

test('takes a unit again for a late payment when the campaign allows it, one is free and no user waits', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 2, latePayment: 'reacquire', perUserLimit: 2 });
  const reservation = await campaign.take('ann', { qty: 2 });
  await campaign.letDeadlinePass(reservation);
  const reacquired = { kind: 'redeemed', orderId: expect.any(String), reacquired: true };
  expect(await campaign.confirm(reservation, 'late')).toMatchObject(reacquired);
  expect(await campaign.stock()).toMatchObject({ free: 0, held: 0, redeemed: 2 });
  expect(await campaign.lastEntries(2)).toMatchObject([
    { kind: 'expired', reservation },
    { kind: 'redeemed', reservation, slot: 1, reacquired: true, payment: 'late' },
  ]);
  const last = await sale.journal.lastId();
  expect(await campaign.confirm(reservation)).toMatchObject(reacquired);
  expect(await sale.journal.lastId()).toBe(last);
  expect(await campaign.standing('ann')).toMatchObject({ status: 'redeemed', reservationId: reservation });
});

describe('A late payment of an overdue reservation, while free units wait for users in line', () => {
  /** One unit is held and overdue, a restock of two has promoted one of the waiting users so far. */
  const open = async (waiting: readonly string[], terms: object = {}, order = randomUUID()) => {
    const campaign = await sale.openCampaign({ totalLimit: 1, latePayment: 'reacquire', ...terms });
    const late = await campaign.take('ann', { order });
    for (const user of waiting) await campaign.join(user);
    await campaign.restock(2, { limit: 1 });
    expect(await campaign.stock()).toMatchObject({ free: 1, held: 2, waiting: waiting.length - 1 });
    await campaign.letDeadlinePass(late);
    return { campaign, late };
  };

  test('takes the unit that is left once its return has served the last user in line', async () => {
    const { campaign, late } = await open(['bob', 'cid']);
    expect(await campaign.confirm(late, 'pay-1')).toMatchObject({ kind: 'redeemed', reacquired: true });
    expect(await campaign.stock()).toMatchObject({ free: 0, held: 2, redeemed: 1, waiting: 0 });
    expect(await campaign.standing('cid')).toMatchObject({ status: 'promoted' });
    expect(await campaign.lastEntries(3)).toMatchObject([
      { kind: 'expired', reservation: late },
      { kind: 'reserved', user: 'cid' },
      { kind: 'redeemed', reservation: late, reacquired: true, payment: 'pay-1' },
    ]);
  });

  test('takes none when a user still waits after the return', async () => {
    const { campaign, late } = await open(['bob', 'cid', 'dan']);
    expect(await campaign.confirm(late)).toMatchObject({ kind: 'ended', state: 'expired' });
    expect(await campaign.standing('cid')).toMatchObject({ status: 'promoted' });
    expect(await campaign.stock()).toMatchObject({ free: 1, waiting: 1 });
  });

  test('takes it for a user whom the return serves as well', async () => {
    const { campaign, late } = await open(['bob', 'ann'], { perUserLimit: 2 });
    expect(await campaign.confirm(late)).toMatchObject({ kind: 'redeemed', reacquired: true });
    expect(await campaign.reservation(late)).toMatchObject({ state: 'reacquired', slot: 2 });
    expect(await campaign.stock()).toMatchObject({ free: 0, held: 2, redeemed: 1, waiting: 0 });
  });

  test('takes it only if the order still combines', async () => {
    const { campaign, late } = await open(['bob', 'cid'], { stacking: 'exclusive' });
    expect(await campaign.confirm(late)).toMatchObject({ kind: 'redeemed', reacquired: true });

    const order = randomUUID();
    const other = await open(['bob', 'cid'], { stacking: 'exclusive' }, order);
    // Another reservation gets onto the order when the claim of the late one is forgotten.
    await sale.redis.del(keys.order('ann' as UserId, order as OrderId));
    await (await sale.openCampaign({ stacking: 'exclusive' })).take('ann', { order });
    expect(await other.campaign.confirm(other.late)).toMatchObject({ kind: 'ended', state: 'expired' });
    expect(await other.campaign.standing('cid')).toMatchObject({ status: 'promoted' });
  });
});

test('takes a unit again after a release too, with another allowance when the first is used', async () => {
  const campaign = await sale.openCampaign({ latePayment: 'reacquire', perUserLimit: 2 });
  const early = await campaign.take('ann');
  await campaign.release(early);
  await campaign.take('ann');
  expect(await campaign.confirm(early)).toMatchObject({ kind: 'redeemed', reacquired: true });
  expect(await campaign.reservation(early)).toMatchObject({ state: 'reacquired', slot: 2 });
  expect(await campaign.lastEntries(1)).toMatchObject([{ kind: 'redeemed', slot: 2, reacquired: true }]);
});

test('takes no unit again when none is free, when a user waits, or when the user has used the allowances', async () => {
  const terms = { latePayment: 'reacquire', totalLimit: 2 } as const;
  const soldOut = await sale.openCampaign(terms);
  const late = await soldOut.take('ann', { qty: 2 });
  await soldOut.release(late);
  await soldOut.take('bob');
  expect(await soldOut.confirm(late)).toMatchObject({ kind: 'ended', state: 'released' });

  const withLine = await sale.openCampaign({ ...terms, totalLimit: 4 });
  const lateToo = await withLine.take('ann');
  await withLine.take('cid', { qty: 2 });
  await withLine.join('bob', { qty: 3 });
  await withLine.letDeadlinePass(lateToo);
  expect(await withLine.confirm(lateToo)).toMatchObject({ kind: 'ended', state: 'expired' });
  expect(await withLine.stock()).toMatchObject({ free: 2, waiting: 1 });

  const usedUp = await sale.openCampaign(terms);
  const first = await usedUp.take('ann');
  await usedUp.release(first);
  await usedUp.take('ann');
  expect(await usedUp.confirm(first)).toMatchObject({ kind: 'ended', state: 'released' });
});

test('takes no unit again for a reservation that was refunded or voided', async () => {
  const campaign = await sale.openCampaign({ latePayment: 'reacquire', perUserLimit: 2 });
  const [refunded, voided] = [await campaign.take('ann'), await campaign.take('ann')];
  await campaign.confirm(refunded);
  await campaign.refund(refunded);
  await campaign.void(voided, 'returns');
  expect(await campaign.confirm(refunded)).toMatchObject({ kind: 'ended', state: 'refunded' });
  expect(await campaign.confirm(voided)).toMatchObject({ kind: 'ended', state: 'voided' });
});

test('takes a unit again for a user whose line was closed, because one is free and no user waits', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1, latePayment: 'reacquire' });
  const late = await campaign.take('ann');
  await campaign.release(late);
  const other = await campaign.take('bob');
  await campaign.join('ann');
  await campaign.setStatus('close');
  await campaign.release(other);
  expect(await campaign.stock()).toMatchObject({ free: 1, waiting: 0 });
  expect(await campaign.confirm(late)).toMatchObject({ kind: 'redeemed', reacquired: true });
});

test('confirm without a recall does not find a reservation of an archived campaign', async () => {
  const campaign = await sale.openCampaign();
  await campaign.pretendArchived();
  expect(await campaign.confirm('01890a5d-ac96-774b-bcce-b302099a8057')).toEqual({ kind: 'not_found' });
});

test('a payment that is too late takes no unit again when another code is on the order', async () => {
  const campaign = await sale.openCampaign({ latePayment: 'reacquire', stacking: 'exclusive', perUserLimit: 2 });
  const late = await campaign.take('ann', { order: 'cart-late' });
  await campaign.release(late);
  await campaign.take('ann', { order: 'cart-late' });
  expect(await campaign.confirm(late)).toMatchObject({ kind: 'ended', state: 'released' });
});

test('a late payment in a bucket without units is refused only when no other bucket can give one', async () => {
  const campaign = await sale.openBucket({ total: 1 }, { latePayment: 'reacquire' });
  const checkout = async (user: string) => {
    const outcome = await campaign.checkout(user, { bucket: { buckets: 10, place: null } });
    return outcome.kind === 'reserved' ? outcome.reservationId : outcome.kind;
  };
  const late = await checkout('ann');
  await campaign.release(late);
  await checkout('bob');
  const { reservations, buckets } = campaign.store;
  const fetched: unknown[] = [];
  const pay = async (isFetched: () => Promise<boolean>) => {
    reservations.units = {
      fetchUnit: (...call) => {
        fetched.push(call);
        return isFetched();
      },
    };
    return campaign.confirm(late).finally(() => {
      reservations.units = null;
    });
  };
  expect(await campaign.confirm(late)).toMatchObject({ kind: 'ended', state: 'released' });
  expect(await pay(async () => false)).toMatchObject({ kind: 'ended', state: 'released' });
  expect(fetched).toEqual([[campaign.product, 3]]);
  // Other users get what is fetched.
  expect(await pay(async () => true)).toMatchObject({ kind: 'ended', state: 'released' });
  expect(fetched).toHaveLength(4);
  const moved = async () => (await buckets.moveIn(campaign.product, 5, 1, 1)).kind === 'moved';
  expect(await pay(moved)).toMatchObject({ kind: 'redeemed', reacquired: true });
});

test('every reply of the script has come in this file', () => {
  expect(sale.unmetReplies('confirm')).toEqual([]);
});

test('a late payment brings no unit back to a user who waits for another one', async () => {
  const terms = { type: 'pool', totalLimit: null, codes: 1, latePayment: 'reacquire', perUserLimit: 2 } as const;
  const campaign = await sale.openCampaign(terms);
  const late = await campaign.take('bob');
  await campaign.join('bob');
  await campaign.setStatus('pause');
  await campaign.release(late);
  expect(await campaign.confirm(late)).toMatchObject({ kind: 'ended', state: 'released' });
  expect(await campaign.standing('bob')).toMatchObject({ status: 'queued', position: 1 });
});

test('a late payment gets no unit when the next in line got its code, in a pool without a limit too', async () => {
  const campaign = await sale.openCampaign({ type: 'pool', totalLimit: null, codes: 1, latePayment: 'reacquire' });
  const late = await campaign.take('ann');
  expect(await campaign.join('bob')).toBe(1);
  await campaign.letDeadlinePass(late);
  expect(await campaign.confirm(late, 'pay-1')).toMatchObject({ kind: 'ended', state: 'expired' });
  expect(await campaign.standing('bob')).toMatchObject({ status: 'promoted', code: 1 });
  expect(await campaign.usedCodes()).toEqual([1]);
});
