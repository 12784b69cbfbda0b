// Prints the progress of `npm start` and `npm test` while they prepare: one line a step, with its time. During a long
// step, a terminal shows an updated line, and a log gets a line now and then.
import { codeOf, messageOf, Problem } from './problem.mjs';

const TICK_MS = 500;
const FORBIDDEN = new Set(['EACCES', 'EPERM', 'EROFS', 'ENOSPC', 'EDQUOT']);
const NOTE_CHARS = 160;
const SIGN_OF_LIFE_MS = 10_000;

/**
 * @typedef {object} Terminal
 * @property {(text?: string) => void} print
 * @property {<T>(doing: string, work: (say: (note: string) => void) => Promise<T>, done: (result: T) => string) =>
 *   Promise<T>} step runs the work; `doing` is shown meanwhile, with the latest note, `done` afterwards
 * @property {(error: unknown) => void} explain why it did not work
 * @property {() => void} endSteps no step says anything from now on
 */

/**
 * @param {NodeJS.WriteStream} [stream]
 * @returns {Terminal}
 */
export function createTerminal(stream = process.stdout) {
  const rewrites = stream.isTTY === true && process.env.TERM !== 'dumb';
  const coloured = rewrites && process.env.NO_COLOR === undefined;
  let stepsEnded = false;
  /** @type {(() => void) | undefined} */
  let redrawStatus;
  // A closed pipe or terminal must not end the processes.
  stream.on('error', () => {});

  const paint = (/** @type {number} */ code, /** @type {string} */ text) =>
    coloured ? `\u001B[${code}m${text}\u001B[0m` : text;
  const clearLine = () => (rewrites ? '\r\u001B[K' : '');
  const print = (text = '') => {
    stream.write(`${redrawStatus === undefined ? '' : clearLine()}${text}\n`);
    redrawStatus?.();
  };

  /** @type {Terminal['step']} */
  const step = async (doing, work, done) => {
    const start = performance.now();
    let note = '';
    let nextSign = SIGN_OF_LIFE_MS;
    const elapsedMs = () => performance.now() - start;
    const status = () => `${note === '' ? doing : `${doing}: ${note.slice(0, NOTE_CHARS)}`} …`;
    const draw = () => {
      if (stepsEnded) return;
      if (rewrites) {
        const line = `${column(elapsedMs())}  ${status()}`;
        stream.write(`${clearLine()}${paint(2, line.slice(0, (stream.columns ?? 80) - 1))}`);
      } else if (elapsedMs() > nextSign) {
        nextSign += SIGN_OF_LIFE_MS;
        stream.write(`${column(elapsedMs())}  ${status()}\n`);
      }
    };
    const timer = setInterval(draw, TICK_MS);
    redrawStatus = draw;
    try {
      const result = await work((text) => {
        note = text;
        draw();
      });
      if (!stepsEnded) stream.write(`${clearLine()}${column(elapsedMs())}  ${done(result)}\n`);
      return result;
    } catch (error) {
      if (!stepsEnded) stream.write(`${clearLine()}${column(elapsedMs())}  ${status()} ${paint(31, 'failed')}\n`);
      throw error;
    } finally {
      clearInterval(timer);
      redrawStatus = undefined;
    }
  };

  const explain = (/** @type {unknown} */ error) => {
    if (error instanceof Problem) {
      if (error.details) print(`\n${indent(error.details)}`);
      print(`\n${paint(31, error.message)}`);
      if (error.remedy) print(error.remedy);
    } else if (FORBIDDEN.has(codeOf(error) ?? '')) {
      print(`\n${paint(31, messageOf(error))}`);
      print(
        'The folder must be writable, its disk not full, and everything in it be of the same user as this command.',
      );
    } else {
      print(`\n${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
    }
  };

  const endSteps = () => {
    if (redrawStatus !== undefined) stream.write(rewrites ? clearLine() : '');
    stepsEnded = true;
  };

  return { print, step, explain, endSteps };
}

/** @param {number} elapsedMs */
function column(elapsedMs) {
  return `${(elapsedMs / 1000).toFixed(1).padStart(6)} s`;
}

/** @param {string} text */
function indent(text) {
  return text.replace(/^/gm, '    ');
}
