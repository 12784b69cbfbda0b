// What `npm run test:long` does with its parts: their order on a day, and running them until the time is used up.
import { constants } from 'node:os';
import { hurryStragglers, launch, refuseToLaunch } from './processes.mjs';
import { onStopRequest } from './stop-requests.mjs';

const STOP_LIMIT_MS = 30_000;

/** @typedef {{ command: string, args: string[] }} Item `args`: of Node; `command`: how a person repeats it */

/**
 * Takes an item of each part in turn. Each day begins with another part, and with another item of each part.
 * @param {Item[][]} parts
 * @param {number} day
 * @returns {Item[]}
 */
export function planOf(parts, day) {
  const rotated = (/** @type {any[]} */ list) => list.map((_, i) => list[(i + day) % list.length]);
  /** @type {Item[][]} */
  const turns = rotated(parts.map(rotated));
  const longest = Math.max(0, ...turns.map(({ length }) => length));
  return Array.from({ length: longest }, (_, i) => turns.flatMap((items) => items[i] ?? [])).flat();
}

/**
 * Runs the items one after the other until the time is used up. Prints what ran, what was left and what failed.
 * @param {Item[]} plan
 * @param {{ limitMs: number, root: string, print: (text?: string) => void, before: () => void,
 *   failuresOf: (number: number) => string[] }} options `failuresOf`: the failed tests of an item, by its number
 * @returns {Promise<number>} the exit code
 */
export async function runLong(plan, { limitMs, root, print, before, failuresOf }) {
  const endMs = performance.now() + limitMs;
  /** @type {string[]} */
  const failed = [];
  let ran = 0;
  /** @type {number | undefined} */
  let stoppedWith;
  /** @type {import('./processes.mjs').Running | undefined} */
  let current;
  const stop = (/** @type {NodeJS.Signals} */ signal) => {
    stoppedWith = 128 + constants.signals[signal];
    refuseToLaunch();
    current?.kill('SIGTERM');
  };
  onStopRequest({ stop, hurry: hurryStragglers });
  for (const { command, args } of plan) {
    const leftMs = endMs - performance.now();
    if (leftMs <= 0 || stoppedWith !== undefined) break;
    print(`\n── ${command}`);
    before();
    current = await launch(process.execPath, args, { cwd: root, env: process.env, stdio: 'inherit' });
    const { exited, stop: end } = current;
    let isCut = false;
    const timer = setTimeout(() => {
      isCut = true;
      void end(STOP_LIMIT_MS);
    }, leftMs);
    const { code } = await exited;
    clearTimeout(timer);
    if (isCut || stoppedWith !== undefined) break;
    ran += 1;
    if (code !== 0) failed.push(`${command} (code ${code})`, ...failuresOf(ran).map((line) => `  ${line}`));
  }
  print(`\nRan:\n${lines(plan.slice(0, ran).map(({ command }) => command))}`);
  print(`Left: ${plan.length - ran}\n${lines(plan.slice(ran).map(({ command }) => command))}`);
  print(`Failed:\n${lines(failed)}`);
  return stoppedWith ?? (failed.length > 0 ? 1 : 0);
}

/** @param {string[]} list */
const lines = (list) => (list.length === 0 ? '  none' : list.map((line) => `  ${line}`).join('\n'));
