import jestRunner from 'jest-runner';

/** The types of the package are those of its CommonJS variant. */
const TestRunner = /** @type {typeof import('jest-runner').default} */ (/** @type {unknown} */ (jestRunner));

/** These files wait for engines, deadlines and browsers for most of a minute each. */
const SLOW = /\/test\/(?:faults|torture\/run|property|e2e\/(?:sale-page|operator-page|bans|client|codes)\.)/;

/** Starts the slow files first, so that none of them is left to run alone at the end. */
export default class SlowFirst extends TestRunner {
  /**
   * @override
   * @type {import('jest-runner').default['runTests']}
   */
  runTests(tests, watcher, options) {
    const isSlow = (/** @type {import('jest-runner').Test} */ { path }) => SLOW.test(path);
    const ordered = [...tests.filter(isSlow), ...tests.filter((test) => !isSlow(test))];
    return super.runTests(ordered, watcher, options);
  }
}
