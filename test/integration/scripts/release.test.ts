import { afterEach, expect, test } from '@jest/globals';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
afterEach(async () => expect(await sale.audit()).toEqual([]));

const NOBODYS = '01890a5d-ac96-774b-bcce-b302099a8057';

test('release gives the units back to stock, once, and returns the same again', async () => {
  const campaign = await sale.openCampaign();
  const reservation = await campaign.take('ann', { qty: 3 });
  expect(await campaign.release(reservation, null, 'changed their mind', 'trace-1')).toMatchObject({
    kind: 'released',
    state: 'released',
  });
  expect(await campaign.stock()).toMatchObject({ free: 10, held: 0 });
  expect(await campaign.lastEntries(1)).toEqual([
    {
      kind: 'released',
      no: campaign.terms.no,
      atMs: expect.any(Number),
      reservation,
      reason: 'changed their mind',
      trace: 'trace-1',
    },
  ]);
  const [before, last] = [await campaign.inRedis(), await sale.journal.lastId()];
  expect(await campaign.release(reservation)).toMatchObject({ kind: 'released', state: 'released' });
  expect([await campaign.inRedis(), await sale.journal.lastId()]).toEqual([before, last]);
});

test('release lets the same user take a unit again afterwards', async () => {
  const campaign = await sale.openCampaign({ perUserLimit: 1 });
  await campaign.release(await campaign.take('ann'));
  const again = await campaign.take('ann');
  expect(await campaign.reservation(again)).toMatchObject({ state: 'reserved', slot: 1 });
});

test('release returns expired when the deadline has passed, whether or not a sweep ran before', async () => {
  const campaign = await sale.openCampaign({ perUserLimit: 2 });
  const [late, swept] = [await campaign.take('ann'), await campaign.take('ann')];
  await campaign.letDeadlinePass(late);
  expect(await campaign.release(late)).toMatchObject({ kind: 'released', state: 'expired' });
  await campaign.letDeadlinePass(swept);
  await campaign.expire();
  expect(await campaign.release(swept)).toMatchObject({ kind: 'released', state: 'expired' });
  expect((await campaign.entries()).map(({ kind }) => kind)).toEqual(['reserved', 'reserved', 'expired', 'expired']);
});

test('release gives the unit to the head of the line in the same call', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1 });
  const reservation = await campaign.take('ann');
  await campaign.join('bob', { order: 'cart-of-bob' });
  await campaign.join('cid');
  await campaign.release(reservation);
  expect(await campaign.stock()).toMatchObject({ free: 0, held: 1, waiting: 1 });
  expect(await campaign.line()).toEqual(['cid']);
  const person = await campaign.person('bob');
  const promoted = await campaign.reservation(String(person?.reservation));
  expect(promoted).toEqual({
    state: 'reserved',
    user: 'bob',
    qty: 1,
    slot: 1,
    dueMs: promoted?.dueMs,
    lineNo: 1,
    order: 'cart-of-bob',
    code: '',
  });
  expect(await campaign.lastEntries(2)).toEqual([
    { kind: 'released', no: campaign.terms.no, atMs: expect.any(Number), reservation, reason: '', trace: '' },
    {
      kind: 'reserved',
      no: campaign.terms.no,
      atMs: Number(promoted?.dueMs) - 60_000,
      reservation: person?.reservation,
      user: 'bob',
      order: 'cart-of-bob',
      qty: 1,
      slot: 1,
      dueMs: promoted?.dueMs,
      lineNo: 1,
      state: 'reserved',
      code: null,
      terms: 1,
      key: '',
      answer: '',
      device: '',
      trace: '',
      stacking: null,
    },
  ]);
});

test('release serves several with the units of one, as far as they go and in the order of the line', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 3 });
  const reservation = await campaign.take('ann', { qty: 3 });
  await campaign.join('bob', { qty: 1 });
  await campaign.join('cid', { qty: 1 });
  await campaign.join('dan', { qty: 2 });
  await campaign.join('eve', { qty: 1 });
  await campaign.release(reservation);
  expect(await campaign.line()).toEqual(['dan', 'eve']);
  expect(await campaign.stock()).toMatchObject({ free: 1, held: 2, waiting: 2 });
});

test('release keeps the unit in stock while the sale is paused', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1 });
  const reservation = await campaign.take('ann');
  await campaign.join('bob');
  await campaign.setStatus('pause');
  expect(await campaign.release(reservation)).toMatchObject({ kind: 'released', state: 'released' });
  expect(await campaign.stock()).toMatchObject({ free: 1, held: 0, waiting: 1 });
});

test('release takes a ticket for its own reservation only', async () => {
  const campaign = await sale.openCampaign();
  const reservation = await campaign.take('ann');
  const before = await campaign.inRedis();
  expect(await campaign.release(reservation, 'bob')).toEqual({ kind: 'foreign' });
  expect(await campaign.inRedis()).toEqual(before);
  expect(await campaign.release(reservation, 'ann')).toMatchObject({ kind: 'released', state: 'released' });
  expect(await campaign.release(reservation, 'bob')).toEqual({ kind: 'foreign' });
});

test('release releases nothing that is paid, refunded, burned or voided', async () => {
  const campaign = await sale.openCampaign({ perUserLimit: 5, latePayment: 'reacquire' });
  const [redeemed, reacquired, refunded, burned, voided] = [
    await campaign.take('ann'),
    await campaign.take('ann'),
    await campaign.take('ann'),
    await campaign.take('ann'),
    await campaign.take('ann'),
  ];
  await campaign.confirm(redeemed);
  await campaign.release(reacquired);
  await campaign.confirm(reacquired);
  await campaign.confirm(refunded);
  await campaign.refund(refunded);
  await campaign.amend({ refundPolicy: 'burn' });
  await campaign.confirm(burned);
  await campaign.refund(burned);
  await campaign.void(voided, 'returns');
  const [before, last] = [await campaign.inRedis(), await sale.journal.lastId()];
  for (const [reservation, state] of Object.entries({
    [redeemed]: 'redeemed',
    [reacquired]: 'reacquired',
    [refunded]: 'refunded',
    [burned]: 'burned',
    [voided]: 'voided',
  })) {
    expect(await campaign.release(reservation)).toMatchObject({ kind: 'settled', state });
  }
  expect([await campaign.inRedis(), await sale.journal.lastId()]).toEqual([before, last]);
});

test('release finds neither an unknown reservation nor a product without a campaign', async () => {
  expect(await (await sale.openCampaign()).release(NOBODYS)).toEqual({ kind: 'not_found' });
  expect(await sale.unknownCampaign().release(NOBODYS)).toEqual({ kind: 'not_found' });
  await sale.withoutEpoch(() => expect(sale.unknownCampaign().release(NOBODYS)).rejects.toThrow(EngineUnavailable));
});

test('release without a recall does not find a reservation of an archived campaign', async () => {
  const campaign = await sale.openCampaign();
  await campaign.pretendArchived();
  expect(await campaign.release(NOBODYS)).toEqual({ kind: 'not_found' });
});

test('every reply of the script has come in this file', () => {
  expect(sale.unmetReplies('release')).toEqual([]);
});
