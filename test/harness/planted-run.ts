import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import { atEnd } from './cleanup.js';

type Run = { code: number; output: string; lastLines: string[]; flaky: Record<string, any>[]; folder: string };

/** How often a planted file has run, this time included. */
const COUNT = `
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
const counter = new URL(import.meta.url.replace('.test.mjs', '.runs'));
const runs = 1 + (existsSync(counter) ? Number(readFileSync(counter, 'utf8')) : 0);
writeFileSync(counter, String(runs));
`;
export const PASSES = `test('passes', () => {});`;
export const fails = (condition: string) => `
import { Violation } from '${projectRoot()}/test/harness/violation.ts';
test('holds', () => { if (${condition}) throw new Error('not this time'); });
test('goes on', () => {});
`;

/** Runs planted files as `npm test` would. */
export async function runPlanted(planted: Record<string, string>, ...args: string[]): Promise<Run> {
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

export const runsOf = async ({ folder }: Run, name: string) =>
  Number(await readFile(join(folder, `${name}.runs`), 'utf8'));

/** Jest's totals are the last lines, and each test counts once. */
export function expectTotals({ lastLines }: Run, suites: string, tests: string): void {
  expect(lastLines.slice(-4).map((line) => line.replace(/\s+/g, ' '))).toEqual([
    `Test Suites: ${suites}`,
    `Tests: ${tests}`,
    'Snapshots: 0 total',
    expect.stringMatching(/^Time: /),
  ]);
}
