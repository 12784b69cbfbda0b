import { afterEach, describe, expect, it } from '@jest/globals';
import { decodeIdempotencyRecord, durabilityOf } from '../../../shared/redis/idempotency-record.js';
import { newKey, type TestCampaign } from '../../harness/campaign.js';
import { startSale } from '../../harness/sale.js';

/** Every reply that acknowledges something says whether answers wait for Postgres, and for which entry. */
const sale = await startSale();
afterEach(() => sale.expectConsistent());

/** All such replies, each for the first time and again. */
async function acknowledgements(
  campaign: TestCampaign,
): Promise<[string, { durable?: boolean; journalId?: string }][]> {
  const told: [string, { durable?: boolean; journalId?: string }][] = [];
  const tell = async (name: string, call: Promise<{ kind: string }>) => {
    const outcome = await call;
    told.push([`${name} ${outcome.kind}`, outcome as { durable?: boolean; journalId?: string }]);
  };
  const key = newKey();
  await tell('reserve', campaign.checkout('ann', { key }));
  await tell('reserve', campaign.checkout('ann', { key }));
  const [first, second] = [String((await campaign.person('ann'))?.reservation), await campaign.take('bob')];
  await tell('reserve', campaign.checkout('cid'));
  await tell('reserve', campaign.checkout('cid'));
  await tell('standing', campaign.standing('cid'));
  await tell('leave', campaign.leave('cid'));
  await tell('leave again', campaign.leave('cid'));
  await tell('confirm', campaign.confirm(first));
  await tell('confirm again', campaign.confirm(first));
  await tell('release', campaign.release(second));
  await tell('release again', campaign.release(second));
  await tell('release again', campaign.release(first));
  await tell('confirm again', campaign.confirm(second));
  await tell('refund', campaign.refund(first));
  await tell('refund again', campaign.refund(first));
  const restock = { key: newKey() };
  await tell('restock', campaign.restock(1, restock));
  await tell('restock again', campaign.restock(1, restock));
  await tell('set_status', campaign.setStatus('pause'));
  return told;
}

describe('the flag of durability', () => {
  for (const confirmation of ['fast', 'durable'] as const) {
    it(`${confirmation}: is in every reply that acknowledges something`, async () => {
      const campaign = await sale.openCampaign({ totalLimit: 2, confirmation });
      const told = await acknowledgements(campaign);
      expect(told.map(([name]) => name)).toEqual([
        'reserve reserved',
        'reserve replayed',
        'reserve queued',
        'reserve waiting',
        'standing standing',
        'leave left',
        'leave again left',
        'confirm redeemed',
        'confirm again redeemed',
        'release released',
        'release again released',
        'release again settled',
        'confirm again ended',
        'refund refunded',
        'refund again refunded',
        'restock restocked',
        'restock again restocked',
        'set_status changed',
      ]);
      for (const [name, outcome] of told) expect([name, outcome.durable]).toEqual([name, confirmation === 'durable']);
      const ids = new Set((await campaign.entries()).map(({ journalId }) => journalId));
      for (const [name, { journalId }] of told) {
        if (/replayed|standing/.test(name)) expect([name, journalId]).toEqual([name, undefined]);
        else if (/again/.test(name)) expect([name, journalId]).toEqual([name, '']);
        else expect([name, ids.has(String(journalId))]).toEqual([name, true]);
      }
    });
  }

  it('names the last entry of a call, so that all of them are waited for', async () => {
    const campaign = await sale.openCampaign({ totalLimit: 1 });
    const held = await campaign.take('ann');
    await campaign.join('bob');
    const { journalId } = (await campaign.release(held)) as { journalId?: string };
    expect(journalId).toBe(await sale.journal.lastId());
    expect((await campaign.entries()).slice(-2).map(({ kind }) => kind)).toEqual(['released', 'reserved']);
  });
});

describe('the durability of a remembered answer', () => {
  const cases = [
    ['fast', 0, 'journaled'],
    ['fast', 1, 'replicated'],
    ['fast', 2, 'replicated'],
    ['durable', 0, 'committed'],
    ['durable', 2, 'committed'],
  ] as const;
  for (const [confirmation, waitReplicas, durability] of cases) {
    it(`is ${durability} for a ${confirmation} campaign and ${waitReplicas} replicas`, async () => {
      const campaign = (await sale.openCampaign({ confirmation })).through(sale.storeWith({ waitReplicas }));
      const key = newKey();
      await campaign.take('ann', { key });
      const again = await campaign.checkout('ann', { key });
      const remembered = decodeIdempotencyRecord(again.kind === 'replayed' ? again.answer : '');
      expect(remembered).toMatchObject({ kind: 'completed', durability });
      expect(durabilityOf(confirmation === 'durable', waitReplicas)).toBe(durability);
      // As it was when it was made, though the campaign has changed since.
      await campaign.amend({ confirmation: confirmation === 'fast' ? 'durable' : 'fast' });
      expect(await campaign.checkout('ann', { key })).toMatchObject({ durable: confirmation === 'fast' });
    });
  }
});
