import { expect, test } from '@jest/globals';
import type { RegionTransfer } from '../../shared/postgres/region-transfers.js';
import { EPOCH_HEADER } from './region.contract.js';
import { Transfers, type TransfersDeps } from './transfers.js';

/** Goes on with one transfer that is in transit. @returns what was recorded about it */
async function sentTo(
  replied: { epoch: number; status: number; text?: string },
  known: { epoch: number },
): Promise<string[]> {
  const recorded: string[] = [];
  const transfer = { id: 't-1', product: 'split', direction: 'out', region: 'eu', units: 5, status: 'in_transit' };
  const regions = {
    ...{ own: 'us', refusal: null, headersTo: () => ({}), epochOf: () => known.epoch },
    linkTo: () => ({
      call: async () => ({
        status: replied.status,
        text: replied.text ?? '{}',
        headers: { [EPOCH_HEADER]: String(replied.epoch) },
      }),
    }),
  };
  const table = {
    giveUp: async () => {},
    open: async () => [transfer as RegionTransfer],
    note: async (_id: string, detail: string) => void recorded.push(detail),
    advance: async (_id: string, from: string, to: string) => {
      recorded.push(`${from} → ${to}`);
      return { ...transfer, status: to };
    },
  };
  const limits = { transferIdleMs: 0, transfersAtOnce: 10 };
  await new Transfers({ regions, table, limits } as unknown as TransfersDeps).resume();
  return recorded;
}

/**
 * Goes on with a transfer that returns, after Postgres was set back and repaired: the audit entry is lost.
 * @param known what Redis knows of the change before and after the commit
 */
async function returnedAfterRepair(known: readonly [string, string]): Promise<string[]> {
  const recorded: string[] = [];
  const transfer = { id: 't-1', product: 'split', direction: 'out', region: 'eu', units: 5, status: 'returning' };
  const replies = known.map((journalId) => ({ kind: 'restocked', total: 9, journalId }));
  const table = {
    giveUp: async () => {},
    open: async () => [transfer as RegionTransfer],
    lock: async () => ({ ...transfer, agedMs: 0 }),
    isCommitted: async () => false,
    advance: async (_id: string, from: string, to: string) => {
      recorded.push(`${from} → ${to}`);
      return { ...transfer, status: to };
    },
  };
  const deps = {
    table,
    regions: { refusal: null },
    database: { transaction: (work: (client: unknown) => unknown) => work({}) },
    sales: { of: () => ({ campaigns: { restock: async () => replies.shift() } }) },
    acknowledgements: { entryOf: async (_product: string, id: string) => id },
    commitsOf: () => ({ committed: async () => {} }),
    limits: { transferIdleMs: 0, transfersAtOnce: 10, idempotencyTtlMs: 86_400_000, promoteBatch: 100 },
    log: { debug: () => {} },
  };
  await new Transfers(deps as unknown as TransfersDeps).resume();
  return recorded;
}

test('a change of stock whose audit entry is lost counts when Redis still knows it after the commit', async () => {
  expect(await returnedAfterRepair(['7-1', '7-1'])).toEqual(['returning → returned']);
  // A history of Redis without the first change began meanwhile, so it was made anew.
  expect(await returnedAfterRepair(['7-1', '8-1'])).toEqual([]);
});

test('units have arrived only when the present owner of the other region says so', async () => {
  expect(await sentTo({ epoch: 3, status: 200 }, { epoch: 3 })).toEqual(['in_transit → arrived']);
  // What an owner does that was replaced is lost with it.
  expect(await sentTo({ epoch: 2, status: 200 }, { epoch: 3 })).toEqual(['eu: it has an old owner epoch']);
  expect(await sentTo({ epoch: 3, status: 503 }, { epoch: 3 })).toEqual(['eu: it replied with 503']);
  // A proxy's page.
  const page = { epoch: 3, status: 409, text: '<html>' };
  expect(await sentTo(page, { epoch: 3 })).toEqual(['eu: it replied with 409']);
});
