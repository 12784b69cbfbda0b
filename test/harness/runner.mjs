import jestRunner from 'jest-runner';

/** The types of the package are those of its CommonJS variant. */
const TestRunner = /** @type {typeof import('jest-runner').default} */ (/** @type {unknown} */ (jestRunner));

/** @typedef {import('jest-runner').EmittingTestRunner} Runner */

const isFault = (/** @type {import('jest-runner').Test} */ { path }) => /\/test\/(?:faults|torture\/run)/.test(path);

/**
 * Runs fault tests last and by themselves: they hold promises of seconds ("ready again within five"), which a browser or
 * a load test on the other core would keep from being kept. All others run side by side.
 */
export default class FaultsAlone {
  supportsEventEmitters = true;
  isSerial = false;
  #sideBySide;
  #alone;

  /**
   * @param {import('jest-runner').Config.GlobalConfig} globalConfig
   * @param {import('jest-runner').TestRunnerContext} context
   */
  constructor(globalConfig, context) {
    this.#sideBySide = new TestRunner(globalConfig, context);
    this.#alone = new TestRunner({ ...globalConfig, maxWorkers: 1 }, context);
  }

  /** @type {Runner['runTests']} */
  async runTests(tests, watcher, options) {
    const faults = tests.filter(isFault);
    const others = tests.filter((test) => !isFault(test));
    if (others.length > 0) await this.#sideBySide.runTests(others, watcher, options);
    if (faults.length > 0) await this.#alone.runTests(faults, watcher, options);
  }

  /** @type {Runner['on']} */
  on(event, listener) {
    const off = [this.#sideBySide.on(event, listener), this.#alone.on(event, listener)];
    return () => {
      for (const stop of off) stop();
    };
  }
}
