import { afterEach, expect, test } from '@jest/globals';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
afterEach(() => sale.expectConsistent());

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
    reduced: '',
  });
  expect(await campaign.lastEntries(2)).toEqual([
    { kind: 'released', no: campaign.terms.no, atMs: expect.any(Number), reservation, reason: '', trace: '' },
    {
      kind: 'reserved',
      metadata: null,
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

test('release gives back a part, once; the rest stays reserved with its deadline, allowance and code', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 4, perUserLimit: 2 });
  const reservation = await campaign.take('ann', { qty: 3 });
  const { dueMs } = (await campaign.reservation(reservation)) ?? {};
  const kept = await campaign.release(reservation, null, 'too many', 'trace-1', 2);
  expect(kept).toMatchObject({ kind: 'kept', qty: 2, released: 1 });
  expect(await campaign.stock()).toMatchObject({ free: 2, held: 2 });
  expect(await campaign.reservation(reservation)).toMatchObject({
    state: 'reserved',
    qty: 2,
    slot: 1,
    dueMs,
    reduced: '1,0,0',
  });
  expect(await campaign.lastEntries(1)).toEqual([
    {
      ...{ kind: 'reduced', no: campaign.terms.no, atMs: expect.any(Number), reservation, before: 3, qty: 2 },
      ...{ ending: 'released', released: 1, refunded: 0, burned: 0, reason: 'too many', trace: 'trace-1' },
    },
  ]);
  const [before, last] = [await campaign.inRedis(), await sale.journal.lastId()];
  for (const keep of [2, 3, 9])
    expect(await campaign.release(reservation, null, '', '', keep)).toMatchObject({
      kind: 'kept',
      qty: 2,
      released: 1,
    });
  expect([await campaign.inRedis(), await sale.journal.lastId()]).toEqual([before, last]);
  expect(await campaign.release(reservation, null, '', '', 1)).toMatchObject({ kind: 'kept', qty: 1, released: 2 });
  expect(await campaign.release(reservation)).toMatchObject({ kind: 'released', state: 'released' });
  expect(await campaign.stock()).toMatchObject({ free: 4, held: 0 });
});

test('release of a part serves the line with the units given back, and no more', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 5, maxQty: 5 });
  const reservation = await campaign.take('ann', { qty: 5 });
  for (const user of ['bob', 'cid', 'dan']) await campaign.join(user);
  await campaign.join('eve', { qty: 2 });
  await campaign.release(reservation, null, '', '', 4);
  expect(await campaign.line()).toEqual(['cid', 'dan', 'eve']);
  await campaign.release(reservation, null, '', '', 2);
  expect(await campaign.line()).toEqual(['eve']);
  await campaign.release(reservation, null, '', '', 1);
  expect(await campaign.stock()).toMatchObject({ free: 1, held: 4, waiting: 1 });
  await campaign.release(reservation);
  expect(await campaign.stock()).toMatchObject({ free: 0, held: 5, waiting: 0 });
});

test('release of a part changes nothing when the reservation has ended or belongs to another user', async () => {
  const campaign = await sale.openCampaign({ perUserLimit: 3 });
  const [late, released, paid] = [
    await campaign.take('ann', { qty: 2 }),
    await campaign.take('ann', { qty: 2 }),
    await campaign.take('ann', { qty: 2 }),
  ];
  await campaign.letDeadlinePass(late);
  await campaign.release(released);
  await campaign.confirm(paid);
  const [before, last] = [await campaign.inRedis(), await sale.journal.lastId()];
  const part = (id: string, holder: string | null = null) => campaign.release(id, holder, '', '', 1);
  expect(await part(late)).toMatchObject({ kind: 'released', state: 'expired' });
  expect(await part(released)).toMatchObject({ kind: 'released', state: 'released' });
  expect(await part(paid)).toMatchObject({ kind: 'settled', state: 'redeemed' });
  expect(await part(late, 'bob')).toEqual({ kind: 'foreign' });
  expect([await campaign.inRedis(), await sale.journal.lastId()]).toEqual([before, last]);
});

test('release of parts, wholes and repetitions in one call decides each by the ones before', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 6, perUserLimit: 2 });
  const [one, two] = [await campaign.take('ann', { qty: 3 }), await campaign.take('bob', { qty: 3 })];
  await campaign.store.scripts.load(['release']);
  const replies = await Promise.all([
    campaign.release(one, null, '', '', 2),
    campaign.release(two, null, '', '', 1),
    campaign.release(one, null, '', '', 1),
    campaign.release(two),
    campaign.release(two, null, '', '', 1),
  ]);
  expect(replies).toMatchObject([
    { kind: 'kept', qty: 2 },
    { kind: 'kept', qty: 1 },
    { kind: 'kept', qty: 1, released: 2 },
    { kind: 'released', state: 'released' },
    { kind: 'released', state: 'released' },
  ]);
  expect(await campaign.stock()).toMatchObject({ free: 5, held: 1 });
});

test('release of a part of an unlimited campaign changes only what is held', async () => {
  const campaign = await sale.openCampaign({ totalLimit: null });
  const reservation = await campaign.take('ann', { qty: 3 });
  await campaign.release(reservation, null, '', '', 1);
  expect((await campaign.inRedis()).fields).toMatchObject({ total: '-1', held: '1', free: '0' });
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
