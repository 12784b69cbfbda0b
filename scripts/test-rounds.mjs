// The rounds of `npm test`: all files first, then each file that failed once more, alone. A file that passes then is
// flaky: the run reports it and passes. A violation of safety gets no second chance.
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { stripVTControlCharacters } from 'node:util';

/** More failed files than this are no matter of chance. */
const MOST_FLAKY_FILES = 5;
/** A reader of a failed run finds all of it in the last 60 lines of its output; Jest's totals are six of them. */
const REPORT_LINES = 52;
const MOST_ERROR_LINES = 8;
const LINE_LENGTH = 200;
/** Written by `class Violation`: a unit lost, given twice, over the cap, out of order, or stores that drifted. */
const VIOLATION = /^\s*(?:thrown: )?"?Violation\b/m;
/** The diff of an expectation about the ledger, in any test: no author can forget to call it a violation. */
const LEDGER_DIFFERS = /^\s*[-+]\s+"(?:lost|duplicated|over_cap|drift)": /m;
/** A line of a process, as test/harness/kept-logs.ts writes it. */
const LOGGED = /^\s*(?:api|worker) \d\d:\d\d:\d\d\.\d{3} /;
const REPLAY = /\{ seed: (?<seed>-?\d+), path: "(?<path>[^"]*)"/;

/**
 * What one Jest process did, written by test/harness/results-reporter.mjs.
 * @typedef {object} Results
 * @property {Totals} totals
 * @property {boolean} wasInterrupted
 * @property {FileResult[]} files
 *
 * @typedef {Omit<import('@jest/reporters').AggregatedResult, 'testResults' | 'wasInterrupted'>} Totals
 *
 * @typedef {object} FileResult
 * @property {string} path
 * @property {number} passing how many of its tests passed; the next three alike
 * @property {number} failing
 * @property {number} pending
 * @property {number} todo
 * @property {boolean} skipped no test of it ran
 * @property {string[]} ran the full names of the tests that passed or failed
 * @property {boolean} loaded false: it failed before its first test
 * @property {number} endedAtMs
 * @property {{ test: string, message: string }[]} failures `test` is "" for what failed outside of a test
 *
 * @typedef {object} Suite
 * @property {(args: string[], env: Record<string, string>, log?: string) => Promise<number>} jest runs it and returns
 *   its exit code; `log`: the file that gets its output
 * @property {string[]} args for Jest
 * @property {boolean} secondChance
 * @property {string} root the project's folder
 * @property {string} scratch a folder for the results of each round
 * @property {string} report the folder of `flaky.json`, and of the logs that a failed file leaves
 * @property {(text?: string) => void} print
 */

/**
 * Runs the files that the arguments select, and those that failed again. Prints what failed, what is flaky, and the
 * totals of the whole.
 * @param {Suite} suite
 * @returns {Promise<number>} the exit code
 */
export async function runInRounds(suite) {
  const { print, report } = suite;
  rmSync(report, { recursive: true, force: true });
  const { code, results } = await runRound(suite, 'all', [], {});
  // Jest was interrupted, ended before it ran anything, or was asked for something else than a run.
  if (!results || results.wasInterrupted || code >= 128) return code;

  const failed = results.files.filter(({ failures }) => failures.length > 0);
  const refusal = code === 0 || failed.length === 0 ? '' : whyNoSecondChance(suite, failed);
  /** @type {FileResult[]} */
  const flaky = [];
  /** @type {FileResult[]} */
  const remaining = [];
  const { totals } = results;
  if (failed.length > 0 && refusal === '') {
    print(`\nSecond chance: ${files(failed.length)} failed. Each runs once more, alone.`);
    for (const first of failed) {
      const { stoppedWith, second } = await runAlone(suite, first);
      if (stoppedWith) return stoppedWith;
      if (second) replaceIn(totals, first, second);
      if (second && second.failures.length === 0) flaky.push(first);
      else remaining.push(second ?? first);
    }
  } else {
    remaining.push(...failed);
  }

  const passes = remaining.length === 0 && (code === 0 || failed.length > 0);
  printFlaky(suite, flaky);
  if (refusal) print(`\n${refusal}`);
  if (remaining.length > 0) printFailed(suite, remaining, flaky.length > 0 ? REPORT_LINES / 2 : REPORT_LINES);
  else if (!passes) print(`\nNo test failed, but Jest ended with ${code}. Its output above says why.`);
  print(`\n${await summaryOf(totals)}`);
  return passes ? 0 : code || 1;
}

