// Starts a private Postgres from the npm package: on the loopback only, with a password. It can start again on the same
// data after any end. Used by `npm start`, `npm test` and by the tests that kill it.
import { randomBytes } from 'node:crypto';
import {
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { closeLog, openLog, tailOf } from '../logfile.mjs';
import { freePort, whyNotListen } from '../ports.mjs';
import { codeOf, Problem } from '../problem.mjs';
import { commandLineOf } from '../process-identity.mjs';
import { launch, run } from '../processes.mjs';
import { pause } from '../waiting.mjs';
import { findPostgres } from './postgres-binaries.mjs';
import { postgresUser } from './postgres-user.mjs';

const SUPERUSER = 'postgres';
const PORT_ATTEMPTS = 3;
// Backends of a killed postmaster keep its shared memory until they detect its end.
const ORPHANS_LIMIT_MS = 20_000;
const ORPHANS = /pre-existing shared memory block|lock file "postmaster\.pid" already exists/;
const STOP_LIMIT_MS = 20_000;
// The children of a killed initdb may still write.
const REMOVAL = { recursive: true, force: true, maxRetries: 5 };

/** @typedef {import('./engine.js').PostgresOptions} PostgresOptions */
/** @typedef {import('./engine.js').RunningEngine} RunningEngine */
/**
 * @typedef {object} Cluster
 * @property {string} directory
 * @property {string} log
 * @property {string[]} settings
 * @property {import('./postgres-binaries.mjs').PostgresPrograms} programs
 * @property {import('../processes.mjs').User | undefined} as
 */

/**
 * Starts Postgres on the data directory and returns when it accepts connections. Creates cluster and database on first
 * use.
 * @param {PostgresOptions} options
 * @returns {Promise<RunningEngine>}
 */
export async function startPostgres(options) {
  const {
    dataDir,
    password = randomBytes(18).toString('base64url'),
    database = 'doorbuster',
    extraArgs = [],
    say = () => {},
  } = options;
  const directory = resolve(dataDir);
  mkdirSync(dirname(directory), { recursive: true });
  const programs = await findPostgres();
  const as = await postgresUser(programs.postgres, directory);
  const log = resolve(options.logFile ?? `${directory}.log`);
  const cluster = { directory, log, programs, as, settings: [...extraArgs] };
  if (!existsSync(join(directory, 'PG_VERSION'))) {
    say('creating the database cluster');
    await createCluster(cluster, password);
  }
  refuseOtherMajor(cluster);
  let server = await startServer(cluster, options.port, options.readyLimitMs);
  try {
    await ensureDatabase(server.port, password, database);
  } catch (error) {
    await server.stop();
    if (codeOf(error) !== WRONG_PASSWORD) throw error;
    say('setting the password');
    await setPassword(cluster, password);
    server = await startServer(cluster, server.port, options.readyLimitMs);
    await ensureDatabase(server.port, password, database);
  }
  return { ...server, url: urlOf(server.port, password, database) };
}

/**
 * Runs initdb in another folder and moves the result into place, so that a partial cluster is never taken for a
 * complete one.
 * @param {Cluster} cluster
 * @param {string} password
 */
async function createCluster({ directory, programs, as, settings }, password) {
  for (const name of readdirSync(dirname(directory))) {
    if (name.startsWith(`${basename(directory)}.new-`)) rmSync(join(dirname(directory), name), REMOVAL);
  }
  const draft = `${directory}.new-${process.pid}`;
  const passwordFile = `${draft}.password`;
  mkdirSync(draft, { mode: 0o700 });
  writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 });
  if (as !== undefined) for (const path of [draft, passwordFile]) chownSync(path, as.uid, as.gid);
  try {
    const locale = ['--encoding=UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'];
    const access = [`--username=${SUPERUSER}`, '--auth=scram-sha-256', `--pwfile=${passwordFile}`];
    const durability = settings.includes('fsync=off') ? ['--no-sync'] : [];
    const args = [`--pgdata=${draft}`, ...locale, ...access, ...durability, '--no-instructions'];
    const { code, output } = await run(programs.initdb, args, { as, cwd: '/', env: environment() });
    if (code !== 0) throw new Problem('Postgres could not create its data directory.', { details: lastLines(output) });
    renameSync(draft, directory);
  } finally {
    for (const path of [draft, passwordFile]) rmSync(path, REMOVAL);
  }
}

/** @param {Cluster} cluster */
function refuseOtherMajor({ directory, programs }) {
  const found = Number(readFileSync(join(directory, 'PG_VERSION'), 'utf8'));
  if (found === programs.major) return;
  throw new Problem(`The data in ${directory} are of Postgres ${found}; this is Postgres ${programs.major}.`, {
    remedy: `Move the folder away to begin anew, or dump it with Postgres ${found} and restore the dump here.`,
  });
}

/**
 * @param {Cluster} cluster
 * @param {number | undefined} port
 * @param {number} [readyLimitMs]
 */
