import { z } from 'zod';
import { MAX_PREFIX_CHARACTERS, normaliseCode } from '../domain/codes.js';
import { type CodePrefix, MAX_REGIONS, type RegionLayout, type RegionName } from '../domain/regions.js';
import { type ApiKey, apiKeys } from './environment-values.js';

/** This installation as one of several regions. */
export type RegionsConfig = {
  own: RegionName;
  /** Of this region, without a slash at the end. */
  url: string;
  layout: RegionLayout;
  /** The other regions, with the URL of their API without a slash at the end. */
  peers: readonly { name: RegionName; url: string }[];
  /** The first is sent, all are accepted. The same in all regions. */
  keys: readonly ApiKey[];
};

/** What a region may be called. */
export const REGION_NAME = /^[a-z][a-z0-9-]{0,15}$/;
const NAME_RULE = 'must be 1 to 16 characters of a-z 0-9 and hyphens, the first a letter';

const regions = z.string().transform((value, context) => {
  const entries = value.split(',').map((entry) => {
    const [, name = '', url = ''] = /^\s*([^=\s]+)=(\S+)\s*$/.exec(entry) ?? [];
    const isUrl = URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
    if (!REGION_NAME.test(name) || !isUrl)
      context.addIssue({ code: 'custom', message: `must be name=url, comma-separated; \`${entry.trim()}\` is none` });
    return { name, url: url.replace(/\/+$/, '') };
  });
  if (new Set(entries.map(({ name }) => name)).size !== entries.length)
    context.addIssue({ code: 'custom', message: 'must not name a region twice' });
  if (entries.length < 2 || entries.length > MAX_REGIONS)
    context.addIssue({ code: 'custom', message: `must be 2 to ${MAX_REGIONS} regions` });
  return entries;
});

const prefixes = z.string().transform((value, context): CodePrefix[] => {
  const entries = value.split(',').map((entry) => {
    const [, typed, region = ''] = /^\s*([^=]*)=(\S+)\s*$/.exec(entry) ?? [];
    const prefix = normaliseCode(typed ?? '');
    const isPrefix = prefix.kind === 'empty' || (prefix.kind === 'code' && prefix.code.length <= MAX_PREFIX_CHARACTERS);
    if (typed === undefined || !isPrefix || !REGION_NAME.test(region))
      context.addIssue({
        code: 'custom',
        message: `must be prefix=region, comma-separated; \`${entry.trim()}\` is none`,
      });
    return { prefix: prefix.kind === 'code' ? prefix.code : '', region };
  });
  if (new Set(entries.map(({ prefix }) => prefix)).size !== entries.length)
    context.addIssue({ code: 'custom', message: 'must not have a prefix twice' });
  return entries;
});

/** The environment variables for regions. */
export const REGIONS_ENVIRONMENT = {
  REGION: z
    .string()
    .regex(REGION_NAME, NAME_RULE)
    .optional()
    .describe(
      'name of this installation among several regions (docs/regions.md). Unset: it is the only one, and the other settings of regions are ignored',
    ),
  REGIONS: regions
    .optional()
    .describe(
      'all regions, this one included, comma-separated `name=url` with the URL of their API; in the same order everywhere, new ones at the end',
    ),
  REGION_KEYS: apiKeys
    .optional()
    .describe(
      'secrets of calls between regions, comma-separated `name:secret`; the first is sent, all are accepted. The same in all regions',
    ),
  REGION_CODE_PREFIXES: prefixes
    .optional()
    .describe(
      'regions of codes by their prefix, comma-separated `prefix=region`, the longest match first; `=region` = all others. Unset or without a match: the hash of the code. The same in all regions',
    ),
};
export type RegionsEnvironment = z.infer<z.ZodObject<typeof REGIONS_ENVIRONMENT>>;

type Given = Record<string, string | undefined>;

/** Problems of settings of regions that do not fit together. */
export function regionsProblems(given: Given): string[] {
  if (given.REGION === undefined) return [];
  const problems = ['REGIONS', 'REGION_KEYS']
    .filter((name) => given[name] === undefined)
    .map((name) => `${name} is missing: it is required with REGION`);
  const names = (given.REGIONS ?? '').split(',').map((entry) => entry.split('=')[0]?.trim());
  if (given.REGIONS !== undefined && !names.includes(given.REGION))
    problems.push(`REGION = "${given.REGION}": must be one of REGIONS`);
  for (const entry of given.REGION_CODE_PREFIXES?.split(',') ?? []) {
    const region = entry.split('=')[1]?.trim();
    if (region && !names.includes(region)) problems.push(`REGION_CODE_PREFIXES: ${region} is not one of REGIONS`);
  }
  return problems;
}

/** @returns null when this installation is the only one */
export function regionsOf(e: RegionsEnvironment): RegionsConfig | null {
  if (e.REGION === undefined || e.REGIONS === undefined || e.REGION_KEYS === undefined) return null;
  return {
    own: e.REGION,
    url: e.REGIONS.find(({ name }) => name === e.REGION)?.url ?? '',
    layout: { names: e.REGIONS.map(({ name }) => name), prefixes: e.REGION_CODE_PREFIXES ?? [] },
    peers: e.REGIONS.filter(({ name }) => name !== e.REGION),
    keys: e.REGION_KEYS,
  };
}
