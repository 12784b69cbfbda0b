import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { DefaultReporter, VerboseReporter } from '@jest/reporters';

/**
 * Prints each file as Jest does, but no totals: scripts/test-rounds.mjs prints those of all rounds. Writes the results
 * to the file that `DOORBUSTER_TEST_RESULTS` names, in the form of `Results` there.
 */
export default class ResultsReporter {
  /** @param {ConstructorParameters<typeof DefaultReporter>[0]} globalConfig */
  constructor(globalConfig) {
    const reporter = new (globalConfig.verbose ? VerboseReporter : DefaultReporter)(globalConfig);
    const printed = reporter.onRunComplete.bind(reporter);
    const onRunComplete = (
      /** @type {unknown} */ _contexts,
      /** @type {import('@jest/reporters').AggregatedResult} */ results,
    ) => {
      printed();
      write(results);
    };
    // biome-ignore lint/correctness/noConstructorReturn: Jest calls `new`, and its own reporter is all that is needed.
    return Object.assign(reporter, { onRunComplete });
  }
}

/** @param {import('@jest/reporters').AggregatedResult} results */
function write(results) {
  const path = process.env.DOORBUSTER_TEST_RESULTS;
  if (!path) return;
  const { testResults, wasInterrupted = false, ...totals } = results;
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, JSON.stringify({ totals, wasInterrupted, files: testResults.map(resultOf) }));
}

/** @param {import('@jest/reporters').TestResult} file */
function resultOf(file) {
  const failed = file.testResults.filter(({ status }) => status === 'failed');
  const failures = failed.map(({ fullName, failureMessages }) => ({
    test: fullName,
    message: failureMessages.join('\n'),
  }));
  // A file that could not be loaded, or whose last cleanup failed, has a message and no failed test.
  if (failures.length === 0 && file.failureMessage) failures.push({ test: '', message: file.failureMessage });
  const ran = file.testResults.filter(({ status }) => status === 'passed' || status === 'failed');
  return {
    path: file.testFilePath,
    ran: ran.map(({ fullName }) => fullName),
    passing: file.numPassingTests,
    failing: file.numFailingTests,
    pending: file.numPendingTests,
    todo: file.numTodoTests,
    skipped: file.skipped,
    loaded: !file.testExecError,
    endedAtMs: file.perfStats.end,
    failures,
  };
}
