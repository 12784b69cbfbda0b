import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import { atEnd } from '../harness/cleanup.js';

type Run = { code: number; output: string; lastLines: string[]; flaky: Record<string, any>[]; folder: string };

/** How often a planted file has run, this time included. */
const COUNT = `
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
const counter = new URL(import.meta.url.replace('.test.mjs', '.runs'));
const runs = 1 + (existsSync(counter) ? Number(readFileSync(counter, 'utf8')) : 0);
writeFileSync(counter, String(runs));
`;
const PASSES = `test('passes', () => {});`;
const fails = (condition: string) => `
import { Violation } from '${projectRoot()}/test/harness/violation.ts';
test('holds', () => { if (${condition}) throw new Error('not this time'); });
test('goes on', () => {});
`;

/** Runs planted files as `npm test` would. */
async function runPlanted(planted: Record<string, string>, ...args: string[]): Promise<Run> {
  const folder = await mkdtemp(join(tmpdir(), 'doorbuster-planted-'));
  atEnd('the planted files', () => rm(folder, { recursive: true, force: true }));
  const config = {
    rootDir: folder,
    testMatch: ['**/*.test.mjs'],
    modulePaths: [join(projectRoot(), 'node_modules')],
    setupFilesAfterEnv: [join(projectRoot(), 'test/harness/replay.ts')],
  };
  await writeFile(
    join(folder, 'jest.config.mjs'),
    `import base from '${projectRoot()}/jest.config.mjs';
    const { extensionsToTreatAsEsm, moduleNameMapper } = base;
    const transform = { '\\\\.ts$': ['${projectRoot()}/node_modules/@swc/jest', base.transform['^.+\\\\.ts$'][1]] };
    export default { extensionsToTreatAsEsm, moduleNameMapper, transform, ...${JSON.stringify(config)} };`,
  );
  for (const [name, code] of Object.entries(planted)) await writeFile(join(folder, `${name}.test.mjs`), COUNT + code);
  const suite = spawn(process.execPath, [join(projectRoot(), 'test/harness/planted-suite.mjs'), folder, ...args]);
  let output = '';
  for (const stream of [suite.stdout, suite.stderr])
    stream.on('data', (chunk) => {
      output += String(chunk);
    });
  const [code] = await once(suite, 'close');
  const flaky: Run['flaky'] = args.includes('--stress')
    ? []
    : JSON.parse(await readFile(join(folder, 'test-report/flaky.json'), 'utf8'));
  return { code: Number(code), output, lastLines: output.trimEnd().split('\n').slice(-60), flaky, folder };
}

const runsOf = async ({ folder }: Run, name: string) => Number(await readFile(join(folder, `${name}.runs`), 'utf8'));

/** Jest's totals are the last lines, and each test counts once. */
function expectTotals({ lastLines }: Run, suites: string, tests: string): void {
  expect(lastLines.slice(-4).map((line) => line.replace(/\s+/g, ' '))).toEqual([
    `Test Suites: ${suites}`,
    `Tests: ${tests}`,
    'Snapshots: 0 total',
    expect.stringMatching(/^Time: /),
  ]);
}

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

  test('names the last troubles of the processes of a file that fails again', async () => {
    const logs = `worker 10:00:00.000 persisting failed {"reason":"a gap"}\\napi 10:00:00.001 Redis availability changed {"open":true}`;
    const run = await runPlanted({
      stuck: `test('holds', () => {
        const error = new Error('no row');
        error.stack = \`Error: no row\\n    at a (b.js:1:1)\\n${logs}\`;
        throw error;
      });`,
    });
    const report = run.output.slice(run.output.indexOf('\nFailed: '));
    expect(report).toContain('    Error: no row\n    worker 10:00:00.000 persisting failed {"reason":"a gap"}\n');
    expect(report).not.toContain('Redis availability changed');
  });

  test('fails a run whose file cannot be loaded', async () => {
    const run = await runPlanted({ broken: `await Promise.reject(new Error('no engine'));` });
    expect(run.code).toBe(1);
    expect(run.lastLines.join('\n')).toContain('broken.test.mjs › the file itself');
    expect(run.lastLines.join('\n')).toContain('no engine');
  });

  test.each([
    ['thrown', `throw new Violation('a unit is lost')`],
    ['of an expectation', `promised(() => expect(['a', 'b']).toEqual(['b', 'a']))`],
    ['of the ledger', `expect({ persisted: 5, drift: 1, lost: 0 }).toMatchObject({ drift: 0, lost: 0 })`],
  ])('is not given after a violation of safety, %s', async (_kind, violate) => {
    const run = await runPlanted({
      once: `import { promised, Violation } from '${projectRoot()}/test/harness/violation.ts';
        test('loses nothing', () => { if (runs === 1) ${violate}; });`,
    });
    expect(run.code).toBe(1);
    expect(run.output).toContain('No second chance: what was promised did not hold (Violation) in once.test.mjs.');
    expect(await runsOf(run, 'once')).toBe(1);
  });

  test('is given to five files, not to six', async () => {
    const names = ['a', 'b', 'c', 'd', 'e', 'f'];
    const some = (count: number) =>
      Object.fromEntries(names.slice(0, count).map((name) => [name, fails('runs === 1')]));
    const five = await runPlanted(some(5));
    expect({ code: five.code, flaky: five.flaky.length }).toEqual({ code: 0, flaky: 5 });
    const six = await runPlanted(some(6));
    expect({ code: six.code, flaky: six.flaky.length }).toEqual({ code: 1, flaky: 0 });
    expect(six.output).toContain('No second chance: 6 files failed, more than 5.');
    for (const name of names) expect(six.lastLines.join('\n')).toContain(`npm test -- ${name}.test.mjs`);
    expect(await runsOf(six, 'a')).toBe(1);
  });

  test('is not given with --no-second-chance', async () => {
    const run = await runPlanted({ once: fails('runs === 1') }, '--no-second-chance');
    expect(run.code).toBe(1);
    expect(await runsOf(run, 'once')).toBe(1);
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

  test('is not needed by a run that passes, whose totals are the last lines', async () => {
    const run = await runPlanted({ one: PASSES, two: PASSES });
    expect(run.code).toBe(0);
    expectTotals(run, '2 passed, 2 total', '2 passed, 2 total');
    expect(run.flaky).toEqual([]);
  });
});

describe('npm test -- --stress', () => {
  test('prints how often each test failed in which setting', async () => {
    const run = await runPlanted({ slow: fails(`process.env.DOORBUSTER_TEST_ENGINE_DELAY_MS === '50'`) }, '--stress');
    expect(run.code).toBe(1);
    const copies = Math.ceil(1.5 * availableParallelism());
    const cells = (...last: string[]) => ['0/1', `0/${copies}`, '0/1', ...last];
    const rows = run.output.split('\n').map((line) => line.trim().split(/\s{2,}/));
    expect(rows).toContainEqual(['alone', 'beside', 'busy', '0 ms', '5 ms', '50 ms']);
    expect(rows).toContainEqual([...cells('0/1', '0/1', '1/1'), 'slow.test.mjs › holds']);
    expect(rows).toContainEqual([...cells('0/1', '0/1', '0/1'), 'slow.test.mjs › goes on']);
    expect(run.output).toContain('Error: not this time');
  });

  test('ends when no file matches', async () => {
    const none = await runPlanted({ fine: PASSES }, '--stress', 'no-such-file');
    expect(none.code).toBe(1);
    expect(none.output).toContain('alone-1-1.log says why');
  });
});
