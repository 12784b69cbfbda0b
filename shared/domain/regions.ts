import type { Code } from './codes.js';
import { spread } from './shards.js';

/** Name of a region: of an installation that is the only one to decide about its codes and campaigns. */
export type RegionName = string;

/** Codes that begin with `prefix` belong to `region`. A prefix is in canonical form; "" = all other codes. */
export type CodePrefix = { prefix: string; region: RegionName };

/**
 * What all regions must agree on: their names in the same order, and the prefixes of codes. New regions are added at
 * the end, because the place of a region is in the numbers of its campaigns.
 */
export type RegionLayout = { names: readonly RegionName[]; prefixes: readonly CodePrefix[] };

/** Campaign numbers have 31 bits; the upper four are the place of the region. */
export const MAX_REGIONS = 16;
const NUMBERS_PER_REGION = 2 ** 27;

/**
 * The only region that decides about a code, unless it is the code of a shared campaign: the region of the longest
 * prefix that matches, else one by the hash of the code.
 */
export function ownerOfCode(code: Code | string, { names, prefixes }: RegionLayout): RegionName {
  return longestMatch(code, prefixes)?.region ?? (names[spread(code) % names.length] as RegionName);
}

/**
 * Whether a region can generate codes that begin with a prefix. Those of them that another region owns are left out.
 * @param prefix in canonical form; "" = none
 */
export function canIssue(region: RegionName, prefix: string, { prefixes }: RegionLayout): boolean {
  const match = longestMatch(prefix, prefixes);
  const isOthers = match !== null && match.region !== region;
  return !isOthers || prefixes.some((one) => one.region === region && one.prefix.startsWith(prefix));
}

function longestMatch(text: string, prefixes: readonly CodePrefix[]): CodePrefix | null {
  let longest: CodePrefix | null = null;
  for (const one of prefixes)
    if (text.startsWith(one.prefix) && one.prefix.length >= (longest?.prefix.length ?? 0)) longest = one;
  return longest;
}

/**
 * The region of a user, of those that sell a product together: the only one that gives the user a unit of it.
 * @param regions in the order of REGIONS
 */
export function regionOfUser(user: string, regions: readonly RegionName[]): RegionName {
  return regions[spread(user) % regions.length] as RegionName;
}

/** The regions that sell a campaign together, as its rules have them; null = one region sells it. */
export function storedRegions(rule: unknown): readonly RegionName[] | null {
  return Array.isArray(rule) && rule.length > 1 && rule.every((name) => typeof name === 'string') ? rule : null;
}

/** The region whose campaigns have such numbers; null = there is none. Reservation ids and tickets have the number. */
export function ownerOfCampaignNo(no: number, { names }: RegionLayout): RegionName | null {
  return names[Math.floor(no / NUMBERS_PER_REGION)] ?? null;
}

/** The numbers that the campaigns of a region get, both included. */
export function campaignNumbersOf(region: RegionName, { names }: RegionLayout): { first: number; last: number } {
  const place = names.indexOf(region);
  return { first: Math.max(1, place * NUMBERS_PER_REGION), last: (place + 1) * NUMBERS_PER_REGION - 1 };
}

/** One text for one layout, by which regions notice that their settings differ. */
export function layoutText({ names, prefixes }: RegionLayout): string {
  const sorted = prefixes.map(({ prefix, region }) => `${prefix}=${region}`).sort();
  return `${names.join(',')};${sorted.join(',')}`;
}
