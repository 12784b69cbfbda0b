import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { expect, jest, test } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import { Violation } from '../harness/violation.js';

/** Three quarters of a minute takes two minutes on a quiet machine. */
const LIMIT_MS = 600_000;
jest.setTimeout(LIMIT_MS);

const OUTPUT_CHARACTERS = 6_000;
const MINUTES = '0.75';
/** Violations that a busy machine may cause. They get a second chance, alone on the machine; no other one does. */
const OF_TIME = /^(?:recovery|responses: (?:no response|a response took))/;
const kindsOf = (output: string) => [...output.matchAll(/^ *\d+ × (.+)/gm)].map(([, kind]) => String(kind));

/** The faults and choices that every run of the suite has. Another seed is one call of `npm run torture` away. */
test.each([
  ['in one shard', '11', []],
  ['in four shards, and in divided campaigns', '14', ['--shards', '4']],
])('a history under random faults keeps the contract %s', async (_, seed, more) => {
  const { code, output } = await torture('--seed', seed, '--minutes', MINUTES, ...more);
  // The program ends with 1 for violations alone. What it found comes after its long log.
  const found = output.slice(output.search(/^VIOLATION/m));
  const shown = found.slice(0, OUTPUT_CHARACTERS);
  if (code === 1) throw kindsOf(found).every((kind) => OF_TIME.test(kind)) ? new Error(shown) : new Violation(shown);
  expect(output).toContain(`PASSED  seed ${seed}`);
  expect(code).toBe(0);
});

/** Runs the program in its own process, as a person would. */
function torture(...args: string[]): Promise<{ code: number; output: string }> {
  const main = join(projectRoot(), 'torture/main.mjs');
  return new Promise((resolve) => {
    const options = { cwd: projectRoot(), timeout: LIMIT_MS - 10_000, maxBuffer: 1 << 26 };
    execFile(process.execPath, [main, ...args], options, (error, stdout, stderr) => {
      resolve({ code: error ? Number(error.code) : 0, output: stdout + stderr });
    });
  });
}
