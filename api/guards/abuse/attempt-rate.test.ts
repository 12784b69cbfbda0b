import { expect, test } from '@jest/globals';
import { AttemptRate } from './attempt-rate.js';

const campaign = { product: 'p', limits: { surgeAttemptsPerMinute: 6_000 } };
const rateOf = (attempts: Record<string, number>) => {
  const rate = new AttemptRate({ callersKept: 1_000, surgeAttemptsPerMinute: 20_000 });
  for (const [network, times] of Object.entries(attempts))
    for (let i = 0; i < times; i += 1) rate.add(campaign, network);
  return rate;
};

test('a network beyond the limit of a campaign storms it, and counts for a tenth of the limit to all others', () => {
  const rate = rateOf({ '192.0.2.1': 101, '192.0.2.2': 1 });
  expect(['192.0.2.1', '192.0.2.2', '192.0.2.3'].map((network) => rate.isSurging(campaign, network))).toEqual([
    true,
    false,
    false,
  ]);
  expect([rate.perSecond('p'), rate.perSecond('p', '192.0.2.1')]).toEqual([11, 101]);
});

test('many networks storm a campaign for all, and no other one', () => {
  const networks = Array.from({ length: 11 }, (_, i) => [`192.0.2.${i}`, 100]);
  const rate = rateOf(Object.fromEntries(networks));
  expect(rate.isSurging(campaign, '203.0.113.1')).toBe(true);
  expect(rate.isSurging({ ...campaign, product: 'other' }, '203.0.113.1')).toBe(false);
  rate.nextSecond();
  expect(rate.isSurging(campaign, '203.0.113.1')).toBe(true);
  rate.nextSecond();
  expect(rate.isSurging(campaign, '203.0.113.1')).toBe(false);
});
