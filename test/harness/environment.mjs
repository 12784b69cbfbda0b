import { appendFileSync, mkdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { TestEnvironment } from 'jest-environment-node';
import { endSharedService, sharedPids, takeSharedService } from './shared-service.mjs';
import { asksToShare } from './sharing.mjs';

/** The types of the package are those of its CommonJS variant. */
const NodeEnvironment = /** @type {typeof import('jest-environment-node').default} */ (
  /** @type {unknown} */ (TestEnvironment)
);

/** Processes write their log in the background, at most this much later. */
const LOG_DELAY_MS = 500;

/** Other settings change the engines or what is in front of them, for each file. */
const SHARED =
  process.env.DOORBUSTER_TEST_REDIS !== 'cluster' &&
  !process.env.DOORBUSTER_TEST_POOLER_URL &&
  !process.env.DOORBUSTER_TEST_GATEWAY &&
  !process.env.DOORBUSTER_TEST_ENGINE_DELAY_MS;

/**
 * Prints, below the failure of a test, what its processes said about their engines, since a 503 does not name its
 * cause. Keeps their logs in `DOORBUSTER_TEST_REPORT`, in a folder of the test file, and what each file cost. Gives the
 * files that ask for it the service that they share.
 */
export default class ExplainsFailures extends NodeEnvironment {
  /**
   * @param {ConstructorParameters<typeof NodeEnvironment>[0]} config
   * @param {ConstructorParameters<typeof NodeEnvironment>[1]} context
   */
  constructor(config, context) {
    super(config, context);
    this.path = context.testPath;
    this.file = relative(config.projectConfig.rootDir, context.testPath);
    this.shares = false;
    this.hasRun = false;
    this.hasFailed = false;
    this.before = measure();
    this.loaded = this.before;
  }

  /** @override */
  async setup() {
    await super.setup();
    this.shares = SHARED && asksToShare(this.path);
    if (this.shares)
      /** @type {{ sharedService?: import('./shared-service.mjs').SharedService }} */ (this.global).sharedService =
        await takeSharedService();
    else await endSharedService();
  }

  /** @param {{ name: string, test?: { name: string, errors: unknown[] }, hook?: { type: string } }} event */
  async handleTestEvent({ name, test, hook }) {
    if (name === 'run_start') {
      this.hasRun = true;
      this.loaded = measure();
    }
    const failed = name === 'test_done' ? test?.errors.length : name === 'hook_failure' && hook?.type.endsWith('All');
    if (!failed) return;
    this.hasFailed = true;
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
    this.#recordCost();
    if (this.shares && (this.hasFailed || !this.hasRun)) await endSharedService();
  }

  /** @returns {import('./kept-logs.js').FailureReport | undefined} */
  get #report() {
    return /** @type {{ failureReport?: import('./kept-logs.js').FailureReport }} */ (this.global).failureReport;
  }

  /** Adds a line to `costs.jsonl` of the report: times in milliseconds, `load` = before the first test. */
  #recordCost() {
    const report = process.env.DOORBUSTER_TEST_REPORT;
    if (!report) return;
    const { wall, own, children } = measure();
    const cost = {
      file: this.file,
      wall: Math.round(wall - this.before.wall),
      cpu: own - this.before.own,
      children: children - this.before.children,
      loadWall: Math.round(this.loaded.wall - this.before.wall),
      loadCpu: this.loaded.own - this.before.own,
    };
    mkdirSync(report, { recursive: true });
    appendFileSync(join(report, 'costs.jsonl'), `${JSON.stringify(cost)}\n`);
  }

  async #keep() {
    // An error here must not hide that of the test.
    if (process.env.DOORBUSTER_TEST_REPORT)
      await this.#report?.keep(join(process.env.DOORBUSTER_TEST_REPORT, this.file)).catch(() => {});
  }
}

/**
 * Wall time, and CPU time of this process and of its children: those that have ended, and those of the shared service.
 * All in milliseconds; CPU time on Linux alone.
 */
function measure() {
  const wall = performance.now();
  if (process.platform !== 'linux') return { wall, own: 0, children: 0 };
  const [own, ended] = cpuOf('self');
  const shared = sharedPids().map((pid) => cpuOf(String(pid))[0]);
  return { wall, own, children: shared.reduce((sum, ms) => sum + ms, ended) };
}

/**
 * @param {string} pid
 * @returns {[number, number]} CPU time of a process, and of its children that have ended, in milliseconds
 */
function cpuOf(pid) {
  /** @type {string} */
  let stat;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return [0, 0];
  }
  // `man proc`: utime, stime, cutime and cstime are fields 14 to 17, in hundredths of a second.
  const fields = String(stat.split(') ')[1]).split(' ').slice(11, 15);
  const [user = 0, system = 0, childUser = 0, childSystem = 0] = fields.map((ticks) => 10 * Number(ticks));
  return [user + system, childUser + childSystem];
}
