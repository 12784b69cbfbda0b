import { expect, test } from '@jest/globals';
import { canonicalNetwork, isRange, NetworkRanges } from './networks.js';

test('one network has one notation, the one that addresses are counted by', () => {
  const same: [string, string][] = [
    ['203.0.113.7', '203.0.113.7'],
    ['203.0.113.7/32', '203.0.113.7'],
    ['::ffff:203.0.113.7', '203.0.113.7'],
    ['203.0.113.99/24', '203.0.113.0/24'],
    ['10.200.3.4/9', '10.128.0.0/9'],
    ['2001:DB8::1', '2001:db8:0:0::/64'],
    ['2001:db8::1/128', '2001:db8:0:0::/64'],
    ['2001:db8:1:2:3::/64', '2001:db8:1:2::/64'],
    ['2001:db8:ffff::/33', '2001:db8:8000:0::/33'],
    ['::ffff:cb00:7107', '203.0.113.7'],
    ['64:ff9b::cb00:7107/128', '203.0.113.7'],
    ['2002:cb00:7107::1', '203.0.113.7'],
  ];
  for (const [written, known] of same) expect([written, canonicalNetwork(written)]).toEqual([written, known]);
});

test('what is no network, or so large that it must be a mistake, is none', () => {
  const wrong = [
    '',
    'x',
    '1',
    '0x7f.1',
    '203.0.113',
    '203.0.113.7/33',
    '203.0.113.7/7',
    '0.0.0.0/0',
    '::/0',
    '2001::/15',
  ];
  const strange = ['2001:db8::/129', '203.0.113.7/', '203.0.113.7/2x', '203.0.113.7/24/24', '203.0.113.256', 'a:b'];
  const other = ['203.0.113.7:80', '[2001:db8::1]', 'fe80::1%1', '2002::/16', '2002:cb00:7107::/48', '::ffff:0:0/96'];
  for (const text of [...wrong, ...strange, ...other]) expect([text, canonicalNetwork(text)]).toEqual([text, null]);
});

test('a network is found in every range around it, and in no other', () => {
  const ranges = new NetworkRanges<string>();
  for (const range of ['203.0.113.0/24', '203.0.0.0/16', '2001:db8:8000:0::/33']) {
    expect(isRange(range)).toBe(true);
    ranges.set(range, range);
  }
  expect([...ranges.around('203.0.113.255')].sort()).toEqual(['203.0.0.0/16', '203.0.113.0/24']);
  expect([...ranges.around('203.0.114.1')]).toEqual(['203.0.0.0/16']);
  expect([...ranges.around('203.1.0.0')]).toEqual([]);
  expect([...ranges.around('2001:db8:8001:0::/64')]).toEqual(['2001:db8:8000:0::/33']);
  expect([...ranges.around('2001:db8:7fff:0::/64')]).toEqual([]);
  expect([...ranges.around('unknown')]).toEqual([]);
  ranges.delete('203.0.0.0/16');
  expect([[...ranges.around('203.0.114.1')], ranges.size]).toEqual([[], 2]);
});
