import jestRunner from 'jest-runner';
import { asksToShare } from './sharing.mjs';

/** The types of the package are those of its CommonJS variant. */
const TestRunner = /** @type {typeof import('jest-runner').default} */ (/** @type {unknown} */ (jestRunner));

/** These files wait for engines, deadlines and browsers for most of a minute each. */
const SLOW = [
  /\/test\/(?:faults|torture\/run|property)/,
  /\/test\/e2e\/(?:backup|backup-edges|rights|bans|codes|compose)\./,
  /\/test\/integration\/(?:process-lifecycle|after-restore|reconcile|second-chance|second-chance-edges)\./,
];

/** Slow files begin within this share of the run, so that none of them is left to run alone at the end. */
const SLOW_WITHIN = 0.7;

/**
 * Begins with the files that share a service, which ends with the first other file of its Jest process: one that runs
 * without work takes a tenth of a core. Spreads the slow files among the others: together they would start more
 * processes than the machine has cores for.
 */
export default class SpreadSlow extends TestRunner {
  /**
   * @override
   * @type {import('jest-runner').default['runTests']}
   */
  runTests(tests, watcher, options) {
    const isSlow = (/** @type {import('jest-runner').Test} */ { path }) => SLOW.some((slow) => slow.test(path));
    const sharing = tests.filter(({ path }) => asksToShare(path));
    const rest = tests.filter((test) => !sharing.includes(test));
    const [slow, others] = [rest.filter(isSlow), rest.filter((test) => !isSlow(test))];
    const step = Math.floor((others.length * SLOW_WITHIN) / Math.max(1, slow.length));
    const ordered = slow.flatMap((test, i) => [test, ...others.slice(i * step, (i + 1) * step)]);
    return super.runTests([...sharing, ...ordered, ...others.slice(slow.length * step)], watcher, options);
  }
}
