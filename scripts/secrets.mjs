// The secrets of `npm start`: generated once, kept in DATA_DIR, readable by their owner only.
import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { codeOf, Problem } from './problem.mjs';

const word = () => randomBytes(24).toString('base64url');
const key = () => randomBytes(32).toString('base64');

/** Secrets that the environment can replace have the name of the variable. */
const RECIPES = {
  ADMIN_API_KEYS: () => `admin:${word()}`,
  SERVICE_API_KEYS: () => `payments:${word()}`,
  ATTESTATION_KEYS: () => `a1:${key()}`,
  TICKET_KEYS: () => `t1:${key()}`,
  PAY_LINK_KEYS: () => `c1:${key()}`,
  REDIS_PASSWORD: word,
  POSTGRES_PASSWORD: word,
};

/** @typedef {Record<keyof typeof RECIPES, string>} Secrets */

/**
 * Returns the secrets of this data directory, and generates missing ones.
 * @param {string} dataDir
 * @returns {Secrets}
 */
export function keepSecrets(dataDir) {
  const path = join(dataDir, 'secrets.json');
  const found = read(path);
  const secrets = /** @type {Secrets} */ ({ ...found });
  for (const [name, make] of /** @type {[keyof Secrets, () => string][]} */ (Object.entries(RECIPES))) {
    secrets[name] ??= make();
  }
  if (Object.keys(secrets).length !== Object.keys(found).length) write(path, secrets);
  return secrets;
}

/**
 * @param {string} path
 * @returns {Partial<Secrets>}
 */
function read(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return {};
    const why = error instanceof SyntaxError ? 'is not valid JSON' : `cannot be read (${codeOf(error)})`;
    throw new Problem(`${path} ${why}.`, {
      remedy: 'Mend it, or remove it: new secrets are made then, and the old ones stop working.',
      cause: error,
    });
  }
}

/**
 * @param {string} path
 * @param {Secrets} secrets
 */
function write(path, secrets) {
  const draft = `${path}.${process.pid}`;
  const file = openSync(draft, 'w', 0o600);
  writeSync(file, `${JSON.stringify(secrets, null, 2)}\n`);
  fsyncSync(file);
  closeSync(file);
  renameSync(draft, path);
}
