// Log files of the parts of `npm start`: appended to, and rotated beyond a limit, with one older file kept.
import { closeSync, copyFileSync, openSync, readSync, renameSync, statSync, truncateSync } from 'node:fs';

const LIMIT_BYTES = 32 * 1024 * 1024;
const TAIL_BYTES = 64 * 1024;

/**
 * Opens a log for appending. The caller closes the descriptor; `start` is the position of the first new line.
 * @param {string} path
 * @returns {{ descriptor: number, start: number }}
 */
export function openLog(path) {
  if (sizeOf(path) > LIMIT_BYTES) renameSync(path, `${path}.1`);
  const descriptor = openSync(path, 'a', 0o640);
  return { descriptor, start: sizeOf(path) };
}

/**
 * Returns the last lines that were written from `start` on.
 * @param {string} path
 * @param {{ start?: number, lines?: number }} [range]
 * @returns {string}
 */
export function tailOf(path, { start = 0, lines = 15 } = {}) {
  const size = sizeOf(path);
  return readRange(path, Math.max(start, size - TAIL_BYTES), size)
    .trimEnd()
    .split('\n')
    .slice(-lines)
    .join('\n');
}

/**
 * @param {string} path
 * @param {number} from
 * @param {number} to
 * @returns {string} "" when there is nothing
 */
export function readRange(path, from, to) {
  if (to <= from) return '';
  const buffer = Buffer.alloc(to - from);
  const file = openSync(path, 'r');
  try {
    return buffer.toString('utf8', 0, readSync(file, buffer, 0, buffer.length, from));
  } finally {
    closeSync(file);
  }
}

/**
 * Rotates a log while its writer appends: the next line is at the top of the file. Lines written at this moment are
 * lost, which is acceptable for these logs and better than a full disk.
 * @param {string} path
 * @returns {void}
 */
export function shortenIfPastLimit(path) {
  if (sizeOf(path) <= LIMIT_BYTES) return;
  copyFileSync(path, `${path}.1`);
  truncateSync(path, 0);
}

export { closeSync as closeLog };

/**
 * @param {string} path
 * @returns {number} 0 when there is no such file
 */
export function sizeOf(path) {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
