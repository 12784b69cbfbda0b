// `--versus <revision>`: measures another revision in turn with this one, so that other load on the machine affects
// both.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { installPackages } from '../../scripts/install.mjs';
import { runNpm } from '../../scripts/npm.mjs';
import { Problem } from '../../scripts/problem.mjs';
import { median, round } from './measure.mjs';

const BUILD_LIMIT_MS = 300_000;

/**
 * Builds the revision in a folder of its own, with the packages of this checkout if both lock the same ones.
 * @param {string} root
 * @param {string} revision
 * @param {(text: string) => void} say
 * @returns {Promise<{ root: string, name: string, remove: () => void }>}
 */
export async function checkOut(root, revision, say) {
  const commit = commitOf(root, revision);
  const folder = mkdtempSync(join(tmpdir(), 'doorbuster-compare-'));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  try {
    const tree = execFileSync('git', ['archive', commit], { cwd: root, maxBuffer: 1 << 30 });
    execFileSync('tar', ['-x', '-C', folder], { input: tree });
    // Its installation takes its lock there.
    mkdirSync(join(folder, '.engines'), { recursive: true });
    const lockOf = (/** @type {string} */ where) => readFileSync(join(where, 'package-lock.json'), 'utf8');
    if (lockOf(folder) === lockOf(root)) symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
    else {
      say(`${revision} has other packages; they are installed`);
      await installPackages(folder);
    }
    say(`${revision} is compiled`);
    // Its own build: another revision may have other steps.
    await runNpm(folder, ['run', 'build', '--silent'], {
      limitMs: BUILD_LIMIT_MS,
      failure: `${revision} does not compile`,
      remedy: 'Name another revision.',
    });
    return { root: folder, name: revision, remove };
  } catch (error) {
    remove();
    throw error;
  }
}

/** @param {string} root @param {string} revision */
function commitOf(root, revision) {
  try {
    const args = ['rev-parse', '--verify', '--quiet', '--end-of-options', `${revision}^{commit}`];
    return execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim();
  } catch {
    throw new Problem(`There is no revision ${revision} here.`, { exitCode: 2 });
  }
}

/**
 * Returns the median of each figure for both revisions, and the ratio of the first to the second.
 * @param {readonly Record<string, unknown>[]} ours
 * @param {readonly Record<string, unknown>[]} theirs
 * @returns {Record<string, { here: number, there: number, ratio: number | null }>}
 */
export function compare(ours, theirs) {
  const medianOf = (/** @type {readonly Record<string, unknown>[]} */ rounds, /** @type {string} */ name) =>
    median(rounds.map((figures) => Number(figures[name])));
  const names = Object.keys(ours[0] ?? {}).filter((name) =>
    [...ours, ...theirs].every((figures) => typeof figures[name] === 'number'),
  );
  return Object.fromEntries(
    names.map((name) => {
      const [here, there] = [medianOf(ours, name), medianOf(theirs, name)];
      return [name, { here, there, ratio: there === 0 ? null : round(here / there, 3) }];
    }),
  );
}
