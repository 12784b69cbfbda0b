import { afterEach, expect, test } from '@jest/globals';
import { ContractError, EngineUnavailable } from '../../../shared/errors/faults.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
afterEach(() => sale.expectConsistent());

test('positions returns the exact positions of a thousand users in one call, in the order of the request', async () => {
  const campaign = await sale.openCampaign({
    totalLimit: 0,
    waitingRoom: { enabled: true, maxSize: 2_000, presenceSeconds: null },
  });
  const users = Array.from({ length: 1_000 }, (_, i) => `user-${i}`);
  await Promise.all(users.map((user) => campaign.join(user)));
  await campaign.leave('user-0');
  await campaign.leave('user-500');
  const expected = users.map((_, i) => (i === 0 || i === 500 ? 0 : i < 500 ? i : i - 1));
  expect(await campaign.positions(users)).toEqual({
    kind: 'positions',
    queueSize: 998,
    paceMs: null,
    positions: expected,
  });
  expect(await campaign.positions([...users].reverse())).toEqual({
    kind: 'positions',
    queueSize: 998,
    paceMs: null,
    positions: [...expected].reverse(),
  });
});

test('positions returns 0 for users who do not wait, and an empty list for no users', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1 });
  await campaign.take('ann');
  await campaign.join('bob');
  expect(await campaign.positions(['ann', 'nobody', 'bob', 'bob'])).toEqual({
    kind: 'positions',
    queueSize: 1,
    paceMs: null,
    positions: [0, 0, 1, 1],
  });
  expect(await campaign.positions([])).toEqual({ kind: 'positions', queueSize: 1, paceMs: null, positions: [] });
});

test('positions refuses to serve more than a thousand at once', async () => {
  const campaign = await sale.openCampaign();
  await expect(campaign.positions(Array.from({ length: 1_001 }, (_, i) => `user-${i}`))).rejects.toThrow(ContractError);
});

test('positions finds no campaign for an unknown product', async () => {
  expect(await sale.unknownCampaign().positions(['ann'])).toEqual({ kind: 'not_found' });
  await sale.withoutEpoch(() => expect(sale.unknownCampaign().positions(['ann'])).rejects.toThrow(EngineUnavailable));
});

test('every reply of the script has come in this file', () => {
  expect(sale.unmetReplies('positions')).toEqual([]);
});
