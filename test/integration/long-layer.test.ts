import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { planOf } from '../../scripts/long-layer.mjs';
import { projectRoot } from '../../shared/config/project-root.js';
import { atEnd } from '../harness/cleanup.js';

const item = (name: string, code = '') => ({ command: name, args: ['-e', code] });
const PARTS = [
  [item('a1'), item('a2')],
  [item('b1'), item('b2'), item('b3')],
];
const names = (day: number) => planOf(PARTS, day).map(({ command }) => command);

/** Runs items as `npm run test:long` does, in a process of its own. */
async function run(items: object[], limitMs: number): Promise<{ code: number; output: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'doorbuster-long-'));
  atEnd('the program', () => rm(folder, { recursive: true, force: true }));
  const program = join(folder, 'program.mjs');
  await writeFile(
    program,
    `import { runLong } from '${projectRoot()}/scripts/long-layer.mjs';
    const print = (text = '') => process.stdout.write(text + '\\n');
    const options = { limitMs: ${limitMs}, root: '${folder}', print, before() {}, failuresOf: (n) => ['test of ' + n] };
    process.exitCode = await runLong(${JSON.stringify(items)}, options);`,
  );
  return new Promise((resolve) => {
    execFile(process.execPath, [program], (error, stdout) => {
      resolve({ code: error ? Number(error.code) : 0, output: stdout });
    });
  });
}

describe('npm run test:long', () => {
  test('takes an item of each part in turn, and begins with others on the next day', () => {
    expect(names(20)).toEqual(['a1', 'b3', 'a2', 'b1', 'b2']);
    expect(names(21)).toEqual(['b1', 'a2', 'b2', 'a1', 'b3']);
  });

  test('prints what ran and what failed', async () => {
    const { code, output } = await run([item('good'), item('bad', 'process.exit(3)'), item('last')], 60_000);
    expect(code).toBe(1);
    expect(output.slice(output.indexOf('\nRan:'))).toBe(
      '\nRan:\n  good\n  bad\n  last\nLeft: 0\n  none\nFailed:\n  bad (code 3)\n    test of 2\n',
    );
  });

  test('stops what runs when the time is used up, and prints what is left', async () => {
    const { code, output } = await run([item('endless', 'setInterval(() => {}, 1000)'), item('last')], 500);
    expect(code).toBe(0);
    expect(output.slice(output.indexOf('\nRan:'))).toBe(
      '\nRan:\n  none\nLeft: 2\n  endless\n  last\nFailed:\n  none\n',
    );
  });
});
