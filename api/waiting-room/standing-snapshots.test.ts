import { expect, test } from '@jest/globals';
import type { ProductId, UserId } from '../../shared/domain/ids.js';
import { startSale } from '../../test/harness/sale.js';
import { StandingSnapshots } from './standing-snapshots.js';

const sale = await startSale();
const line = { enabled: true, maxSize: 9, presenceSeconds: null };

async function wait(waitingRoom: typeof line | { enabled: true; maxSize: 9; presenceSeconds: number } = line) {
  const campaign = await sale.openCampaign({ totalLimit: 1, perUserLimit: 1, waitingRoom });
  const held = await campaign.take('ann');
  await campaign.join('bob');
  await campaign.join('cid');
  const snapshots = new StandingSnapshots({ standingsKept: 10, standingKeptMs: 600_000 });
  const of = (user: string) => snapshots.of(sale.store, campaign.product as ProductId, user as UserId);
  return { campaign, held, of };
}

test('a waiting user gets the standing of before, and the one of now once they wait no more', async () => {
  const { campaign, held, of } = await wait();
  expect(await of('cid')).toMatchObject({ status: 'queued', position: 2 });
  await campaign.release(held);
  expect((await campaign.standing('bob')).kind === 'standing').toBe(true);
  expect(await of('cid')).toMatchObject({ status: 'queued', position: 2 });
  expect(await of('bob')).toMatchObject({ status: 'promoted' });
  await campaign.leave('cid');
  expect(await of('cid')).toMatchObject({ status: 'left' });
});

test('a user who must be seen is read each time', async () => {
  const { campaign, of } = await wait({ enabled: true, maxSize: 9, presenceSeconds: 60 });
  expect(await of('cid')).toMatchObject({ position: 2 });
  await campaign.leave('bob');
  expect(await of('cid')).toMatchObject({ position: 1 });
});
