import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { projectRoot } from '../../shared/config/project-root.js';
import { atEnd } from '../harness/cleanup.js';

export type LoadTest = { code: number; output: string; reports: string[] };

/** A folder that is gone with the test file. */
export function folderOfTest(): string {
  const folder = mkdtempSync(join(tmpdir(), 'doorbuster-load-test-'));
  atEnd('the folder of a load test', () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Runs `npm run loadtest` as a person would; its reports go to a folder of its own. */
export function loadTest(env: NodeJS.ProcessEnv, ...args: string[]): Promise<LoadTest> {
  const reports = folderOfTest();
  const main = join(projectRoot(), 'loadtest/main.mjs');
  const whole = { PATH: process.env.PATH, HOME: process.env.HOME, DATA_DIR: reports, ...env };
  return new Promise((resolve) => {
    const all = [main, ...args, '--reports', reports];
    execFile(process.execPath, all, { env: whole, maxBuffer: 1 << 24 }, (error, stdout, stderr) => {
      resolve({
        code: error ? Number(error.code ?? -1) : 0,
        output: `${stdout}${stderr}`,
        reports: readdirSync(reports).map((name) => join(reports, name)),
      });
    });
  });
}

/** The report of a run with this ending. */
export function reportOf({ reports, output }: LoadTest, ending: '.json' | '.html'): { path: string; text: string } {
  const path = reports.find((name) => name.endsWith(ending));
  if (!path) throw new Error(`there is no report ${ending}:\n${output}`);
  return { path, text: readFileSync(path, 'utf8') };
}
