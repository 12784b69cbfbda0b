// Prints the errors of a service's log to the console, and lines that are no log lines (a crash). The service writes
// the file itself: with a pipe to the launcher, a suspended launcher (Ctrl-Z) would block the server on a full pipe.
import { readRange, shortenIfPastLimit, sizeOf } from './logfile.mjs';

const LOOK_EVERY_MS = 500;
const LINES_A_LOOK = 5;
const BYTES_A_LOOK = 1024 * 1024;
const LINE_CHARS = 300;

/**
 * Prints new lines of interest until it is stopped.
 * @param {{ name: string, path: string, print: (line: string) => void }} log
 * @returns {() => void} a last look, then the end
 */
export function watchLog({ name, path, print }) {
  let position = sizeOf(path);
  let rest = '';
  const look = () => {
    const size = sizeOf(path);
    if (size < position) position = 0;
    const from = Math.max(position, size - BYTES_A_LOOK);
    const text = rest + readRange(path, from, size);
    position = size;
    const lines = text.split('\n');
    rest = (lines.pop() ?? '').slice(-BYTES_A_LOOK);
    const shown = lines.map(inShort).filter((line) => line !== undefined);
    for (const line of shown.slice(0, LINES_A_LOOK)) print(`${name}: ${line.slice(0, LINE_CHARS)}`);
    if (shown.length > LINES_A_LOOK) print(`${name}: and ${shown.length - LINES_A_LOOK} more lines in ${path}`);
    shortenIfPastLimit(path);
  };
  const timer = setInterval(look, LOOK_EVERY_MS);
  return () => {
    clearInterval(timer);
    look();
  };
}

/**
 * Returns a short form of the line if it is of interest: pino's level 50 is an error, 60 is fatal.
 * @param {string} line
 * @returns {string | undefined}
 */
export function inShort(line) {
  if (line.trim() === '') return undefined;
  // Lines of LOG_FORMAT=pretty: errors begin with their time, and fields with spaces.
  if (/^(\[[\d:.]+\] (TRACE|DEBUG|INFO|WARN)| {2})/.test(line)) return undefined;
  if (!line.startsWith('{')) return line;
  if (!/"level":[56]\d/.test(line)) return undefined;
  try {
    const { level, msg, err } = JSON.parse(line);
    if (level < 50) return undefined;
    const cause = err?.message === undefined || err.message === msg ? '' : ` (${err.message})`;
    return `${msg ?? 'error'}${cause}`;
  } catch {
    return line;
  }
}
