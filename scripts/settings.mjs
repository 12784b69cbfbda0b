// The environment variables of `npm start` itself. The server reads and checks the others (shared/config).
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { whyNotListen } from './ports.mjs';
import { Problem } from './problem.mjs';

const KEY_NAMES = /** @type {const} */ ([
  'ADMIN_API_KEYS',
  'SERVICE_API_KEYS',
  'ATTESTATION_KEYS',
  'TICKET_KEYS',
  'PAY_LINK_KEYS',
]);

/**
 * @typedef {{ port: number, host: string, dataDir: string, withDemo: boolean, opsPort: string | undefined,
 *   redisUrl: string | undefined, databaseUrl: string | undefined }} Settings
 */
/** @typedef {Record<(typeof KEY_NAMES)[number], string>} Keys */

/**
 * @param {NodeJS.ProcessEnv} env
 * @param {string} root
 * @returns {Settings}
 */
export function readSettings(env, root) {
  /** @type {string[]} */
  const mistakes = [];
  const read = (/** @type {string} */ name, /** @type {RegExp} */ pattern, /** @type {string} */ expected) => {
    const value = env[name] ?? '';
    if (value === '') return undefined;
    // The URL of an engine contains a password, so it is not printed.
    const shown = name.endsWith('_URL') ? name : `${name}=${value}`;
    if (!pattern.test(value)) mistakes.push(`${shown}: expected ${expected}`);
    return value;
  };
  const settings = {
    port: Number(
      read('PORT', /^([1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])$/, 'a port, 1 to 65535') ??
        8102,
    ),
    host: read('HOST', /^[\w.:-]+$/, 'an address or a host name of this machine') ?? '127.0.0.1',
    dataDir: resolve(read('DATA_DIR', /./, 'a folder') ?? resolve(root, '.data')),
    withDemo: read('DEMO', /^[01]$/, '0 or 1') !== '0',
    // The service checks it.
    opsPort: env.OPS_PORT || undefined,
    redisUrl: read(
      'REDIS_URL',
      /^rediss?(\+(sentinel|cluster))?:\/\/./,
      'redis://… or rediss://…, also with +sentinel or +cluster before the colon',
    ),
    databaseUrl: read('DATABASE_URL', /^postgres(ql)?:\/\/./, 'postgres://…'),
  };
  if (mistakes.length === 0) return settings;
  throw new Problem('The environment does not fit.', { details: mistakes.join('\n'), remedy: 'See .env.example.' });
}

/**
 * Returns the keys of the environment, and generated ones for missing variables.
 * @param {NodeJS.ProcessEnv} env
 * @param {Keys} ours
 * @returns {{ keys: Keys, areOurs: boolean }} areOurs: those that people type are, so they may be shown
 */
export function keysFrom(env, ours) {
  const keys = /** @type {Keys} */ (Object.fromEntries(KEY_NAMES.map((name) => [name, env[name] || ours[name]])));
  return { keys, areOurs: !env.ADMIN_API_KEYS && !env.SERVICE_API_KEYS };
}

/**
 * Returns the address of the API for connections from this machine; the address for "all" cannot be connected to.
 * @param {Settings} settings
 * @returns {string}
 */
export function addressOf({ host, port }) {
  if (host === '0.0.0.0') return `http://127.0.0.1:${port}`;
  if (host === '::') return `http://[::1]:${port}`;
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/**
 * Checks the environment of the services by the rules of the build, before any engine starts.
 * @param {string} root the repository, with a build
 * @param {NodeJS.ProcessEnv} env without the URLs of engines that are not started yet
 * @returns {Promise<void>}
 */
export async function refuseWrongConfig(root, env) {
  const { ConfigError, readConfig } = await import(pathToFileURL(join(root, 'dist/shared/config/config.js')).href);
  const engines = {
    REDIS_URL: env.REDIS_URL || 'redis://127.0.0.1:6379',
    DATABASE_URL: env.DATABASE_URL || 'postgres://127.0.0.1/doorbuster',
  };
  try {
    readConfig({ ...env, ...engines });
  } catch (error) {
    if (!(error instanceof Error && error instanceof ConfigError && 'problems' in error)) throw error;
    throw new Problem('The environment does not fit.', {
      details: /** @type {string[]} */ (error.problems).join('\n'),
      remedy: 'See docs/configuration.md.',
    });
  }
}

/**
 * @param {Settings} settings
 * @returns {Promise<void>}
 */
export async function refuseTakenPort({ port, host }) {
  const why = await whyNotListen(port, host);
  if (why === undefined) return;
  if (why === 'EADDRINUSE') {
    throw new Problem(`Port ${port} on ${host} is taken by another program.`, {
      remedy: `Choose another: PORT=${port === 65_535 ? 8102 : port + 1} npm start`,
    });
  }
  if (why === 'EACCES') {
    throw new Problem(`Port ${port} may not be used by this user.`, {
      remedy: 'Choose one above 1023: PORT=8102 npm start',
    });
  }
  throw new Problem(`Cannot listen on ${host}, port ${port} (${why}).`, {
    remedy: 'Set HOST to an address of this machine.',
  });
}
