import { join, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { TestEnvironment } from 'jest-environment-node';

/** The types of the package are those of its CommonJS variant. */
const NodeEnvironment = /** @type {typeof import('jest-environment-node').default} */ (
  /** @type {unknown} */ (TestEnvironment)
);

/** Processes write their log in the background, at most this much later. */
const LOG_DELAY_MS = 500;

/**
 * Prints, below the failure of a test, what its processes said about their engines, since a 503 does not name its
 * cause. Keeps their logs in `DOORBUSTER_TEST_REPORT`, in a folder of the test file.
 */
export default class ExplainsFailures extends NodeEnvironment {
  /**
   * @param {ConstructorParameters<typeof NodeEnvironment>[0]} config
   * @param {ConstructorParameters<typeof NodeEnvironment>[1]} context
   */
  constructor(config, context) {
    super(config, context);
    this.folder = join(
      process.env.DOORBUSTER_TEST_REPORT ?? '',
      relative(config.projectConfig.rootDir, context.testPath),
    );
    this.hasRun = false;
  }

  /** @param {{ name: string, test?: { name: string, errors: unknown[] }, hook?: { type: string } }} event */
  async handleTestEvent({ name, test, hook }) {
    if (name === 'run_start') this.hasRun = true;
    const failed = name === 'test_done' ? test?.errors.length : name === 'hook_failure' && hook?.type.endsWith('All');
    if (!failed) return;
    await sleep(LOG_DELAY_MS);
    const troubles = this.#report?.troubles();
    if (troubles) test?.errors.push(Object.assign(new Error(), { stack: `Logs of its processes:\n${troubles}` }));
    await this.#keep();
  }

  /** @override */
  async teardown() {
    // A file that could not be loaded has no tests.
    if (!this.hasRun) await this.#keep();
    await super.teardown();
  }

  /** @returns {import('./kept-logs.js').FailureReport | undefined} */
  get #report() {
    return /** @type {{ failureReport?: import('./kept-logs.js').FailureReport }} */ (this.global).failureReport;
  }

  async #keep() {
    // An error here must not hide that of the test.
    if (process.env.DOORBUSTER_TEST_REPORT) await this.#report?.keep(this.folder).catch(() => {});
  }
}
