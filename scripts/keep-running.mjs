// Starts a part again when it ends by itself, with a growing pause, until it is stopped.
import { Interrupted, messageOf } from './problem.mjs';
import { pause } from './waiting.mjs';

const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 5_000;
const CALM_MS = 30_000;

/** @typedef {Pick<import('./processes.mjs').Running, 'pid' | 'exited' | 'stop'>} Part */

/**
 * @param {{ name: string, part: Part, start: () => Promise<Part>, print: (line: string) => void }} options
 *   part: the one that runs already; start: starts another one
 * @returns {{ stop: (limitMs?: number) => Promise<void> }}
 */
export function keepRunning({ name, part, start, print }) {
  let current = part;
  let isOver = false;

  const tryStart = async () => {
    try {
      current = await start();
      print(`${name} runs again (process ${current.pid})`);
      return true;
    } catch (error) {
      if (!(error instanceof Interrupted)) print(`${name} did not start: ${messageOf(error)}`);
      return error instanceof Interrupted;
    }
  };
  const watch = async () => {
    let pauseMs = FIRST_PAUSE_MS;
    while (!isOver) {
      const since = Date.now();
      const { code, signal } = await current.exited;
      if (isOver) return;
      if (Date.now() - since > CALM_MS) pauseMs = FIRST_PAUSE_MS;
      print(`${name} ended with ${signal ?? `code ${code}`}; starting it again in ${pauseMs / 1000} s`);
      do {
        await pause(pauseMs);
        pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
      } while (!isOver && !(await tryStart()));
    }
  };
  void watch();

  return {
    stop: async (limitMs) => {
      isOver = true;
      await current.stop(limitMs);
    },
  };
}
