// Runs `npm start`: starts the parts in order, and stops them in the opposite order.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { createDemoCampaigns } from './demo.mjs';
import { startPostgres } from './engines/postgres.mjs';
import { startRedis } from './engines/redis.mjs';
import { keepRunning } from './keep-running.mjs';
import { takeLock } from './lock.mjs';
import { watchLog } from './log-watch.mjs';
import { runNpm } from './npm.mjs';
import { startService, waitUntilReady } from './parts.mjs';
import { whyNotListen } from './ports.mjs';
import { prepare } from './prepare.mjs';
import { Problem } from './problem.mjs';
import { hurryStragglers, refuseToLaunch, stopStragglers } from './processes.mjs';
import { endLeftovers, forgetProcesses, readRunRecord, recordProcess } from './run-record.mjs';
import { keepSecrets } from './secrets.mjs';
import { addressOf, keysFrom, readSettings, refuseTakenPort, refuseWrongConfig } from './settings.mjs';
import { secretOf, welcome } from './welcome.mjs';

const MIGRATE_LIMIT_MS = 600_000;
const SERVICE_STOP_LIMIT_MS = 15_000;
const STRAGGLER_LIMIT_MS = 10_000;

const ENGINES = /** @type {const} */ ({
  redis: { title: 'Redis', startEngine: startRedis },
  postgres: { title: 'Postgres', startEngine: startPostgres },
});
const TITLES = /** @type {const} */ ({ api: 'API', worker: 'worker' });

/** @typedef {import('./settings.mjs').Settings} Settings */

export class Launcher {
  #root;
  #terminal;
  #stopping = false;
  /** The running parts, in the order of their start. @type {{ title: string, stop: () => Promise<void> }[]} */
  #parts = [];
  /** Cleanup after all parts have ended. @type {(() => void)[]} */
  #last = [];

  /**
   * @param {string} root the repository
   * @param {import('./terminal.mjs').Terminal} terminal
   */
  constructor(root, terminal) {
    this.#root = root;
    this.#terminal = terminal;
  }

  get isStopping() {
    return this.#stopping;
  }

