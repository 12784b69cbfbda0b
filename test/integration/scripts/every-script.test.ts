import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, test } from '@jest/globals';
import { ContractError } from '../../../shared/errors/faults.js';
import { saleKeys } from '../../../shared/redis/keys.js';
import { readHeader } from '../../../shared/redis/script-header.js';
import { loadScript } from '../../../shared/redis/script-source.js';
import { SALE_SCRIPTS } from '../../../shared/sale/sale-scripts.js';
import { startSale } from '../../harness/sale.js';

/** What holds for every script in lua/, a new one included. */
const sale = await startSale();
const runner = sale.store.scripts;
const campaign = await sale.openCampaign();
const snapshot = async () => [await sale.redis.dbsize(), await campaign.inRedis(), await sale.journal.lastId()];

/** Keys of nothing, under the hash tag of the campaign. */
const someKeys = (count: number) => Array.from({ length: count }, (_, i) => `{${campaign.product}}:none:${i}`);
const someArgs = (count: number) => Array.from({ length: count }, () => '1');

beforeEach(async () => {
  // As after a restart of Redis, in the middle of everything.
  await sale.redis.script('FLUSH');
});

for (const { name } of SALE_SCRIPTS) {
  const {
    keys: declaredKeys,
    args,
    each,
    maxListedKeys,
    maxRows,
  } = readHeader(readFileSync(join(runner.luaFolder, `${name}.lua`), 'utf8'));
  const keyCount = declaredKeys.filter((key) => !key.endsWith('...')).length;
  const most = { keys: keyCount + maxListedKeys, args: args.length + maxRows * each.length };
  const arities: [string, number, number][] = [
    ['a key too few', keyCount - 1, args.length],
    ['a key too many', most.keys + 1, args.length],
    ...(args.length > 0 ? [['an argument too few', keyCount, args.length - 1] as [string, number, number]] : []),
    ['an argument too many', keyCount, most.args + 1],
    ...(each.length > 1 ? [['half a row', keyCount, args.length + 1] as [string, number, number]] : []),
  ];
  for (const [what, keyTotal, argTotal] of arities) {
    test(`${name} refuses ${what} and writes nothing`, async () => {
      const before = await snapshot();
      const { source } = loadScript(runner.luaFolder, name);
      const call = sale.redis.eval(source, keyTotal, ...someKeys(keyTotal), ...someArgs(argTotal));
      await expect(call).rejects.toThrow(`${name} takes `);
      expect(await snapshot()).toEqual(before);
    });
  }
}

test('a script that Redis has forgotten is sent again, in the middle of a sale', async () => {
  const sold = await sale.openCampaign({ totalLimit: 1, perUserLimit: 2 });
  const flushed = async <Value>(call: () => Promise<Value>): Promise<Value> => {
    await sale.redis.script('FLUSH');
    return call();
  };
  const first = await flushed(() => sold.take('ann'));
  await flushed(() => sold.join('bob'));
  await flushed(() => sold.join('cid'));
  expect(await flushed(() => sold.leave('cid'))).toMatchObject({ kind: 'left' });
  expect(await flushed(() => sold.release(first))).toMatchObject({ kind: 'released' });
  const second = String((await sold.person('bob'))?.reservation);
  expect(await flushed(() => sold.confirm(second))).toMatchObject({ kind: 'redeemed' });
  expect(await flushed(() => sold.refund(second))).toMatchObject({ kind: 'refunded', returned: true });
  expect(await flushed(() => sold.void(second, 'returns'))).toEqual({ kind: 'not_active', state: 'refunded' });
  expect(await flushed(() => sold.restock(1))).toMatchObject({ total: 2 });
  expect(await flushed(() => sold.promote())).toEqual({ kind: 'promoted', count: 0 });
  expect(await flushed(() => sold.expire())).toMatchObject({ kind: 'swept' });
  expect(await flushed(() => sold.standing('ann'))).toMatchObject({ status: 'released' });
  expect(await flushed(() => sold.positions(['ann']))).toMatchObject({ positions: [0] });
  expect(await flushed(() => sold.amend({}))).toEqual({ kind: 'amended' });
  expect(await flushed(() => sold.store.campaigns.load(sold.terms))).toEqual({ kind: 'known', version: 2 });
  expect(await flushed(() => sold.setStatus('close'))).toMatchObject({ after: 'closed' });
  await sale.expectConsistent();
});

test('a reply that no contract names is a fault, never a default', async () => {
  const [script] = SALE_SCRIPTS.filter(({ name }) => name === 'promote');
  const contract = { ...script, replies: { not_found: () => ({}) } } as never;
  const call = runner.run(contract, { keys: saleKeys(campaign.product), args: { limit: 1, up_to: null } } as never);
  await expect(call).rejects.toThrow(ContractError);
  await expect(call).rejects.toThrow('replied ["promoted","0"]');
});
