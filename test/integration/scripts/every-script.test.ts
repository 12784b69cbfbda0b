import { beforeEach, expect, test } from '@jest/globals';
import { ContractError } from '../../../shared/errors/faults.js';
import { claimKeys, keys } from '../../../shared/redis/keys.js';
import { SALE_SCRIPTS } from '../../../shared/redis/sale-store.js';
import { MAX_FILLED_KEYS } from '../../../shared/redis/scripts/fill.js';
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

for (const script of SALE_SCRIPTS) {
  const [keyCount, argCount] = [script.keys.length, script.args.length];
  const arities: [string, number, number][] = [
    ...('variadicKeys' in script
      ? [
          (script.keys.at(-1) === 'request_keys'
            ? ['a key too few', keyCount - 2, argCount]
            : ['more keys than it takes', MAX_FILLED_KEYS + 3, argCount]) as [string, number, number],
        ]
      : ([
          ['a key too few', keyCount - 1, argCount],
          ['a key too many', keyCount + 1, argCount],
        ] as [string, number, number][])),
    ...('variadic' in script
      ? []
      : ([
          ['an argument too few', keyCount, argCount - 1],
          ['an argument too many', keyCount, argCount + 1],
        ] as [string, number, number][])),
  ];
  for (const [what, keyTotal, args] of arities) {
    test(`${script.name} refuses ${what} and writes nothing`, async () => {
      const before = await snapshot();
      const call = runner.run(script, someKeys(keyTotal), someArgs(args));
      await expect(call).rejects.toThrow(ContractError);
      await expect(call).rejects.toThrow(`${script.name} takes `);
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
  expect(await flushed(() => sold.store.load(sold.terms))).toEqual({ kind: 'known', version: 2 });
  expect(await flushed(() => sold.setStatus('close'))).toMatchObject({ after: 'closed' });
  expect(await sale.audit()).toEqual([]);
});

test('a reply that no contract names is a fault, never a default', async () => {
  const [script] = SALE_SCRIPTS.filter(({ name }) => name === 'promote');
  const contract = { ...script, replies: { not_found: () => ({}) } } as never;
  const product = campaign.product;
  const keyNames = [...claimKeys(product), keys.journal, keys.news(product), keys.epoch];
  await expect(runner.run(contract, keyNames, [1])).rejects.toThrow('replied ["promoted","0"]');
});
