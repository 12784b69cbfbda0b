import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import type { ProductId } from '../../shared/domain/ids.js';
import { RegionTransfers } from '../../shared/postgres/region-transfers.js';
import { forgetRegions } from '../../worker/forget-regions/forget-regions.js';
import { createTestDatabase } from '../harness/engines.js';
import { connectDatabase } from '../harness/persistence.js';

const { client: sql, url } = await createTestDatabase();
const table = new RegionTransfers(connectDatabase(url));

const begin = () => {
  const begun = { id: randomUUID(), product: 'split' as ProductId, direction: 'out', region: 'eu', units: 5 } as const;
  return table.begin({ ...begun, status: 'leaving', actor: 'olga' });
};

test('a transfer goes on from the status in which a process has found it, and from no other', async () => {
  const { id } = await begin();
  expect(await table.advance(id, 'leaving', 'in_transit', null)).toMatchObject({ status: 'in_transit' });
  // A slower process comes to another result.
  expect(await table.advance(id, 'leaving', 'refused', 'too few units')).toMatchObject({
    ...{ status: 'in_transit', detail: null },
  });
  expect(await table.advance(id, 'in_transit', 'arrived', null)).toMatchObject({ status: 'arrived' });
  expect(await table.advance(id, 'in_transit', 'returning', 'refused')).toMatchObject({ status: 'arrived' });
});

test('transfers that are done are deleted when they are old, and units on their way for too long are left to an operator', async () => {
  await sql.query('delete from region_transfers');
  const DAY_MS = 86_400_000;
  const transfer = async (status: string, days: number) => {
    const { id } = await begin();
    await sql.query(
      'update region_transfers set status = $2, created_at = now() - make_interval(days => $3) where transfer_id = $1',
      [id, status, days],
    );
    return id;
  };
  for (const status of ['arrived', 'refused', 'returned', 'arrived']) await transfer(status, 70);
  const kept = [
    await transfer('arrived', 50),
    await transfer('arriving', 70),
    await transfer('stuck', 70),
    await transfer('returning', 70),
    await transfer('in_transit', 20),
  ];
  const late = await transfer('in_transit', 40);
  await table.giveUp(30 * DAY_MS, 'no reply');
  expect(await table.ofProduct('split' as ProductId, 99)).toContainEqual(
    expect.objectContaining({ id: late, status: 'stuck', detail: 'no reply' }),
  );
  const limits = { acknowledgementsKeepMs: 0, transfersKeepMs: 60 * DAY_MS, pruneBatch: 2 };
  await forgetRegions({ prune: async () => 0 }, table, { ...limits, attemptsPruneBatches: 1 });
  expect(await table.ofProduct('split' as ProductId, 99)).toHaveLength(8);
  await forgetRegions({ prune: async () => 0 }, table, { ...limits, attemptsPruneBatches: 9 });
  const left = await table.ofProduct('split' as ProductId, 99);
  expect(left.map(({ id }) => id).sort()).toEqual([...kept, late].sort());
  expect(left.find(({ id }) => id === kept[4])?.status).toBe('in_transit');
});
