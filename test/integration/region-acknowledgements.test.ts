import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import type { ReservationId } from '../../shared/domain/ids.js';
import { type RegionAcknowledgement, RegionAcknowledgements } from '../../shared/postgres/region-acknowledgements.js';
import { forgetRegions } from '../../worker/forget-regions/forget-regions.js';
import { createTestDatabase } from '../harness/engines.js';
import { connectDatabase } from '../harness/persistence.js';

const { client: sql, url } = await createTestDatabase();
const table = new RegionAcknowledgements(connectDatabase(url));
const FIRST = { atMs: 0, id: '00000000-0000-0000-0000-000000000000' };

const returned = (more: Partial<RegionAcknowledgement>): RegionAcknowledgement => ({
  ...{ id: randomUUID(), atMs: 1_000, region: 'us', epoch: 1, operation: 'redeem', product: null, status: 'redeemed' },
  ...{
    reservation: '01a1fc6d-483b-7a4a-9e25-913b00000001' as ReservationId,
    qty: null,
    payment: null,
    requestId: 'r',
    unrecorded: 0,
  },
  ...more,
});

test('decisions of one region under earlier epochs come in pages, and gaps of any region with them', async () => {
  const ofUs = [3, 1, 2].map((n) => returned({ atMs: n * 1_000, requestId: `us-${n}` }));
  const gap = returned({ region: 'eu', atMs: 4_000, unrecorded: 5, requestId: 'gap' });
  const rows = [
    ...ofUs,
    gap,
    returned({ region: 'eu', requestId: 'eu' }),
    returned({ epoch: 9, requestId: 'of the new owner' }),
  ];
  await table.insert(rows);
  // As after a lost answer.
  await table.insert(rows.slice(0, 2));
  const pages: string[][] = [];
  for (let after: { atMs: number; id: string } = FIRST; ; ) {
    const page = await table.page('us', 9, after, 3);
    pages.push(page.map(({ requestId }) => requestId));
    const last = page.at(-1);
    if (!last || page.length < 3) break;
    after = last;
  }
  expect(pages).toEqual([['us-1', 'us-2', 'us-3'], ['gap']]);
  expect(await table.page('us', 2, { ...FIRST, atMs: 2_500 }, 9)).toEqual([ofUs[0], gap]);
});

test('decisions that were returned long ago are deleted, oldest first, no more at once than it may', async () => {
  await sql.query('delete from region_acknowledgements');
  const now = Date.now();
  await table.insert([40, 30, 20, 10].map((age) => returned({ atMs: now - age * 60_000, requestId: `${age}` })));
  const limits = {
    transfersKeepMs: 0,
    acknowledgementsKeepMs: 15 * 60_000,
    pruneBatch: 1,
    attemptsPruneBatches: 2,
  };
  const left = async () => (await table.page('us', 9, FIRST, 9)).map(({ requestId }) => requestId);
  await forgetRegions(table, { prune: async () => 0 }, limits);
  expect(await left()).toEqual(['20', '10']);
  await forgetRegions(table, { prune: async () => 0 }, limits);
  expect(await left()).toEqual(['10']);
});
