// Starts PgBouncer in transaction mode before a Postgres, for the tests.
import { accessSync, chownSync, constants, mkdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { delimiter, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { waitForLock } from '../lock.mjs';
import { closeLog, openLog, tailOf } from '../logfile.mjs';
import { freePort, whyNotListen } from '../ports.mjs';
import { messageOf, Problem } from '../problem.mjs';
import { launch } from '../processes.mjs';
import { pause } from '../waiting.mjs';
import { APT_LIMIT_MS, unpackPackage } from './apt.mjs';
import { postgresUser } from './postgres-user.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PACKAGE = { name: 'pgbouncer', program: 'usr/sbin/pgbouncer' };
// Debian installs it into a folder that the PATH of ordinary users lacks.
const FOLDERS = ['/usr/sbin', '/opt/homebrew/bin', '/usr/local/bin'];
const STOP_LIMIT_MS = 5_000;
const READY_LIMIT_MS = 30_000;
const PORT_ATTEMPTS = 3;

/** @typedef {import('./engine.js').PgBouncerOptions} PgBouncerOptions */
/** @typedef {import('./engine.js').RunningEngine} RunningEngine */

/**
 * Returns the path of PgBouncer: an installed one, or the distribution's package, unpacked below the repository.
 * @returns {Promise<{ path: string } | { missing: string }>} the reason why there is none, for the log of the tests
 */
export async function findPgBouncer() {
  const home = join(ROOT, '.engines', 'pgbouncer');
  const folders = [...(process.env.PATH ?? '').split(delimiter).filter(Boolean), ...FOLDERS];
  const present = () =>
    [...folders.map((folder) => join(folder, 'pgbouncer')), join(home, 'pgbouncer')].find(isProgram);
  const found = present();
  if (found !== undefined) return { path: found };
  mkdirSync(dirname(home), { recursive: true });
  const release = await waitForLock(`${home}.lock`, { limitMs: APT_LIMIT_MS, say: () => {} });
  try {
    return { path: present() ?? (await unpackPackage(home, PACKAGE)) };
  } catch (error) {
    return {
      missing: `no PgBouncer here, and none could be got (${messageOf(error)}); install one: apt install pgbouncer`,
    };
  } finally {
    release();
  }
}

/**
 * Starts PgBouncer on the loopback. It serves every database of the server at `target`, with the user and password of
 * that URL, and returns when it accepts connections.
 * @param {PgBouncerOptions} options
 * @returns {Promise<RunningEngine>} its `url` is `target` through PgBouncer
 */
export async function startPgBouncer({ binary, directory: folder, target, connections = 10, port }) {
  const directory = resolve(folder);
  mkdirSync(directory, { recursive: true });
  const as = await postgresUser(binary, directory);
  const url = new URL(target);
  const users = join(directory, 'users.txt');
  const configuration = join(directory, 'pgbouncer.ini');
  const log = join(directory, 'pgbouncer.log');
  writeFileSync(users, `"${url.username}" "${decodeURIComponent(url.password)}"\n`, { mode: 0o600 });
  for (let attempt = 1; ; attempt += 1) {
    const chosen = port ?? (await freePort());
    writeFileSync(configuration, settings(url, users, chosen, connections), { mode: 0o600 });
    if (as !== undefined) for (const path of [directory, users, configuration]) chownSync(path, as.uid, as.gid);
    const { descriptor, start } = openLog(log);
    const running = await launch(binary, [configuration], {
      as,
      cwd: '/',
      stdio: ['ignore', descriptor, descriptor],
      // The immediate shutdown; SIGINT and SIGTERM may wait for clients.
      stopSignal: 'SIGTERM',
    }).finally(() => closeLog(descriptor));
    if (await listens(running, chosen, () => tailOf(log, { start }))) {
      const { pid, exited, kill, stop } = running;
      url.port = String(chosen);
      return { url: url.href, port: chosen, pid, exited, kill, stop: (limitMs = STOP_LIMIT_MS) => stop(limitMs) };
    }
    await running.stop(STOP_LIMIT_MS);
    const portWasTaken = port === undefined && (await whyNotListen(chosen)) !== undefined;
    if (portWasTaken && attempt < PORT_ATTEMPTS) continue;
    throw new Problem('PgBouncer did not start.', { details: tailOf(log, { start }), remedy: `Its log: ${log}` });
  }
}

/**
 * The settings that docs/postgres.md asks for, and no others: `ignore_startup_parameters` and `max_prepared_statements`
 * are not needed.
 * @param {URL} target
 * @param {string} users
 * @param {number} port
 * @param {number} connections
 */
function settings(target, users, port, connections) {
  return `[databases]
* = host=${target.hostname} port=${target.port}
[pgbouncer]
pool_mode = transaction
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = ${users}
max_client_conn = 500
default_pool_size = ${connections}
server_login_retry = 1
server_connect_timeout = 3
`;
}

/**
 * @param {import('../processes.mjs').Running} running
 * @param {number} port
 * @param {() => string} logged what it has written to its log
 */
async function listens(running, port, logged) {
  const end = Date.now() + READY_LIMIT_MS;
  while (Date.now() < end && running.exit() === undefined) {
    const socket = connect({ port, host: '127.0.0.1' });
    const open = await new Promise((settle) => {
      socket.once('connect', () => settle(true));
      socket.once('error', () => settle(false));
    });
    socket.destroy();
    // Another program may have the port.
    if (open && logged().includes(`listening on 127.0.0.1:${port}`)) return true;
    await pause(20);
  }
  return false;
}

/** @param {string} path */
function isProgram(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
