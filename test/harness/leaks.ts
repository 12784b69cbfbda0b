import { afterAll, afterEach } from '@jest/globals';
import { runCleanups, runEndings } from './cleanup.js';
import { failOnBreaches } from './contract-breaches.js';
import { until } from './until.js';

/** Kinds of handle that a test file must not leave behind; Jest's own worker has some from the start. */
const WATCHED = new Set(['TCPSocketWrap', 'TCPServerWrap', 'ProcessWrap']);
const openAtStart = watched().length;

afterEach(runEndings);
afterEach(failOnBreaches);

afterAll(async () => {
  await runEndings();
  await runCleanups();
  // The log of a process is read to its end when the process has been stopped.
  failOnBreaches();
  await until('no socket, server or process is left open', () => watched().length <= openAtStart);
});

function watched(): string[] {
  return process.getActiveResourcesInfo().filter((kind) => WATCHED.has(kind));
}
