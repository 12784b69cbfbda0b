// `npm test -- --changed[=revision]`: the tests that concern what has changed, for a first answer in about a minute.
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join, relative } from 'node:path';
import { FEATURES } from '../test/features.mjs';
import { Problem } from './problem.mjs';

/** Tests of whole processes: what they import says little about what they test. */
const OF_PROCESSES = /^test\/(?:e2e|faults|loadtest|torture)\//;
const ALWAYS = /^test\/architecture\//;

/**
 * @typedef {object} Selection
 * @property {string} since the revision that was compared with
 * @property {number} changed how many files differ from it
 * @property {string[]} run test files, by their paths in the project
 * @property {string[]} leftOut test files that concern a changed file and are not run
 */

/**
 * Selects the tests of the files that differ from a revision, uncommitted and new ones included.
 * @param {string} root
 * @param {string | undefined} revision default: where this branch left main; on main, the commit before the last
 * @returns {Selection}
 * @throws {Problem} when git cannot compare
 */
export function selectChangedTests(root, revision) {
  const git = (/** @type {string[]} */ ...args) => linesOf('git', args, root);
  const since = revision ?? defaultRevision(git);
  const changed = [...git('diff', '--name-only', since), ...git('ls-files', '--others', '--exclude-standard')];
  if (changed.length === 0) throw new Problem(`No file differs from ${since}.`);
  const existing = changed.filter((path) => existsSync(join(root, path)));
  const all = listTests(root, []);
  return { since, changed: changed.length, ...select(changed, listTests(root, existing), all) };
}

/**
 * @param {string[]} changed paths in the project
 * @param {string[]} related tests that import a changed file, or are one
 * @param {string[]} all
 * @returns {{ run: string[], leftOut: string[] }}
 */
export function select(changed, related, all) {
  const named = changed.flatMap(featureTests);
  const concerns = (/** @type {string} */ path) =>
    changed.includes(path) ||
    named.some((name) => path.startsWith(name)) ||
    ALWAYS.test(path) ||
    (related.includes(path) && !OF_PROCESSES.test(path));
  const run = all.filter(concerns);
  return { run, leftOut: related.filter((path) => !run.includes(path)) };
}

/**
 * @param {string} path of a changed file
 * @returns {string[]} the tests that the table names for it
 */
function featureTests(path) {
  const [longest] = Object.keys(FEATURES)
    .filter((prefix) => path.startsWith(prefix))
    .sort((a, b) => b.length - a.length);
  return longest === undefined ? [] : (FEATURES[longest] ?? []).map(testPath);
}

/**
 * @param {string} name of the table
 * @returns {string} its file, or its folder with a slash at the end
 */
export function testPath(name) {
  return name.endsWith('/') ? `test/${name}` : `test/${name}.test.ts`;
}

/** @param {(...args: string[]) => string[]} git */
function defaultRevision(git) {
  const [base = 'HEAD'] = git('merge-base', 'HEAD', 'main');
  const [head] = git('rev-parse', 'HEAD');
  return base === head ? 'HEAD~1' : base;
}

/**
 * @param {string} root
 * @param {string[]} files only tests that import one of these; none = all tests
 * @returns {string[]} paths in the project
 */
function listTests(root, files) {
  const jest = join(root, 'node_modules/jest/bin/jest.js');
  const related = files.length > 0 ? ['--findRelatedTests', ...files] : [];
  return linesOf(process.execPath, [jest, '--listTests', ...related], root).map((path) => relative(root, path));
}

/**
 * @param {string} program
 * @param {string[]} args
 * @param {string} cwd
 * @returns {string[]}
 */
function linesOf(program, args, cwd) {
  try {
    const output = execFileSync(program, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
    return output.split('\n').filter((line) => line !== '');
  } catch (error) {
    throw new Problem('The changed files cannot be compared.', { details: String(error) });
  }
}
