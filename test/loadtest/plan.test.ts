import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { DEFAULT_COSTS, readCosts } from '../../loadtest/plan/costs.mjs';
import { projectRoot } from '../../shared/config/project-root.js';
import { folderOfTest } from './load-test.js';

/** Runs `npm run plan` as a person would, with few requests. */
function plan(...args: string[]): Promise<{ code: number; output: string }> {
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, PLAN_REQUESTS: '200' };
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [join(projectRoot(), 'loadtest/plan/main.mjs'), ...args],
      { env },
      (error, stdout, stderr) => resolve({ code: error ? Number(error.code ?? -1) : 0, output: `${stdout}${stderr}` }),
    );
  });
}

test('--measure writes costs of this machine from which a plan is made', async () => {
  const path = join(folderOfTest(), 'costs.json');
  const measured = await plan('--measure', '--write', path);
  expect([measured.code, measured.output]).toEqual([0, expect.stringContaining(`--costs ${path}`)]);

  const { cpu_us, bytes, persisted_per_second, source } = readCosts(path);
  expect(source).toBe('npm run plan -- --measure');
  for (const kind of ['checkout', 'place', 'refusal', 'poll'] as const) {
    expect([kind, cpu_us[kind].api > 0, cpu_us[kind].redis > 0]).toEqual([kind, true, true]);
    expect(cpu_us[kind]).not.toEqual(DEFAULT_COSTS.cpu_us[kind]);
  }
  expect([cpu_us.checkout.worker > 0, cpu_us.checkout.postgres > 0, persisted_per_second > 0]).toEqual([
    true,
    true,
    true,
  ]);
  expect(bytes.redis_journal_entry).toBeGreaterThan(50);
  expect(bytes.redis_in).toBeGreaterThan(100);
  expect(bytes.postgres_wal).toBeGreaterThan(100);

  const { code, output } = await plan('--people', '100', '--units', '10', '--within', '10s', '--costs', path);
  expect([code, output]).toEqual([0, expect.stringContaining('Costs: npm run plan -- --measure')]);
});

test('--measure names a file that cannot be written', async () => {
  const { code, output } = await plan('--measure', '--write', join(folderOfTest(), 'no-such-folder', 'costs.json'));
  expect(code).toBe(2);
  expect(output).toMatch(/The costs cannot be written: ENOENT/);
  expect(output).not.toMatch(/at .*\.mjs:\d+/);
});
