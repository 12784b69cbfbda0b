import { afterEach, expect, test } from '@jest/globals';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
afterEach(() => sale.expectConsistent());

test('add_codes raises how many codes there are, and never lowers it', async () => {
  const campaign = await sale.openCampaign({ type: 'pool', codes: 3 });
  const known = async () => (await campaign.inRedis()).fields.codes;
  const last = await sale.journal.lastId();
  expect(await campaign.addCodes(8)).toEqual({ kind: 'added' });
  expect(await known()).toBe('8');
  expect(await campaign.addCodes(5)).toEqual({ kind: 'added' });
  expect(await campaign.addCodes(8)).toEqual({ kind: 'added' });
  expect(await known()).toBe('8');
  expect(await sale.journal.lastId()).toBe(last);
});

test('add_codes compares numbers, not texts', async () => {
  const campaign = await sale.openCampaign({ type: 'pool', codes: 9 });
  await campaign.addCodes(10);
  expect((await campaign.inRedis()).fields.codes).toBe('10');
  await campaign.addCodes(9);
  expect((await campaign.inRedis()).fields.codes).toBe('10');
});

test('add_codes finds no campaign that Redis lacks, and does not make it', async () => {
  const campaign = sale.unknownCampaign();
  expect(await campaign.addCodes(5)).toEqual({ kind: 'not_found' });
  await sale.withoutEpoch(async () => {
    await expect(campaign.addCodes(5)).rejects.toThrow(EngineUnavailable);
  });
  expect((await campaign.inRedis()).fields).toEqual({});
});

test('every reply of the script has come in this file', () => {
  expect(sale.unmetReplies('add_codes')).toEqual([]);
});
