import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { expectTotals, fails, PASSES, runPlanted, runsOf } from '../harness/planted-run.js';

describe('the second chance of a test file', () => {
  test('passes a run whose failed file passes alone, and reports the file as flaky', async () => {
    const run = await runPlanted({ once: fails('runs === 1'), other: PASSES });
    expect(run.code).toBe(0);
    expectTotals(run, '2 passed, 2 total', '3 passed, 3 total');
    expect(run.lastLines.join('\n')).toContain('once.test.mjs › holds');
    expect(run.lastLines.join('\n')).toContain('Error: not this time');
    expect(run.lastLines.join('\n')).toContain('npm test -- once.test.mjs');
    expect(run.flaky).toMatchObject([
      { file: 'once.test.mjs', test: 'holds', error: ['Error: not this time'], command: 'npm test -- once.test.mjs' },
    ]);
    expect(await runsOf(run, 'once')).toBe(2);
    expect(await runsOf(run, 'other')).toBe(1);
  });

  test('fails a run whose failed file fails again', async () => {
    const run = await runPlanted({ always: fails('true'), other: PASSES });
    expect(run.code).toBe(1);
    expectTotals(run, '1 failed, 1 passed, 2 total', '1 failed, 2 passed, 3 total');
    expect(run.lastLines.join('\n')).toContain('always.test.mjs › holds');
    expect(run.lastLines.join('\n')).toContain('Error: not this time');
    expect(run.lastLines.join('\n')).toContain('npm test -- always.test.mjs');
    expect(run.flaky).toEqual([]);
    const failed = JSON.parse(await readFile(join(run.folder, 'test-report/failed.json'), 'utf8'));
    expect(failed).toMatchObject([{ file: 'always.test.mjs', test: 'holds' }]);
    expect(await runsOf(run, 'always')).toBe(2);
  });

  test('tries the counterexample of the first run again, where a property failed', async () => {
    const property = `import fc from 'fast-check';
      import { appendFileSync } from 'node:fs';
      test('all numbers are small', () => {
        fc.assert(fc.property(fc.nat(), (value) => {
          appendFileSync(new URL(\`\${counter}.\${runs}\`), \`\${value}\\n\`);
          return value < 100;
        }), { numRuns: 1_000 });
      });`;
    const run = await runPlanted({ property });
    expect(run.code).toBe(1);
    const valuesOf = async (round: number) =>
      (await readFile(join(run.folder, `property.runs.${round}`), 'utf8')).trim().split('\n');
    const [first, second] = [await valuesOf(1), await valuesOf(2)];
    expect(first).toContain('100');
    expect(second[0]).toBe('100');
    expect(run.lastLines.join('\n')).toMatch(/npm test -- property\.test\.mjs --replay=-?\d+:[\d:]+\n/);
  });
});