  /** @param {NodeJS.ProcessEnv} env */
  async start(env) {
    const settings = readSettings(env, this.#root);
    await this.#takeData(settings.dataDir);
    await refuseTakenPort(settings);
    await prepare(this.#root, this.#terminal);
    const secrets = keepSecrets(settings.dataDir);
    const { keys, areOurs } = keysFrom(env, secrets);
    const ownEnv = {
      ...env,
      NODE_ENV: env.NODE_ENV || 'development',
      ...keys,
      PORT: String(settings.port),
      HOST: settings.host,
      // The API shows keys only if they are ours.
      DEMO: settings.withDemo && areOurs ? '1' : '0',
    };
    await refuseWrongConfig(this.#root, ownEnv);
    const { postgresUrl, redisUrl } = await this.#startEngines(settings, secrets);
    const serviceEnv = { ...ownEnv, REDIS_URL: redisUrl, DATABASE_URL: postgresUrl };
    await this.#migrate({ ...serviceEnv, ...ownEngines(settings) });
    await this.#startServices(settings, serviceEnv);
    if (settings.withDemo) await this.#makeDemo(settings, keys.ADMIN_API_KEYS);
    this.#terminal.print(
      welcome({ settings, keys, keysAreOurs: areOurs, redisUrl, postgresUrl, logs: logsIn(settings.dataDir) }),
    );
  }

  /** Stops services first, then their engines, then parts whose start has not finished. */
  async stop() {
    this.#stopping = true;
    refuseToLaunch();
    this.#terminal.endSteps();
    if (this.#parts.length > 0) this.#terminal.print('\nStopping (Ctrl-C again to hurry)');
    for (const { title, stop } of this.#parts.reverse()) {
      const start = performance.now();
      await stop();
      this.#terminal.print(`${((performance.now() - start) / 1000).toFixed(1).padStart(6)} s  ${title} stopped`);
    }
    await stopStragglers(STRAGGLER_LIMIT_MS);
    for (const work of this.#last.reverse()) work();
  }

  hurry() {
    hurryStragglers();
  }

  /** Prints messages about the parts until the stop has begun. */
  #print = (/** @type {string} */ line) => {
    if (!this.#stopping) this.#terminal.print(line);
  };

  /**
   * Locks the data directory for this process.
   * @param {string} dataDir
   */
  async #takeData(dataDir) {
    mkdirSync(logsIn(dataDir), { recursive: true });
    const lock = await takeLock(join(dataDir, 'lock'));
    if (!lock.taken) {
      const { pid } = lock.holder;
      throw new Problem(`Another npm start, process ${pid}, is using the data in ${dataDir}.`, {
        remedy: `Stop it with Ctrl-C or: kill ${pid}\nor use other data and another port: DATA_DIR=.data2 PORT=8103 npm start`,
      });
    }
    this.#last.push(lock.release);
    await this.#terminal.step(
      'stopping what a killed start left behind',
      (say) => endLeftovers(dataDir, say),
      (ended) =>
        `data in ${dataDir}${ended === 0 ? '' : `; stopped ${ended} processes that a killed start left behind`}`,
    );
    this.#last.push(() => forgetProcesses(dataDir));
  }

  /**
   * Engines that the environment names are used as they are: they are neither started nor stopped.
   * @param {Settings} settings
   * @param {import('./secrets.mjs').Secrets} secrets
   */
  async #startEngines({ dataDir, redisUrl, databaseUrl }, { POSTGRES_PASSWORD, REDIS_PASSWORD }) {
    return {
      postgresUrl: databaseUrl ?? (await this.#startEngine('postgres', dataDir, POSTGRES_PASSWORD)),
      redisUrl: redisUrl ?? (await this.#startEngine('redis', dataDir, REDIS_PASSWORD)),
    };
  }

  /**
   * Starts an engine and keeps it running on the same port, which the services connect to.
   * @param {keyof typeof ENGINES} name
   * @param {string} dataDir
   * @param {string} password
   */
  async #startEngine(name, dataDir, password) {
    const { title, startEngine } = ENGINES[name];
    const options = { dataDir: join(dataDir, name), logFile: join(logsIn(dataDir), `${name}.log`), password };
    const begin = async (/** @type {{ port?: number, say?: (note: string) => void }} */ more) => {
      const engine = await startEngine({ ...options, ...more });
      recordProcess(dataDir, name, engine);
      return engine;
    };
    const usual = readRunRecord(dataDir).ports[name];
    const port = usual !== undefined && (await whyNotListen(usual)) === undefined ? { port: usual } : {};
    const engine = await this.#terminal.step(
      `starting ${title}`,
      (say) => begin({ ...port, say }),
      (started) => `${title} on port ${started.port}`,
    );
    const start = () => begin({ port: engine.port });
    this.#parts.push({ title, ...keepRunning({ name: title, part: engine, start, print: this.#print }) });
    return engine.url;
  }

  /** @param {NodeJS.ProcessEnv} env */
  async #migrate(env) {
    const work = () =>
      runNpm(this.#root, ['run', 'migrate', '--silent'], {
        env,
        limitMs: MIGRATE_LIMIT_MS,
        failure: 'The schema could not be made',
        remedy: 'See the lines above; the data are as they were before.',
      });
    await this.#terminal.step('migrating', work, () => 'migrated');
  }

  /**
   * @param {Settings} settings
   * @param {NodeJS.ProcessEnv} env
   */
  async #startServices(settings, env) {
    const { dataDir } = settings;
    const begin = async (/** @type {keyof typeof TITLES} */ name) => {
      const logPath = join(logsIn(dataDir), `${name}.log`);
      const service = await startService({
        title: TITLES[name],
        root: this.#root,
        entry: `dist/${name}/main.js`,
        env,
        logPath,
      });
      recordProcess(dataDir, name, { pid: service.pid, ...(name === 'api' ? { address: addressOf(settings) } : {}) });
      return service;
    };
    const beginFirst = async (/** @type {keyof typeof TITLES} */ name) => {
      const service = await begin(name);
      const part = { title: TITLES[name], stop: () => service.stop(SERVICE_STOP_LIMIT_MS) };
      this.#parts.push(part);
      return { service, part, start: () => begin(name) };
    };
    const work = async (/** @type {(note: string) => void} */ say) => {
      const begun = [await beginFirst('worker'), await beginFirst('api')];
      await waitUntilReady(
        addressOf(settings),
        begun.map(({ service }) => service),
        say,
      );
      return begun;
    };
    const begun = await this.#terminal.step('starting API and worker', work, () => 'API and worker are ready');
    for (const { service, part, start } of begun) part.stop = this.#keepService(service, start);
  }

  /**
   * @param {import('./parts.mjs').Service} service
   * @param {() => Promise<import('./parts.mjs').Service>} start
   * @returns {() => Promise<void>} stops it for good
   */
  #keepService(service, start) {
    const { title, logPath } = service;
    const print = this.#print;
    const endWatch = watchLog({ name: title, path: logPath, print });
    const keeper = keepRunning({ name: title, part: service, start, print });
    return () => keeper.stop(SERVICE_STOP_LIMIT_MS).then(endWatch);
  }

  /**
   * @param {Settings} settings
   * @param {string} adminKeys
   */
  async #makeDemo(settings, adminKeys) {
    const work = () => createDemoCampaigns(addressOf(settings), secretOf(adminKeys));
    await this.#terminal.step('making the demo campaigns', work, (outcome) => `demo campaigns ${outcome}`);
  }
}

/**
 * Names the folder of the data for each engine that is ours, so that `npm run migrate` prints how to move it aside.
 * @param {Settings} settings
 */
function ownEngines({ dataDir, redisUrl, databaseUrl }) {
  return {
    ...(databaseUrl ? {} : { DOORBUSTER_OWN_POSTGRES: dataDir }),
    ...(redisUrl ? {} : { DOORBUSTER_OWN_REDIS: dataDir }),
  };
}

/** @param {string} dataDir */
function logsIn(dataDir) {
  return join(dataDir, 'logs');
}
