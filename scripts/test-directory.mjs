// The folder of one `npm test`: engines' data and whatever the tests put there. It goes with the test; what a killed
// test could not remove, the next one does.
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { takeLock } from './lock.mjs';
import { endLeftovers } from './run-record.mjs';

const PREFIX = 'doorbuster-test-';
/** By this, in their environment, the processes of a test are known. */
export const DIRECTORY_VARIABLE = 'DOORBUSTER_TEST_DIR';

/**
 * @returns {Promise<string>}
 */
export async function makeTestDirectory() {
  const directory = mkdtempSync(join(tmpdir(), PREFIX));
  // Open to pass through: as root, Postgres runs as another user.
  chmodSync(directory, 0o711);
  await takeLock(join(directory, 'lock'));
  return directory;
}

/**
 * Removes a directory, and first whatever the tests left running with it.
 * @param {string} directory
 * @returns {void}
 */
export function removeTestDirectory(directory) {
  killProcessesOf(directory);
  rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
}

/**
 * Removes the directories whose test is dead.
 * @returns {Promise<void>}
 */
export async function removeAbandoned() {
  for (const name of readdirSync(tmpdir()).filter((entry) => entry.startsWith(PREFIX))) {
    const directory = join(tmpdir(), name);
    try {
      // One that is being made has no lock yet; its test is alive.
      readFileSync(join(directory, 'lock'));
      const lock = await takeLock(join(directory, 'lock'));
      if (!lock.taken) continue;
      await endLeftovers(directory, () => {});
      removeTestDirectory(directory);
    } catch {
      // Another user's, or gone meanwhile.
    }
  }
}

/** @param {string} directory */
function killProcessesOf(directory) {
  if (process.platform !== 'linux') return;
  const mark = `${DIRECTORY_VARIABLE}=${directory}`;
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)) {
    try {
      if (readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(mark)) process.kill(Number(pid), 'SIGKILL');
    } catch {
      // Gone meanwhile, or another user's.
    }
  }
}