async function startServer(cluster, port, readyLimitMs = 120_000) {
  const orphansEnd = Date.now() + ORPHANS_LIMIT_MS;
  for (let attempt = 1; ; attempt += 1) {
    const chosen = port ?? (await freePort());
    removeStalePidFile(cluster.directory);
    const { running, logStart } = await launchServer(cluster, chosen);
    const why = await whyNotReady(running, cluster.directory, readyLimitMs);
    if (why === undefined) {
      const { pid, exited, kill, stop } = running;
      return { port: chosen, pid, exited, kill, stop: (limitMs = STOP_LIMIT_MS) => stop(limitMs) };
    }
    await running.stop(STOP_LIMIT_MS);
    const details = tailOf(cluster.log, { start: logStart });
    const portWasTaken = port === undefined && (await whyNotListen(chosen)) !== undefined;
    if (portWasTaken && attempt < PORT_ATTEMPTS) continue;
    if (ORPHANS.test(details) && Date.now() < orphansEnd) {
      await pause(200);
      continue;
    }
    throw new Problem(`Postgres did not start: ${why}.`, { details, remedy: `Its log: ${cluster.log}` });
  }
}

/**
 * @param {Cluster} cluster
 * @param {number} port
 */
async function launchServer({ directory, log, programs, as, settings }, port) {
  const fixed = [
    'listen_addresses=127.0.0.1',
    // The path of a socket may have 107 characters; the path of the checkout may be longer.
    'unix_socket_directories=',
    'shared_buffers=128MB',
    'max_connections=100',
    'timezone=UTC',
    'log_timezone=UTC',
  ];
  const args = ['-D', directory, '-p', String(port), ...[...fixed, ...settings].flatMap((setting) => ['-c', setting])];
  const { descriptor, start } = openLog(log);
  const running = await launch(programs.postgres, args, {
    as,
    cwd: '/',
    env: environment(),
    stdio: ['ignore', descriptor, descriptor],
    // The fast shutdown, then the immediate one; SIGTERM would wait until every client has disconnected.
    stopSignal: 'SIGINT',
    hurrySignal: 'SIGQUIT',
  }).finally(() => closeLog(descriptor));
  return { running, logStart: start };
}

/**
 * Waits until the postmaster writes that it is ready into its pid file. Returns the reason if that cannot happen.
 * @param {import('../processes.mjs').Running} running
 * @param {string} directory
 * @param {number} limitMs
 */
async function whyNotReady(running, directory, limitMs) {
  const end = Date.now() + limitMs;
  while (Date.now() < end) {
    const exit = running.exit();
    if (exit !== undefined) return `it ended with ${exit.signal ?? `code ${exit.code}`}`;
    const lines = readPidFile(directory);
    if (Number(lines[0]) === running.pid && lines[7]?.trim() === 'ready') return undefined;
    await pause(20);
  }
  return `not ready after ${limitMs / 1000} s`;
}

/**
 * Removes a pid file whose pid now belongs to another program, because Postgres would not start with it.
 * @param {string} directory
 */
function removeStalePidFile(directory) {
  const pid = Number(readPidFile(directory)[0]);
  if (Number.isNaN(pid) || commandLineOf(pid).includes(directory)) return;
  rmSync(join(directory, 'postmaster.pid'), { force: true });
}

/** @param {string} directory */
function readPidFile(directory) {
  try {
    return readFileSync(join(directory, 'postmaster.pid'), 'utf8').split('\n');
  } catch {
    return [];
  }
}

/** A server that has crashed under load takes many connections of others before this one. */
const CONNECT_LIMIT_MS = 60_000;
const WRONG_PASSWORD = '28P01';
const ALREADY_THERE = '42P04';

/**
 * @param {number} port
 * @param {string} password
 * @param {string} database
 */
async function ensureDatabase(port, password, database) {
  // Imported here, because this module is loaded before the packages are installed.
  const { Client, escapeIdentifier } = (await import('pg')).default;
  const client = new Client({
    connectionString: urlOf(port, password, SUPERUSER),
    connectionTimeoutMillis: CONNECT_LIMIT_MS,
  });
  client.on('error', () => {});
  try {
    await client.connect();
    const { rowCount } = await client.query('select from pg_database where datname = $1', [database]);
    if (rowCount === 0) await client.query(`create database ${escapeIdentifier(database)}`);
  } catch (error) {
    if (codeOf(error) !== ALREADY_THERE) throw error;
  } finally {
    await client.end();
  }
}

/**
 * Sets a new password for a cluster whose password is lost (the secrets were removed, the data kept).
 * @param {Cluster} cluster
 * @param {string} password
 */
async function setPassword({ directory, programs, as }, password) {
  const input = `alter user ${SUPERUSER} password '${password.replaceAll("'", "''")}'\n`;
  const options = { as, cwd: '/', env: environment(), input };
  const { code, output } = await run(programs.postgres, ['--single', '-D', directory, SUPERUSER], options);
  if (code !== 0) throw new Problem('The password of Postgres could not be set.', { details: lastLines(output) });
}

/**
 * @param {number} port
 * @param {string} password
 * @param {string} database
 */
function urlOf(port, password, database) {
  return `postgres://${SUPERUSER}:${encodeURIComponent(password)}@127.0.0.1:${port}/${encodeURIComponent(database)}`;
}

/**
 * A clean environment: PG… variables would change the server's behaviour, and some locales make it threaded on macOS.
 */
function environment() {
  return { PATH: process.env.PATH, LC_ALL: 'C' };
}

/** @param {string} output */
function lastLines(output) {
  return output.trim().split('\n').slice(-15).join('\n');
}
