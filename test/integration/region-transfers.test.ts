import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import type { ProductId } from '../../shared/domain/ids.js';
import { RegionTransfers } from '../../shared/postgres/region-transfers.js';
import { createTestDatabase } from '../harness/engines.js';
import { connectDatabase } from '../harness/persistence.js';

const { url } = await createTestDatabase();
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
