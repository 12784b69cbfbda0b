import { afterAll } from '@jest/globals';
import { runCleanups } from './cleanup.js';
import { until } from './until.js';

/** Kinds of handle that a test file must not leave behind; Jest's own worker has some from the start. */
const WATCHED = new Set(['TCPSocketWrap', 'TCPServerWrap', 'ProcessWrap']);
const openAtStart = watched().length;

afterAll(async () => {
  await runCleanups();
  await until('no socket, server or process is left open', () => watched().length <= openAtStart, 5_000);
}, 60_000);

function watched(): string[] {
  return process.getActiveResourcesInfo().filter((kind) => WATCHED.has(kind));
}
