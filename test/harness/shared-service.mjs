// One running service for all test files of a Jest process that ask for it. Outside of the contexts in which Jest runs
// files, since it outlives them: test/harness/environment.mjs starts it and ends it, and test/harness/service.ts wraps
// it for the file that runs.
import { randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { startRedis } from '../../scripts/engines/redis.mjs';
import { launch } from '../../scripts/processes.mjs';
import { SHARED_SETTINGS, serviceEnv } from './service-env.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const PRELOAD = new URL('preload-contracts.mjs', import.meta.url).href;
const READY_LIMIT_MS = 60_000;

/**
 * @typedef {object} SharedProcess
 * @property {import('node:child_process').ChildProcess} child
 * @property {number} pid
 * @property {string[]} log of the file that runs
 * @property {import('../../scripts/processes.mjs').Running['kill']} kill
 * @property {import('../../scripts/processes.mjs').Running['exit']} exit how it ended, if it has
 * @property {import('../../scripts/processes.mjs').Running['exited']} exited
 *
 * @typedef {object} SharedService
 * @property {import('../../scripts/engines/engine.js').RunningEngine & { dataDir: string }} redis
 * @property {string} databaseUrl
 * @property {string} url of the API
 * @property {NodeJS.ProcessEnv} env
 * @property {SharedProcess} api
 * @property {SharedProcess} worker
 * @property {(line: string) => void} onLine called with each line that a process logs
 * @property {() => Promise<void>} end
 */

/** @type {Promise<SharedService> | null} */
let running = null;
/** @type {number[]} */
let pids = [];

/**
 * Returns the service of this Jest process, started with the first file that asks for it. A worker that the last file
 * has stopped is replaced.
 */
export async function takeSharedService() {
  running ??= startSharedService().catch((error) => {
    running = null;
    throw error;
  });
  const service = await running;
  if (service.worker.exit()) {
    service.worker = await startWorker(service.env, service);
    pids = [service.api.pid, service.worker.pid, service.redis.pid];
  }
  return service;
}

/** The processes of the service, for what they cost; none when there is no service. */
export const sharedPids = () => pids;

/** Ends the service, so that no later file sees what a failed one has left. The next file gets a new one. */
export async function endSharedService() {
  const ended = await running;
  running = null;
  await ended?.end();
  pids = [];
}

/** @returns {Promise<SharedService>} */
async function startSharedService() {
  const dataDir = join(String(process.env.DOORBUSTER_TEST_DIR), `shared-${randomUUID()}`);
  await mkdir(dataDir);
  const binary = process.env.DOORBUSTER_TEST_REDIS_BINARY;
  const [redis, databaseUrl] = await Promise.all([
    startRedis({ dataDir, extraArgs: ['--appendfsync', 'no'], ...(binary ? { binary } : {}) }),
    createDatabase(),
  ]);
  redis.unref?.();
  const env = serviceEnv(redis.url, databaseUrl, SHARED_SETTINGS);
  /** @type {Pick<SharedService, 'onLine'>} */
  const listener = { onLine: () => {} };
  const [api, worker] = await Promise.all([
    startProcess('api', ['--import', PRELOAD], env, 'the API is listening', listener),
    startWorker(env, listener),
  ]);
  pids = [api.pid, worker.pid, redis.pid];
  const url = String(api.started.url);
  await untilReady(url);
  /** @type {SharedService} */
  const service = Object.assign(listener, {
    ...{ redis: { ...redis, dataDir }, databaseUrl, url, env, api, worker },
    end: async () => {
      const processes = [service.api, service.worker, redis];
      for (const { kill } of processes) kill('SIGKILL');
      await Promise.all(processes.map(({ exited }) => exited));
    },
  });
  return service;
}

/**
 * @param {NodeJS.ProcessEnv} env
 * @param {Pick<SharedService, 'onLine'>} listener
 */
const startWorker = (env, listener) => startProcess('worker', [], env, 'the worker is running', listener);

/** @returns {Promise<string>} the URL of a migrated database, which is gone with the Postgres of the run */
async function createDatabase() {
  const url = new URL(String(process.env.DOORBUSTER_TEST_DATABASE_URL));
  const admin = new pg.Client(url.href);
  await admin.connect();
  const name = `shared_${randomUUID().replaceAll('-', '_')}`;
  await admin.query(`create database ${name} template ${process.env.DOORBUSTER_TEST_TEMPLATE} strategy file_copy`);
  await admin.end();
  url.pathname = `/${name}`;
  return url.href;
}

/**
 * Starts a process that does not keep this one running, and that ends with it.
 * @param {'api' | 'worker'} name
 * @param {string[]} options of Node
 * @param {NodeJS.ProcessEnv} env
 * @param {string} message that it logs when it has started
 * @param {Pick<SharedService, 'onLine'>} listener
 */
async function startProcess(name, options, env, message, listener) {
  const main = join(ROOT, 'dist', name, 'main.js');
  const { child, pid, kill, exit, exited } = await launch(process.execPath, [...options, main], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    deathSignal: 'SIGKILL',
  });
  /** @type {string[]} */
  const log = [];
  /** @type {(entry: Record<string, unknown>) => void} */
  let onStart = () => {};
  const started = new Promise((/** @type {(entry: Record<string, unknown>) => void} */ resolve) => {
    onStart = resolve;
  });
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: /** @type {import('node:stream').Readable} */ (stream) }).on('line', (line) => {
      log.push(line);
      listener.onLine(line);
      if (line.includes(message)) onStart(JSON.parse(line));
    });
  }
  const entry = await Promise.race([
    started,
    exited.then(() => {
      throw new Error(`the shared ${name} ended before it was ready:\n${log.slice(-20).join('\n')}`);
    }),
  ]);
  child.unref();
  for (const stream of [child.stdout, child.stderr]) /** @type {import('node:net').Socket} */ (stream).unref();
  return { child, pid, log, kill, exit, exited, started: entry };
}

/** @param {string} url */
async function untilReady(url) {
  const deadline = performance.now() + READY_LIMIT_MS;
  for (;;) {
    const response = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(READY_LIMIT_MS) }).catch(() => null);
    if (response?.ok) return;
    if (performance.now() > deadline) throw new Error(`the shared API is not ready: ${await response?.text()}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
