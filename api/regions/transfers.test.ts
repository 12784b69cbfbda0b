import { expect, test } from '@jest/globals';
import type { RegionTransfer } from '../../shared/postgres/region-transfers.js';
import { EPOCH_HEADER } from './region.contract.js';
import { Transfers, type TransfersDeps } from './transfers.js';

/** Goes on with one transfer that is in transit. @returns what was recorded about it */
async function sentTo(replied: { epoch: number; status: number }, known: { epoch: number }): Promise<string[]> {
  const recorded: string[] = [];
  const transfer = { id: 't-1', product: 'split', direction: 'out', region: 'eu', units: 5, status: 'in_transit' };
  const regions = {
    ...{ own: 'us', refusal: null, headersTo: () => ({}), epochOf: () => known.epoch },
    linkTo: () => ({
      call: async () => ({ status: replied.status, text: '{}', headers: { [EPOCH_HEADER]: String(replied.epoch) } }),
    }),
  };
  const table = {
    open: async () => [transfer as RegionTransfer],
    note: async (_id: string, detail: string) => void recorded.push(detail),
    advance: async (_id: string, from: string, to: string) => {
      recorded.push(`${from} → ${to}`);
      return { ...transfer, status: to };
    },
  };
  const limits = { regionTransferIdleMs: 0, regionTransfersAtOnce: 10 };
  await new Transfers({ regions, table, limits } as unknown as TransfersDeps).resume();
  return recorded;
}

test('units have arrived only when the present owner of the other region says so', async () => {
  expect(await sentTo({ epoch: 3, status: 200 }, { epoch: 3 })).toEqual(['in_transit → arrived']);
  // What an owner does that was replaced is lost with it.
  expect(await sentTo({ epoch: 2, status: 200 }, { epoch: 3 })).toEqual(['eu: it has an old owner epoch']);
  expect(await sentTo({ epoch: 3, status: 503 }, { epoch: 3 })).toEqual(['eu: it replied with 503']);
});
