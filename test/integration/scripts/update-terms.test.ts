import { afterEach, expect, test } from '@jest/globals';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import { termsInRedis } from '../../harness/audit.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
afterEach(() => sale.expectConsistent());

test('update_terms changes every term and neither stock, line nor status', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1 });
  await campaign.take('ann');
  await campaign.join('bob');
  await campaign.setStatus('pause');
  const [before, last] = [await campaign.inRedis(), await sale.journal.lastId()];
  const outcome = await campaign.amend({
    name: 'Renamed',
    rules: { uniform_refusals: true, velocity: 'pause', opening_minutes: 7 },
    startsAt: new Date(2_000),
    endsAt: new Date(9_000_000_000_001),
    holdSeconds: 5,
    perUserLimit: 4,
    maxQty: 6,
    status: 'closed',
    totalLimit: 77,
    waitingRoom: { enabled: false, maxSize: 12, presenceSeconds: null },
    latePayment: 'reacquire',
    refundPolicy: 'burn',
    confirmation: 'durable',
    requireAttestation: true,
  });
  expect(outcome).toEqual({ kind: 'amended' });
  expect(await campaign.inRedis()).toEqual({
    ...before,
    fields: {
      ...before.fields,
      former: expect.stringMatching(/^\[\["1\|.*,\d{13}\]\]$/),
      terms: '2|9000000000001|5000|4|6|0|12|0|0|1|reacquire|burn|1|0|1|combines|shared|pause|420000',
      details: expect.stringMatching(
        /"name":"Renamed".*"rules":{"uniform_refusals":true,"velocity":"pause","opening_minutes":7}/,
      ),
      starts_at: '2000',
    },
  });
  expect(await sale.journal.lastId()).toBe(last);
});

test('update_terms never brings back old terms, in whatever order they arrive', async () => {
  const campaign = await sale.openCampaign({ termsVersion: 1 });
  const [second, third] = [
    { ...campaign.terms, termsVersion: 2, maxQty: 2 },
    { ...campaign.terms, termsVersion: 3, maxQty: 3 },
  ];
  expect(await campaign.store.campaigns.updateTerms(third)).toEqual({ kind: 'amended' });
  expect(await campaign.store.campaigns.updateTerms(second)).toEqual({ kind: 'known', version: 3 });
  expect(await campaign.store.campaigns.updateTerms({ ...third, maxQty: 9 })).toEqual({ kind: 'known', version: 3 });
  expect(await termsInRedis(sale.redis, campaign.product)).toMatchObject({ version: '3', max_qty: '3' });
});

test('update_terms takes nothing from other terms of the same version', async () => {
  const campaign = await sale.openCampaign({ termsVersion: 1 });
  const before = await campaign.inRedis();
  const other = { ...campaign.terms, name: 'Another', hasAudience: true, stacking: 'exclusive', maxQty: 9 };
  expect(await campaign.store.campaigns.updateTerms(other)).toEqual({ kind: 'known', version: 1 });
  expect(await campaign.inRedis()).toEqual(before);
});

test('update_terms lowers the limit of a user in a draft only: afterwards some may have used it', async () => {
  const campaign = await sale.openCampaign({ status: 'draft', perUserLimit: 3 });
  expect(await campaign.amend({ perUserLimit: 2 })).toEqual({ kind: 'amended' });
  await campaign.setStatus('publish');
  const before = await campaign.inRedis();
  const lower = { ...campaign.terms, termsVersion: 3, perUserLimit: 1, maxQty: 7 };
  expect(await campaign.store.campaigns.updateTerms(lower)).toEqual({ kind: 'refused', perUserLimit: 2 });
  expect(await campaign.inRedis()).toEqual(before);
  expect(await campaign.store.campaigns.updateTerms({ ...lower, perUserLimit: 2 })).toEqual({ kind: 'amended' });
  for (const action of ['pause', 'close'] as const) {
    await campaign.setStatus(action);
    expect(await campaign.store.campaigns.updateTerms({ ...lower, termsVersion: 9 })).toEqual({
      kind: 'refused',
      perUserLimit: 2,
    });
  }
});

test('update_terms lets a promise keep the deadline it was given', async () => {
  const campaign = await sale.openCampaign({ holdSeconds: 60 });
  const reservation = await campaign.take('ann');
  const before = await campaign.reservation(reservation);
  await campaign.amend({ holdSeconds: 1 });
  expect(await campaign.reservation(reservation)).toEqual(before);
  expect(await campaign.confirm(reservation)).toMatchObject({ kind: 'redeemed', reacquired: false });
});

test('update_terms finds no campaign for an unknown product', async () => {
  const unknown = sale.unknownCampaign();
  expect(await unknown.amend({})).toEqual({ kind: 'not_found' });
  expect(await unknown.stock()).toBeNull();
  await sale.withoutEpoch(() => expect(sale.unknownCampaign().amend({})).rejects.toThrow(EngineUnavailable));
});

test('every reply of the script has come in this file', () => {
  expect(sale.unmetReplies('update_terms')).toEqual([]);
});
