import { expect, test } from '@jest/globals';
import { ConfigError, readConfig } from './config.js';

const GIVEN = { REDIS_URL: 'redis://127.0.0.1', DATABASE_URL: 'postgres://127.0.0.1/db' };
const REGIONS = 'us=https://us.example/api/, eu=http://10.0.0.1:8102';
const GOOD = { ...GIVEN, REGION: 'eu', REGIONS, REGION_KEYS: 'now:a-secret-of-regions-1,then:a-secret-of-regions-0' };

function problemsOf(env: NodeJS.ProcessEnv): readonly string[] {
  try {
    readConfig(env);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}

test('reads the regions with their prefixes in canonical form, and ignores them without REGION', () => {
  expect(readConfig({ ...GOOD, REGION_CODE_PREFIXES: 'us-=us, e-u=eu,=us' }).regions).toEqual({
    own: 'eu',
    url: 'http://10.0.0.1:8102',
    layout: {
      names: ['us', 'eu'],
      prefixes: [
        { prefix: 'US', region: 'us' },
        { prefix: 'EU', region: 'eu' },
        { prefix: '', region: 'us' },
      ],
    },
    peers: [{ name: 'us', url: 'https://us.example/api' }],
    keys: [
      { name: 'now', secret: 'a-secret-of-regions-1' },
      { name: 'then', secret: 'a-secret-of-regions-0' },
    ],
  });
  expect(readConfig({ ...GIVEN, REGIONS }).regions).toBeNull();
});

test('reports settings of regions that are missing or do not fit together', () => {
  expect(problemsOf({ ...GIVEN, REGION: 'eu' })).toEqual([
    'REGIONS is missing: it is required with REGION',
    'REGION_KEYS is missing: it is required with REGION',
  ]);
  expect(problemsOf({ ...GOOD, REGION: 'asia' })).toEqual(['REGION = "asia": must be one of REGIONS']);
  expect(problemsOf({ ...GOOD, REGION_CODE_PREFIXES: 'A=asia' })).toEqual([
    'REGION_CODE_PREFIXES: asia is not one of REGIONS',
  ]);
  expect(problemsOf({ ...GOOD, REGIONS: 'eu=https://eu.example' })).toEqual([
    'REGIONS = "eu=https://eu.example": must be 2 to 16 regions',
  ]);
  expect(problemsOf({ ...GOOD, REGIONS: 'eu=https://eu.example,us=ftp://us' })[0]).toContain('`us=ftp://us` is none');
  expect(problemsOf({ ...GOOD, REGIONS: `${REGIONS},eu=http://other` })[0]).toContain('must not name a region twice');
  expect(problemsOf({ ...GOOD, REGION_CODE_PREFIXES: 'A=us,a=eu' })[0]).toContain('must not have a prefix twice');
});
