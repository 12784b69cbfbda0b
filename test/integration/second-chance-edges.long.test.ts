import { availableParallelism } from 'node:os';
import { describe, expect, test } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import { expectTotals, fails, PASSES, runPlanted, runsOf } from '../harness/planted-run.js';

describe('the second chance of a test file', () => {
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
