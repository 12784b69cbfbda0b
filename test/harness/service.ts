import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import pg from 'pg';
import { setprivPrefix } from '../../scripts/processes.mjs';
import { projectRoot } from '../../shared/config/project-root.js';
import { atEnd } from './cleanup.js';
import { noteBreach } from './contract-breaches.js';
import { connectTo, createTestDatabase, startTestRedis, type TestRedis } from './engines.js';
import { keepLog } from './kept-logs.js';
import {
  ADMIN_SECRET,
  ATTESTATION_KEY,
  PAY_LINK_KEYS,
  SERVICE_SECRET,
  SHARED_SETTINGS,
  serviceEnv,
  TICKET_KEY,
} from './service-env.mjs';
import type { SharedProcess, SharedService } from './shared-service.mjs';
import { LIMIT_MS, until } from './until.js';

export { ADMIN_SECRET, ATTESTATION_KEY, PAY_LINK_KEYS, SERVICE_SECRET, serviceEnv, TICKET_KEY };

/** A real process of ours, from dist/, with what it logged. */
export type ServiceProcess = {
  child: ChildProcess;
  pid: number;
  log: string[];
  /** Ends it in order and waits. */
  stop(): Promise<void>;
  /** kill -9 and wait. */
  kill(): Promise<void>;
};

export type Service = {
  redis: TestRedis;
  database: Awaited<ReturnType<typeof createTestDatabase>>;
  url: string;
  env: NodeJS.ProcessEnv;
  api: ServiceProcess;
  worker: ServiceProcess;
};

/** The whole service on engines of its own: one API, one worker. Ended with the test file. */
export async function startService(extra: NodeJS.ProcessEnv = {}): Promise<Service> {
  const redis = await startTestRedis();
  const database = await createTestDatabase();
  const env = serviceEnv(redis.url, database.url, extra);
  const [{ process: api, url }, worker] = await Promise.all([startApiProcess(env), startWorkerProcess(env)]);
  return { redis, database, url, env, api, worker };
}

/**
 * The service that files share in a Jest process, one after the other, with the default configuration and
 * `SHARED_SETTINGS`. A file has campaigns, users and addresses (`newAddress`) of its own there, and does not depend on
 * what others have left. It may stop the worker, which is replaced before the next file. After a file that failed the
 * next one gets a new service.
 */
export async function sharedService(): Promise<Service> {
  const shared = (globalThis as { sharedService?: SharedService }).sharedService;
  if (!shared) return startService(SHARED_SETTINGS);
  const client = connectTo(shared.redis, '');
  const database = new pg.Client(shared.databaseUrl);
  await database.connect();
  atEnd('the shared service', async () => {
    await removeWhatHoldsForAll(shared.url, database);
    shared.onLine = () => {};
    client.disconnect();
    await database.end();
  });
  const { url, env } = shared;
  shared.onLine = (line) => noteBreachIn(parse(line));
  return {
    redis: { ...shared.redis, client, prefix: '' },
    database: { url: shared.databaseUrl, client: database },
    ...{ url, env, api: processOf('api', shared.api, url), worker: processOf('worker', shared.worker, url) },
  };
}

/** Returns the same service behind an API of its own with these settings, which the worker does not have. */
export async function behindApi(service: Service, settings: NodeJS.ProcessEnv): Promise<Service> {
  const env = { ...service.env, ...settings };
  const { process: api, url } = await startApiProcess(env);
  return { ...service, env, api, url };
}

/**
 * Removes endpoints of webhooks, which would get the events of later files, and lifts bans, which the page of operators
 * lists. Closes campaigns with uniform refusals, whose rules hold for all campaigns of that kind, and those that enforce
 * rules, which hold for unknown codes and tokens.
 */
async function removeWhatHoldsForAll(url: string, database: pg.Client): Promise<void> {
  const call = (method: string, path: string) =>
    fetch(`${url}/admin/${path}`, { method, headers: { authorization: `Bearer ${ADMIN_SECRET}` } });
  for (const list of ['webhooks', 'bans']) {
    const { data = [] } = (await (await call('GET', list)).json()) as { data?: { id: string }[] };
    for (const { id } of data) await call('DELETE', `${list}/${id}`);
  }
  const { rows } = await database.query<{ product_id: string }>(
    `select product_id from campaigns where status <> 'closed'
       and ((rules ->> 'uniform_refusals')::boolean or rules ->> 'risk' in ('enforce', 'strict'))`,
  );
  await Promise.all(rows.map(({ product_id }) => call('POST', `campaigns/${product_id}/close`)));
}

