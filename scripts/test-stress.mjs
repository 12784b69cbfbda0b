// `npm test -- --stress FILE ...`: runs test files many times in settings that make races likely, and counts how often
// each test failed in which setting.
import { mkdirSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, relative } from 'node:path';
import { launch } from './processes.mjs';
import { printFailed, runRound } from './test-rounds.mjs';

const CORES = availableParallelism();
/** As many files as `npm test` runs at once. */
const COPIES = Math.ceil(1.5 * CORES);
const STOP_LIMIT_MS = 5_000;
const REPORT_LINES = 52;

/**
 * `copies`: how many runs of the files go on at the same time. `loops`: processes that keep the cores busy.
 * @type {{ name: string, copies?: number, loops?: number, env?: Record<string, string> }[]}
 */
const SETTINGS = [
  { name: 'alone' },
  { name: 'beside', copies: COPIES },
  { name: 'busy', loops: CORES },
  ...[0, 5, 50].map((ms) => ({ name: `${ms} ms`, env: { DOORBUSTER_TEST_ENGINE_DELAY_MS: String(ms) } })),
];

/** @typedef {import('./test-rounds.mjs').FileResult} FileResult */

/**
 * How often a test ran and failed, by setting.
 * @typedef {Record<string, { runs: number, failed: number }>} Counts
 */

/**
 * @param {import('./test-rounds.mjs').Suite} suite
 * @param {number} rounds
 * @returns {Promise<number>} the exit code: 1 = a test failed at least once
 */
export async function runStress(suite, rounds) {
  const { print, root, report } = suite;
  rmSync(report, { recursive: true, force: true });
  mkdirSync(report, { recursive: true });
  /** @type {Map<string, Counts>} */
  const tests = new Map();
  /** @type {FileResult[]} */
  const failed = [];
  print(`${rounds} rounds each: alone; beside itself, ${COPIES} at once; beside ${CORES} busy processes;`);
  print('and with engines behind a proxy that delays 0, 5 and 50 ms in each direction.');
  for (const setting of SETTINGS)
    for (let round = 1; round <= rounds; round += 1) {
      const { stoppedWith, files } = await runSetting(suite, setting, round);
      if (stoppedWith !== undefined) return stoppedWith;
      for (const file of files) count(tests, relative(root, file.path), file, setting.name);
      const failing = files.filter(({ failures }) => failures.length > 0);
      failed.push(...failing);
      print(`${setting.name}, round ${round}: ${failing.length} of ${files.length} runs of a file failed`);
    }
  printTable(print, tests);
  if (failed.length > 0) printFailed(suite, firstOfEach(failed), REPORT_LINES);
  return failed.length > 0 ? 1 : 0;
}

/**
 * @param {import('./test-rounds.mjs').Suite} suite
 * @param {(typeof SETTINGS)[number]} setting
 * @param {number} round
 * @returns {Promise<{ stoppedWith?: number, files: FileResult[] }>} `stoppedWith`: the exit code of a run without
 *   results
 */
async function runSetting(suite, { name, copies = 1, loops = 0, env = {} }, round) {
  const busy = await Promise.all(Array.from({ length: loops }, () => launch(process.execPath, ['-e', 'for (;;);'])));
  try {
    const runs = await Promise.all(
      Array.from({ length: copies }, (_, copy) => {
        const run = `${name.replace(' ', '-')}-${round}-${copy + 1}`;
        const report = join(suite.report, run);
        const more = { ...env, DOORBUSTER_TEST_REPORT: report };
        return runRound(suite, run, ['--runInBand'], more, `${report}.log`).then((result) => ({ ...result, run }));
      }),
    );
    for (const { code, results, run } of runs) {
      if (results && results.files.length > 0 && !results.wasInterrupted && code < 128) continue;
      suite.print(
        `Jest ended with ${code} and no results: ${join(relative(suite.root, suite.report), run)}.log says why.`,
      );
      return { stoppedWith: code || 1, files: [] };
    }
    return { files: runs.flatMap(({ results }) => results?.files ?? []) };
  } finally {
    await Promise.all(busy.map((loop) => loop.stop(STOP_LIMIT_MS)));
  }
}

/**
 * @param {Map<string, Counts>} tests
 * @param {string} name of the file
 * @param {FileResult} file
 * @param {string} setting
 */
function count(tests, name, { ran, failures }, setting) {
  const failing = failures.map(({ test }) => test);
  for (const test of new Set([...ran, ...failing])) {
    const key = `${name} › ${test || 'the file itself'}`;
    const counts = tests.get(key) ?? {};
    tests.set(key, counts);
    const { runs = 0, failed = 0 } = counts[setting] ?? {};
    counts[setting] = { runs: runs + 1, failed: failed + (failing.includes(test) ? 1 : 0) };
  }
}

/**
 * Prints a line for each test: how often it failed of how many runs, those that failed most first.
 * @param {(text?: string) => void} print
 * @param {Map<string, Counts>} tests
 */
function printTable(print, tests) {
  const failures = (/** @type {Counts} */ counts) => Object.values(counts).reduce((sum, { failed }) => sum + failed, 0);
  const rows = [...tests].sort(([, a], [, b]) => failures(b) - failures(a));
  print(`\nFailed of runs:\n${SETTINGS.map(({ name }) => name.padStart(8)).join('')}`);
  for (const [test, counts] of rows) {
    const cells = SETTINGS.map(({ name }) => `${counts[name]?.failed ?? 0}/${counts[name]?.runs ?? 0}`.padStart(8));
    print(`${cells.join('')}  ${test}`);
  }
}

/** @param {FileResult[]} failed */
function firstOfEach(failed) {
  return [...new Map(failed.toReversed().map((file) => [file.path, file])).values()];
}
