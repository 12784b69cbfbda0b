import { expect, test } from '@jest/globals';
import { CampaignActions, type CampaignActionsDeps } from '../../api/admin/campaign-actions.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { DividedSale } from '../harness/divided-sale.js';

const sale = await DividedSale.start();
const operator = { name: 'ops', requestId: 'r-1' };

const statuses = async (product: ProductId) =>
  Promise.all(sale.sales.all(product).map(async ({ reader }) => (await reader.stock(product))?.status));

/** Changes statuses. Each wait for a commit is recorded with the statuses of the buckets when it begins. */
function actionsOf(commits: { bucket: number; statuses: unknown[] }[]): CampaignActions {
  return new CampaignActions({
    ...{ sales: sale.sales, table: sale.campaigns },
    shardOf: () => 0,
    queues: { add: async () => {} },
    acknowledgements: { entryOf: async (_product: ProductId, id: string) => id, held: async () => {} },
    commitsOf: (product: ProductId, bucket: number) => ({
      committed: async () => commits.push({ bucket, statuses: await statuses(product) }),
    }),
    limits: { operatorCommitWaitMs: 1_500 },
  } as unknown as CampaignActionsDeps);
}

test('all buckets get a status before the response waits for the commit of any', async () => {
  const { product } = await sale.open(8, true);
  const commits: { bucket: number; statuses: unknown[] }[] = [];
  const actions = actionsOf(commits);
  for (const [action, status] of [
    ['pause', 'paused'],
    ['resume', 'open'],
    ['close', 'closed'],
  ] as const) {
    expect((await actions.setStatus(product, action, operator)).status).toBe(status);
    const of = commits.splice(0).sort((a, b) => a.bucket - b.bucket);
    expect(of).toEqual([0, 1, 2, 3].map((bucket) => ({ bucket, statuses: Array(4).fill(status) })));
  }
  // A repetition changes nothing, so it waits for nothing.
  expect((await actions.setStatus(product, 'close', operator)).status).toBe('closed');
  expect(commits).toEqual([]);
});