/** A process whose end is that of a file: the worker alone. */
function processOf(name: 'api' | 'worker', shared: SharedProcess, url: string): ServiceProcess {
  const { child, pid, log } = shared;
  log.length = 0;
  const kept = keepLog(name, log);
  if (name === 'api') kept.servesAt(url);
  const end = async (signal: NodeJS.Signals) => {
    if (name === 'api') throw new Error('this file shares its API: it needs startService');
    shared.kill(signal);
    await shared.exited;
  };
  return { child, pid, log, stop: () => end('SIGTERM'), kill: () => end('SIGKILL') };
}

/**
 * @param waits false: returns when it listens, ready or not, as where an engine is away on purpose
 * @param root the folder of another revision, whose responses are not compared with the contracts of this one
 * @param within in front of the command, as of a host
 */
export async function startApiProcess(
  env: NodeJS.ProcessEnv,
  waits = true,
  root = projectRoot(),
  within: readonly string[] = [],
): Promise<{ process: ServiceProcess; url: string }> {
  const service = launch('api', env, root, within);
  const line = await service.logged((entry) => entry.msg === 'the API is listening');
  const url = String(line.url);
  service.servesAt(url);
  if (waits) await untilReady(url);
  if (process.env.DOORBUSTER_TEST_GATEWAY === undefined) return { process: service, url };
  const { startGateway } = await import('./nginx.js');
  return { process: service, url: await startGateway(url) };
}

/** Returns when the API is ready, as a load balancer would wait. */
async function untilReady(url: string): Promise<void> {
  let last = 'no response';
  const isReady = () =>
    fetch(`${url}/readyz`, { signal: AbortSignal.timeout(LIMIT_MS) }).then(
      async (response) => {
        last = `${response.status} ${await response.text()}`;
        return response.ok;
      },
      (error) => {
        last = String(error);
        return false;
      },
    );
  await until('the API is ready', isReady).catch((error) => {
    throw new Error(`${error.message}. /readyz: ${last}`, { cause: error });
  });
}

/** @param root the folder of another revision */
export async function startWorkerProcess(env: NodeJS.ProcessEnv, root = projectRoot()): Promise<ServiceProcess> {
  const service = launch('worker', env, root);
  await service.logged((entry) => entry.msg === 'the worker is running');
  return service;
}

type LogEntry = Record<string, unknown>;

function launch(name: 'api' | 'worker', env: NodeJS.ProcessEnv, root: string, within: readonly string[] = []) {
  const main = join(root, 'dist', name, 'main.js');
  const preload = pathToFileURL(join(projectRoot(), 'test/harness/preload-contracts.mjs')).href;
  const compares = name === 'api' && root === projectRoot();
  const command = [...within, process.execPath, ...(compares ? [`--import=${preload}`] : []), main];
  // A process that outlives this one would take the Redis that a later file starts on its port into service.
  const [program = '', ...args] = [...setprivPrefix('SIGKILL', undefined), ...command];
  const child = spawn(program, args, {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const log: string[] = [];
  const kept = keepLog(name, log);
  const watchers = new Set<(entry: LogEntry) => void>();
  let rest = '';
  const onData = (chunk: Buffer) => {
    const lines = (rest + String(chunk)).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      log.push(line);
      const entry = parse(line);
      noteBreachIn(entry);
      if (entry) for (const watch of watchers) watch(entry);
    }
  };
  child.stdout.on('data', onData);
  child.stderr.on('data', onData);
  const exited = once(child, 'exit');
  const end = async (signal: NodeJS.Signals) => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal);
    await exited;
  };
  const service = {
    child,
    pid: Number(child.pid),
    log,
    servesAt: kept.servesAt,
    stop: () => end('SIGTERM'),
    kill: () => end('SIGKILL'),
    logged: (matches: (entry: LogEntry) => boolean) =>
      new Promise<LogEntry>((resolve, reject) => {
        const seen = log.map(parse).find((entry) => entry && matches(entry));
        if (seen) return resolve(seen);
        watchers.add((entry) => matches(entry) && resolve(entry));
        exited.then(
          () => reject(new Error(`the ${name} ended before it was ready:\n${log.slice(-20).join('\n')}`)),
          reject,
        );
      }),
  };
  atEnd(`the ${name}`, async () => {
    // SIGCONT: a test may have stopped it.
    child.kill('SIGCONT');
    await service.stop();
  });
  return service;
}

function noteBreachIn(entry: LogEntry | null): void {
  if (typeof entry?.breach === 'string') noteBreach(entry.breach);
}

function parse(line: string): LogEntry | null {
  try {
    return JSON.parse(line) as LogEntry;
  } catch {
    return null;
  }
}