/**
 * @param {Suite} suite
 * @param {FileResult[]} failed
 * @returns {string} the reason, or ""
 */
function whyNoSecondChance({ secondChance, root }, failed) {
  if (!secondChance) return 'No second chance: --no-second-chance was given.';
  const violations = failed.filter(({ failures }) => failures.some(({ message }) => isViolation(message)));
  if (violations.length > 0) {
    const names = violations.map(({ path }) => relative(root, path)).join(', ');
    return `No second chance: what was promised did not hold (Violation) in ${names}.`;
  }
  if (failed.length > MOST_FLAKY_FILES)
    return `No second chance: ${files(failed.length)} failed, more than ${MOST_FLAKY_FILES}.`;
  return '';
}

/** @param {string} message */
function isViolation(message) {
  const text = stripVTControlCharacters(message);
  return VIOLATION.test(text) || LEDGER_DIFFERS.test(text);
}

/**
 * @param {Suite} suite
 * @param {FileResult} first
 * @returns {Promise<{ stoppedWith?: number, second?: FileResult | undefined }>} `stoppedWith`: the exit code of an
 *   interrupted run; neither: Jest did not get as far as its results
 */
async function runAlone(suite, first) {
  const only = [
    '--runInBand',
    '--forceExit',
    '--filter',
    join(import.meta.dirname, '../test/harness/only-one-file.cjs'),
  ];
  const { code, results } = await runRound(suite, 'again', only, {
    DOORBUSTER_TEST_ONLY: first.path,
    DOORBUSTER_TEST_REPLAY: JSON.stringify(replaysOf(first)),
  });
  if (results?.wasInterrupted || code >= 128) return { stoppedWith: code };
  return { second: results?.files.find(({ path }) => path === first.path) };
}

/**
 * The seed and path of each property that failed, so that its second run tries the same counterexample.
 * @param {FileResult} file
 * @returns {Record<string, { seed: number, path: string }>} by the test's full name
 */
function replaysOf({ failures }) {
  return Object.fromEntries(
    failures.flatMap(({ test, message }) => {
      const { seed, path } = REPLAY.exec(stripVTControlCharacters(message))?.groups ?? {};
      return seed === undefined || path === undefined ? [] : [[test, { seed: Number(seed), path }]];
    }),
  );
}

/**
 * @param {Suite} suite
 * @param {string} name
 * @param {string[]} more arguments
 * @param {Record<string, string>} env
 * @param {string} [log] the file that gets the output of Jest
 * @returns {Promise<{ code: number, results: Results | undefined }>}
 */
export async function runRound({ jest, args, scratch }, name, more, env, log) {
  const path = join(scratch, `${name}.json`);
  rmSync(path, { force: true });
  const reporter = join(import.meta.dirname, '../test/harness/results-reporter.mjs');
  const code = await jest([...args, ...more, '--reporters', reporter], { ...env, DOORBUSTER_TEST_RESULTS: path }, log);
  try {
    return { code, results: JSON.parse(readFileSync(path, 'utf8')) };
  } catch {
    return { code, results: undefined };
  }
}

/**
 * @param {Totals} totals
 * @param {FileResult} first
 * @param {FileResult} second
 */
function replaceIn(totals, first, second) {
  totals.numPassedTests += second.passing - first.passing;
  totals.numFailedTests += second.failing - first.failing;
  totals.numPendingTests += second.pending - first.pending;
  totals.numTodoTests += second.todo - first.todo;
  totals.numTotalTests += countOf(second) - countOf(first);
  if (second.failures.length > 0) return;
  totals.numFailedTestSuites -= 1;
  totals.numPassedTestSuites += 1;
}

/** @param {FileResult} file */
const countOf = ({ passing, failing, pending, todo }) => passing + failing + pending + todo;

/** @param {Totals} totals */
async function summaryOf(totals) {
  // Only now: it is a package, and scripts run before there are any.
  const { utils } = await import('@jest/reporters');
  return utils.getSummary(/** @type {import('@jest/reporters').AggregatedResult} */ (totals));
}

/**
 * Prints the flaky files and writes them to `flaky.json`.
 * @param {Suite} suite
 * @param {FileResult[]} flaky as they were when they failed
 */
