import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { select, testPath } from '../../scripts/changed-tests.mjs';
import { projectRoot } from '../../shared/config/project-root.js';
import { FEATURES } from '../features.mjs';

const E2E = 'test/e2e/sockets.test.ts';
const INTEGRATION = 'test/integration/persist.test.ts';
const SCRIPT = 'test/integration/scripts/reserve.test.ts';
const PROBE = 'test/e2e/worker-probe.test.ts';
const FLASH_SALE = 'test/e2e/flash-sale.test.ts';
const ALL = [E2E, INTEGRATION, 'test/architecture/places.test.ts', 'test/faults/redis.test.ts'];

describe('select', () => {
  it('runs the tests of processes that the table names, and the others by their imports', () => {
    const related = [E2E, INTEGRATION, 'test/faults/redis.test.ts'];
    expect(select(['worker/persist/persist.ts'], related, ALL)).toEqual({
      run: [INTEGRATION, 'test/architecture/places.test.ts'],
      leftOut: [E2E, 'test/faults/redis.test.ts'],
    });
    expect(select(['api/realtime/hub.ts'], [], ALL).run).toContain(E2E);
  });

  it('runs a test that has changed itself', () => {
    const { run } = select(['test/faults/redis.test.ts'], ['test/faults/redis.test.ts'], ALL);
    expect(run).toContain('test/faults/redis.test.ts');
  });

  it('runs a folder of tests that the table names', () => {
    expect(select(['lua/reserve.lua'], [], [SCRIPT, PROBE]).run).toEqual([SCRIPT]);
  });

  it('takes the longest path of the table', () => {
    expect(select(['worker/ops/probe.ts'], [], [PROBE, FLASH_SALE]).run).toEqual([PROBE]);
    expect(select(['worker/main.ts'], [], [PROBE, FLASH_SALE]).run).toEqual([FLASH_SALE]);
  });
});

describe('the table of features', () => {
  it('names paths and tests that exist', () => {
    const paths = Object.keys(FEATURES).filter((path) => path.endsWith('/'));
    const tests = Object.values(FEATURES).flat();
    const missing = [...paths, ...tests.map(testPath)];
    expect(missing.filter((path) => !existsSync(join(projectRoot(), path)))).toEqual([]);
  });

  it('names every end-to-end test', () => {
    const all = readdirSync(join(projectRoot(), 'test/e2e')).map((file) => `e2e/${file.replace('.test.ts', '')}`);
    expect(all.filter((name) => !Object.values(FEATURES).flat().includes(name))).toEqual([]);
  });
});
