import { describe, expect, it } from '@jest/globals';
import {
  campaignNumbersOf,
  canIssue,
  layoutText,
  MAX_REGIONS,
  ownerOfCampaignNo,
  ownerOfCode,
  type RegionLayout,
} from './regions.js';

const names = ['us', 'eu', 'asia'];
const hashed: RegionLayout = { names, prefixes: [] };
const withPrefixes: RegionLayout = {
  names,
  prefixes: [
    { prefix: 'E', region: 'asia' },
    { prefix: 'EU', region: 'eu' },
    { prefix: '', region: 'us' },
  ],
};

describe('ownerOfCode', () => {
  it('takes the longest prefix, and the empty one for all others', () => {
    const owners = ['EUROPE', 'EAST', 'SAVE20'].map((code) => ownerOfCode(code, withPrefixes));
    expect(owners).toEqual(['eu', 'asia', 'us']);
  });

  it('spreads codes without a prefix evenly, also those that differ in their last character', () => {
    const counts = new Map<string, number>();
    for (let i = 0; i < 30_000; i += 1) {
      const owner = ownerOfCode(`CODE${i}`, hashed);
      counts.set(owner, (counts.get(owner) ?? 0) + 1);
    }
    for (const name of names) expect(Math.abs((counts.get(name) ?? 0) - 10_000)).toBeLessThan(400);
  });
});

describe('canIssue', () => {
  it('refuses a prefix whose codes all belong to another region', () => {
    expect(['EU', 'EUX', 'E', ''].map((prefix) => canIssue('eu', prefix, withPrefixes))).toEqual([
      true,
      true,
      true,
      true,
    ]);
    expect(['EUX', 'E', 'A', ''].map((prefix) => canIssue('us', prefix, withPrefixes))).toEqual([
      false,
      false,
      true,
      true,
    ]);
    expect(canIssue('eu', 'US', hashed)).toBe(true);
  });
});

describe('campaignNumbersOf', () => {
  it('gives each region numbers of its own, all within 31 bits', () => {
    const all = Array.from({ length: MAX_REGIONS }, (_, i) => `r${i}`);
    const layout = { names: all, prefixes: [] };
    let next = 1;
    for (const name of all) {
      const { first, last } = campaignNumbersOf(name, layout);
      expect(first).toBe(next);
      expect([ownerOfCampaignNo(first, layout), ownerOfCampaignNo(last, layout)]).toEqual([name, name]);
      next = last + 1;
    }
    expect(next).toBe(2 ** 31);
    expect(ownerOfCampaignNo(2 ** 30, hashed)).toBeNull();
  });
});

describe('layoutText', () => {
  it('depends on the order of the regions and not on that of the prefixes', () => {
    const reversed = { names, prefixes: [...withPrefixes.prefixes].reverse() };
    expect(layoutText(reversed)).toBe(layoutText(withPrefixes));
    expect(layoutText({ names: [...names].reverse(), prefixes: [] })).not.toBe(layoutText(hashed));
  });
});
