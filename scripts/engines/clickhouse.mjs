// Finds the engine of ClickHouse for `npm run test:kafka`: chDB, a Python package that contains it. There is no server
// of ClickHouse in the package registries.
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from '../processes.mjs';
import { clearHalfDone, moveInto } from './apt.mjs';

const PACKAGE = 'chdb==4.4.0';
const ENGINES = join(dirname(dirname(dirname(fileURLToPath(import.meta.url)))), '.engines');
const HOME = join(ENGINES, PACKAGE.replace('==', '-'));
const DOWNLOAD_LIMIT_MS = 600_000;

/**
 * Finds chDB, or downloads it once (about 300 MB).
 * @param {{ say?: (note: string) => void }} [options]
 * @returns {Promise<string | undefined>} the folder for PYTHONPATH; undefined = it cannot be had here
 */
export async function findClickHouse({ say = () => {} } = {}) {
  if (existsSync(HOME)) return HOME;
  mkdirSync(ENGINES, { recursive: true });
  clearHalfDone(HOME);
  const draft = `${HOME}.new-${process.pid}`;
  say(`fetching ${PACKAGE} with pip`);
  const args = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--target', draft, PACKAGE];
  const installed = await run('python3', args, { limitMs: DOWNLOAD_LIMIT_MS }).catch(() => undefined);
  if (installed?.code !== 0) {
    rmSync(draft, { recursive: true, force: true });
    return undefined;
  }
  moveInto(draft, HOME);
  return HOME;
}