function printFlaky(suite, flaky) {
  const entries = flaky.flatMap((file) => entriesOf(suite, file));
  mkdirSync(suite.report, { recursive: true });
  writeFileSync(join(suite.report, 'flaky.json'), `${JSON.stringify(entries, null, 2)}\n`);
  if (entries.length === 0) return;
  suite.print(`\nFlaky: ${files(flaky.length)} failed at first and passed alone. Find the cause of each.`);
  printEntries(suite, entries, REPORT_LINES / 2);
}

/**
 * @param {Suite} suite
 * @param {FileResult[]} failed
 * @param {number} lines
 */
export function printFailed(suite, failed, lines) {
  const entries = failed.flatMap((file) => entriesOf(suite, file));
  mkdirSync(suite.report, { recursive: true });
  writeFileSync(join(suite.report, 'failed.json'), `${JSON.stringify(entries, null, 2)}\n`);
  suite.print(`\nFailed: ${entries.length === 1 ? 'one test' : `${entries.length} tests`} in ${files(failed.length)}.`);
  printEntries(suite, entries, lines);
}

/**
 * One failure, as it is printed and stored.
 * @typedef {object} Entry
 * @property {string} file
 * @property {string} test
 * @property {string[]} error its first lines
 * @property {string[]} said what its processes logged last about trouble, without what is no trouble
 * @property {string} at when its file ended
 * @property {number | null} seed of a property
 * @property {string | null} path of a property's counterexample
 * @property {string} command repeats it
 * @property {string | null} logs the folder of what its processes and engines logged
 */

/**
 * @param {Suite} suite
 * @param {FileResult} file
 * @returns {Entry[]}
 */
function entriesOf({ root, report }, file) {
  const name = relative(root, file.path);
  const replays = replaysOf(file);
  const logs = join(relative(root, report), name);
  return file.failures.map(({ test, message }) => {
    const { seed = null, path = null } = replays[test] ?? {};
    const replay = seed === null ? '' : ` --replay=${seed}:${path}`;
    return {
      file: name,
      test,
      error: firstError(message),
      said: lastTroubles(message),
      at: new Date(file.endedAtMs).toISOString(),
      seed,
      path,
      command: `npm test -- ${name}${replay}`,
      logs: existsSync(join(root, logs)) ? logs : null,
    };
  });
}

/**
 * Prints as much of each failure as fits into the lines.
 * @param {Suite} suite
 * @param {Entry[]} entries
 * @param {number} lines
 */
function printEntries({ print }, entries, lines) {
  const each = Math.floor(lines / entries.length);
  const shown = each < 1 ? entries.slice(0, lines - 1) : entries;
  for (const { file, test, error, said, at, command, logs } of shown) {
    const name = `${file} › ${test || 'the file itself'}`;
    if (each < 4) {
      print(shortened(`  ${name}: ${error[0] ?? ''}`));
      if (each > 1) print(`    repeat: ${command}`);
      continue;
    }
    print(shortened(`  ${name}`));
    const room = each - 3;
    const first = error.slice(0, Math.min(MOST_ERROR_LINES, room));
    for (const line of first) print(shortened(`    ${line}`));
    for (const line of said.slice(-Math.max(0, room - first.length))) print(shortened(`    ${line}`));
    print(`    failed ${at}${logs ? `; logs of its processes and engines: ${logs}` : ''}`);
    print(`    repeat: ${command}`);
  }
  if (shown.length < entries.length) print(`  and ${entries.length - shown.length} more, above.`);
}

/**
 * @param {string} message of Jest, with a code frame and a stack
 * @returns {string[]} the lines before these
 */
function firstError(message) {
  const lines = stripVTControlCharacters(message).split('\n');
  const end = lines.findIndex((line) => /^\s+at /.test(line));
  return lines.slice(0, end < 0 ? undefined : end).flatMap((line) => (line.trim() === '' ? [] : [line.trimEnd()]));
}

/**
 * @param {string} message of Jest, to which test/harness/environment.mjs has added what the processes logged
 * @returns {string[]} the last lines of each process; a gate that opened is no trouble
 */
function lastTroubles(message) {
  const lines = stripVTControlCharacters(message).split('\n');
  return lines.flatMap((line) => (LOGGED.test(line) && !line.includes('"open":true') ? [line.trim()] : []));
}

/** @param {string} line */
const shortened = (line) => (line.length > LINE_LENGTH ? `${line.slice(0, LINE_LENGTH - 1)}…` : line);

/** @param {number} count */
const files = (count) => (count === 1 ? 'one file' : `${count} files`);
