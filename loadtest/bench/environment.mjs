// The environment of a benchmark: its own Redis and Postgres, one API and one worker from dist/. All are stopped
// afterwards.

import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
export const ADMIN = 'admin-secret-of-the-bench';
export const SERVICE = 'service-secret-of-the-bench';
export const ATTESTATION_KEY = randomBytes(32);
const TICKET_KEY = randomBytes(32);

/**
 * @typedef {{ url: string, pid: number, stop: () => Promise<void> }} Part a started process
 * @typedef {{ redisUrl: string, databaseUrl: string, redisPid: number, postgresPid: number, env: NodeJS.ProcessEnv,
 *   api: Part, worker: Part, start: (name: string, args: string[], env?: NodeJS.ProcessEnv) => Promise<Part>, stop: ()
 *   => Promise<void> }} Environment
 */

/**
 * @param {{ root?: string, say?: (text: string) => void, env?: NodeJS.ProcessEnv }} [options] root: the checkout whose
 *   dist/ is run
 * @returns {Promise<Environment>}
 */
export async function startEnvironment({ root = ROOT, say = () => {}, env: extra = {} } = {}) {
  const { findRedisServer, startRedis } = await import(join(ROOT, 'scripts/engines/redis.mjs'));
  const { startPostgres } = await import(join(ROOT, 'scripts/engines/postgres.mjs'));
  const folder = mkdtempSync(join(tmpdir(), 'doorbuster-bench-'));
  /** @type {(() => Promise<void>)[]} */
  const ends = [];
  const stop = async () => {
    for (const end of ends.reverse()) await end().catch(() => {});
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    const binary = await findRedisServer({ say });
    const redis = await startRedis({ binary, dataDir: join(folder, 'redis') });
    ends.push(() => redis.stop());
    const postgres = await startPostgres({ dataDir: join(folder, 'postgres'), say });
    ends.push(() => postgres.stop());
    const env = {
      PATH: process.env.PATH,
      NODE_ENV: 'bench',
      HOST: '127.0.0.1',
      PORT: '0',
      LOG_LEVEL: 'info',
      REDIS_URL: redis.url,
      DATABASE_URL: postgres.url,
      ADMIN_API_KEYS: `bench:${ADMIN}`,
      SERVICE_API_KEYS: `bench:${SERVICE}`,
      ATTESTATION_KEYS: `a1:${ATTESTATION_KEY.toString('base64')}`,
      TICKET_KEYS: `t1:${TICKET_KEY.toString('base64')}`,
      ...extra,
    };
    /** @type {Environment['start']} */
    const start = async (_name, args, more = {}) => {
      const part = await startPart(args, { ...env, ...more });
      ends.push(part.stop);
      return part;
    };
    const migrated = spawn(process.execPath, [join(root, 'dist/migrations/main.js')], { env, stdio: 'ignore' });
    await once(migrated, 'exit');
    const worker = await start('worker', [join(root, 'dist/worker/main.js')]);
    const api = await start('api', [join(root, 'dist/api/main.js')]);
    await ready(api.url);
    return {
      redisUrl: redis.url,
      databaseUrl: postgres.url,
      redisPid: redis.pid,
      postgresPid: postgres.pid,
      env,
      api,
      worker,
      start,
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/**
 * Starts a Node program that logs JSON lines, and waits for the line that reports the start. The log is written, as in
 * a container, and then dropped.
 * @param {string[]} args
 * @param {NodeJS.ProcessEnv} env
 * @returns {Promise<Part>}
 */
async function startPart(args, env) {
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  /** @type {(url: string) => void} */
  let there = () => {};
  const started = new Promise((resolve) => {
    there = resolve;
  });
  let text = '';
  let known = false;
  child.stdout.on('data', (chunk) => {
    if (known) return;
    text += chunk;
    const found =
      /"url":"([^"]+)"[^\n]*"the API is listening"|"the API is listening"[^\n]*"url":"([^"]+)"|listening (\S+)|(the worker is running)/.exec(
        text,
      );
    if (!found) return;
    known = true;
    text = '';
    there(found[1] ?? found[2] ?? found[3] ?? '');
  });
  const url = await Promise.race([
    started,
    exited.then(() => {
      throw new Error(`${args.join(' ')} ended before it was there:\n${text}`);
    }),
  ]);
  return {
    url,
    pid: Number(child.pid),
    stop: async () => {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM');
      await exited;
    },
  };
}

/** @param {string} url */
async function ready(url) {
  for (let tries = 0; tries < 500; tries += 1) {
    const ok = await fetch(`${url}/readyz`).then(
      (answer) => answer.ok,
      () => false,
    );
    if (ok) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error('the API did not become ready');
}
