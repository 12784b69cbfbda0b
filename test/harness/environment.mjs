import { setTimeout as sleep } from 'node:timers/promises';
import { TestEnvironment } from 'jest-environment-node';

/** The types of the package are those of its CommonJS variant. */
const NodeEnvironment = /** @type {typeof import('jest-environment-node').default} */ (
  /** @type {unknown} */ (TestEnvironment)
);

/** Processes write their log in the background, at most this much later. */
const LOG_DELAY_MS = 500;

/** Prints, below the failure of a test, what its processes said about their engines: a 503 does not name its cause. */
export default class ExplainsFailures extends NodeEnvironment {
  /** @param {{ name: string, test?: { name: string, errors: unknown[] } }} event */
  async handleTestEvent(event) {
    if (event.name !== 'test_done' || !event.test?.errors.length) return;
    const { troublesOfProcesses } = /** @type {{ troublesOfProcesses?: () => string }} */ (this.global);
    if (!troublesOfProcesses) return;
    await sleep(LOG_DELAY_MS);
    const troubles = troublesOfProcesses();
    if (troubles) event.test.errors.push(Object.assign(new Error(), { stack: `Logs of its processes:\n${troubles}` }));
  }
}
