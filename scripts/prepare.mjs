// Installs the packages and builds, for `npm start` and `npm test`. Runs once at a time in a checkout.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { build, isBuilt } from './build.mjs';
import { installPackages, isInstalled } from './install.mjs';
import { waitForLock } from './lock.mjs';

const PREPARE_LIMIT_MS = 1_200_000;

/**
 * Installs and builds whatever is missing or stale.
 * @param {string} root
 * @param {import('./terminal.mjs').Terminal} terminal
 * @returns {Promise<void>}
 */
export async function prepare(root, { step }) {
  mkdirSync(join(root, '.engines'), { recursive: true });
  const release = await step(
    'checking packages and build',
    (say) => waitForLock(join(root, '.engines', 'prepare.lock'), { limitMs: PREPARE_LIMIT_MS, say }),
    () => `doorbuster in ${root}`,
  );
  try {
    if (!isInstalled(root))
      await step(
        'installing the locked packages',
        () => installPackages(root),
        () => 'packages installed',
      );
    if (!isBuilt(root))
      await step(
        'compiling',
        () => build(root),
        () => 'compiled',
      );
  } finally {
    release();
  }
}
