// Reads the engines and keys of the service that `npm start` runs here from its data directory.
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { readRunRecord } from './run-record.mjs';

/**
 * @param {string} root the repository
 * @param {NodeJS.ProcessEnv} env
 * @returns {string}
 */
export function dataDirOf(root, env) {
  return resolve(root, env.DATA_DIR || '.data');
}

/**
 * Returns the addresses of the engines that `npm start` runs for this directory; empty if none runs.
 * @param {string} dataDir
 * @returns {{ REDIS_URL?: string, DATABASE_URL?: string }}
 */
export function enginesIn(dataDir) {
  const { ports, processes } = readRunRecord(dataDir);
  if (!ports.redis || !ports.postgres || Object.keys(processes).length === 0) return {};
  const secrets = secretsIn(dataDir);
  return {
    REDIS_URL: `redis://default:${encodeURIComponent(secrets.REDIS_PASSWORD ?? '')}@127.0.0.1:${ports.redis}`,
    DATABASE_URL: `postgres://postgres:${encodeURIComponent(secrets.POSTGRES_PASSWORD ?? '')}@127.0.0.1:${ports.postgres}/doorbuster`,
  };
}

/**
 * Returns the address of the API that `npm start` runs for this directory; undefined if none runs.
 * @param {string} dataDir
 * @returns {string | undefined}
 */
export function apiIn(dataDir) {
  const { address, processes } = readRunRecord(dataDir);
  return processes.api ? address : undefined;
}

/**
 * Returns the generated secrets of this directory; empty if there are none.
 * @param {string} dataDir
 * @returns {Record<string, string>}
 */
export function secretsIn(dataDir) {
  try {
    return JSON.parse(readFileSync(join(dataDir, 'secrets.json'), 'utf8'));
  } catch {
    return {};
  }
}
