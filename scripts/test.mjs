// `npm test`: the tests against a Redis and a Postgres of its own, on free ports, in a folder that is gone
// afterwards. The environment's engines and settings are kept out, so a test can reach nothing but what was started for
// it.
import { closeSync, openSync, readFileSync } from 'node:fs';
import { availableParallelism, constants } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { requireNode } from './node-version.mjs';
import { Interrupted, Problem } from './problem.mjs';
import { takeRedisOption } from './redis-option.mjs';
import { createTerminal } from './terminal.mjs';
import { helpOrGoOn } from './usage.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const STOP_LIMIT_MS = 10_000;
/** Puts PgBouncer in transaction mode between the product and Postgres. */
const POOLER_OPTION = '--pgbouncer';
/** Puts nginx with a web application firewall before each API: shows which requests deploy/nginx would refuse. */
const GATEWAY_OPTION = '--gateway';
// Everything that configures the product; tests set what they need themselves.
const SETTINGS = new Set(
  [...readFileSync(join(ROOT, 'docs/configuration.md'), 'utf8').matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => name),
);
const isOurs = (/** @type {string} */ name) =>
  SETTINGS.has(name) || /^(?:DATA_DIR|DEMO|OTEL_.*|DOORBUSTER_.*)$/.test(name);

const KAFKA = '--kafka';
const ALL = '--all';
const DAILY = '--daily';
const NO_SECOND_CHANCE = '--no-second-chance';
const REPLAY = /^--replay=(?<seed>-?\d+):(?<path>[\d:]+)$/;
/** Jest neither ends by itself nor prints results with these. */
const NO_ROUNDS = /^--(?:watch|watchAll|listTests|showConfig|help|version|reporters|json|clearCache)\b/;

const STRESS = '--stress';
/** `--rounds` of a run with `--stress`. */
const ROUNDS = 3;
const USAGE = `usage: npm test -- [FILE ...] [options]

Runs the tests of these files against a Redis and a Postgres of its own. FILE is a path or a part of one. Without FILE: all tests but the
long ones (*.long.test.ts).

  --all                  every test, the long ones as well
  --daily                a quarter of the long ones as well, another one each day: what .ci/run does
  --changed[=REVISION]   only the tests that concern the changes since main, or since REVISION
  --redis cluster        each test file has a Redis Cluster; the default is --redis server
  --pgbouncer            the product reaches Postgres through PgBouncer
  --gateway              each API is behind nginx with its firewall
  --kafka                only the tests that need a broker of Kafka: npm run test:kafka
  --no-second-chance     a file that failed does not run again
  --stress               runs each FILE many times: alone, beside itself, beside busy processes, and with engines that a
                         proxy slows. Prints how often each test failed in which setting
  --rounds N             how many times in each setting of --stress (${ROUNDS})
  --replay=SEED:PATH     repeats the counterexample of a property

Every other option is passed on to Jest. Exit code 0: all tests passed. 1: a test failed, or the engines did not start.
`;

helpOrGoOn(USAGE);
process.exit(await main(process.argv.slice(2)));

/**
 * @param {string[]} given for jest, and `--redis`
 * @returns {Promise<number>} the exit code
 */
async function main(given) {
  const terminal = createTerminal();
  /** @type {ReturnType<typeof withRounds>} */
  let options;
  try {
    requireNode();
    options = withRounds(takeRedisOption(given));
  } catch (error) {
    terminal.explain(error);
    return 1;
  }
  // Only now, since these use what an old Node lacks.
  const { hurryStragglers, refuseToLaunch, stopStragglers } = await import('./processes.mjs');
  const { onStopRequest } = await import('./stop-requests.mjs');
  const { makeTestDirectory, removeAbandoned, removeTestDirectory } = await import('./test-directory.mjs');
  await removeAbandoned();
  const directory = await makeTestDirectory();
  /** @type {Set<import('./processes.mjs').Running>} */
  const running = new Set();

  const code = await new Promise((resolve) => {
    const stop = (/** @type {NodeJS.Signals} */ signal) => {
      terminal.endSteps();
      refuseToLaunch();
      if (running.size === 0) resolve(128 + constants.signals[signal]);
      for (const jest of running) jest.kill(signal);
    };
    onStopRequest({ stop, hurry: hurryStragglers });
    const { redis, args, rounds } = options;
    const pooled = args.includes(POOLER_OPTION);
    startEngines(terminal, directory, { pooled, withKafka: args.includes(KAFKA) })
      .then(async (env) => {
        if (redis === 'cluster')
          terminal.print('Each test file that needs Redis starts a cluster of three primaries and three replicas.');
        const gateway = args.includes(GATEWAY_OPTION) ? { DOORBUSTER_TEST_GATEWAY: 'nginx' } : {};
        const layer = await layerOf(args, terminal);
        const all = { ...env, ...replayOf(args), ...gateway, ...layer, DOORBUSTER_TEST_REDIS: redis };
        const ours = [POOLER_OPTION, GATEWAY_OPTION, NO_SECOND_CHANCE, STRESS, ALL, DAILY];
        const others = args.filter((arg) => !ours.includes(arg) && !REPLAY.test(arg));
        /** @type {import('./test-rounds.mjs').Suite['jest']} */
        const runJest = async (given, more, log) => {
          const jest = await startJest(given, { ...all, ...more }, log);
          running.add(jest);
          const { code, signal } = await jest.exited;
          running.delete(jest);
          return code ?? 128 + constants.signals[signal ?? 'SIGKILL'];
        };
        const jestArgs = await jestArguments(others, terminal);
        if (jestArgs.some((arg) => NO_ROUNDS.test(arg))) return runJest(jestArgs, {});
        const { runInRounds } = await import('./test-rounds.mjs');
        const { runStress } = await import('./test-stress.mjs');
        const report = join(ROOT, 'test-report');
        /** @type {import('./test-rounds.mjs').Suite} */
        const suite = {
          jest: (given, more, log) => runJest(given, { DOORBUSTER_TEST_REPORT: report, ...more }, log),
          args: jestArgs,
          secondChance: !args.includes(NO_SECOND_CHANCE),
          root: ROOT,
          scratch: join(directory, 'results'),
          report,
          print: terminal.print,
        };
        return args.includes(STRESS) ? runStress(suite, rounds) : runInRounds(suite);
      })
      .then(resolve)
      .catch((error) => {
        if (!(error instanceof Interrupted)) terminal.explain(error);
        resolve(1);
      });
  });
  refuseToLaunch();
  await stopStragglers(STOP_LIMIT_MS);
  removeTestDirectory(directory);
  return code;
}

/**
 * @param {import('./terminal.mjs').Terminal} terminal
 * @param {string} directory
 * @param {{ pooled: boolean, withKafka: boolean }} options
 * @returns {Promise<NodeJS.ProcessEnv>} what jest is to know
 */
async function startEngines({ step, ...terminal }, directory, { pooled, withKafka }) {
  const { prepare } = await import('./prepare.mjs');
  const { findRedisServer, startRedis } = await import('./engines/redis.mjs');
  const { startPostgres } = await import('./engines/postgres.mjs');
  const { recordProcess } = await import('./run-record.mjs');
  const { DIRECTORY_VARIABLE } = await import('./test-directory.mjs');
  await prepare(ROOT, { step, ...terminal });
  const forKafka = withKafka ? await findForKafka(step) : {};
  const binary = await step(
    'looking for Redis',
    (say) => findRedisServer({ say }),
    (path) => `Redis is ${path}`,
  );
  const redis = await step(
    'starting Redis',
    () => startRedis({ binary, dataDir: join(directory, 'redis') }),
    ({ port }) => `Redis on port ${port}`,
  );
  recordProcess(directory, 'redis', redis);
  // The tests kill processes, not machines: without syncing all is as it would be, only faster.
  // A test file that starts many processes takes dozens of connections; jest.config.mjs says how many run at once.
  const connections = 200 * availableParallelism();
  const extraArgs = ['fsync=off', 'full_page_writes=off', `max_connections=${connections}`];
  const postgres = await step(
    'starting Postgres',
    (say) => startPostgres({ dataDir: join(directory, 'postgres'), extraArgs, say }),
    ({ port }) => `Postgres on port ${port}`,
  );
  recordProcess(directory, 'postgres', postgres);
  const pooler = pooled ? await step('starting PgBouncer', () => startPooler(directory, postgres.url), poolerLine) : {};
  return {
    ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !isOurs(name))),
    NODE_ENV: 'test',
    [DIRECTORY_VARIABLE]: directory,
    DOORBUSTER_TEST_REDIS_BINARY: binary,
    DOORBUSTER_TEST_REDIS_URL: redis.url,
    DOORBUSTER_TEST_DATABASE_URL: postgres.url,
    ...pooler,
    ...forKafka,
  };
}

/**
 * @param {string} directory
 * @param {string} target
 * @returns {Promise<NodeJS.ProcessEnv>}
 */
async function startPooler(directory, target) {
  const { findPgBouncer, startPgBouncer } = await import('./engines/pgbouncer.mjs');
  const { recordProcess } = await import('./run-record.mjs');
  const found = await findPgBouncer();
  if ('missing' in found) throw new Problem(`${POOLER_OPTION}: ${found.missing}.`);
  const pooler = await startPgBouncer({ binary: found.path, directory: join(directory, 'pgbouncer'), target });
  recordProcess(directory, 'pgbouncer', pooler);
  return { DOORBUSTER_TEST_POOLER_URL: pooler.url, DOORBUSTER_TEST_PGBOUNCER_BINARY: found.path };
}

/** @param {NodeJS.ProcessEnv} pooler */
function poolerLine({ DOORBUSTER_TEST_POOLER_URL: url }) {
  return `PgBouncer on port ${new URL(String(url)).port}`;
}

/**
 * @param {import('./terminal.mjs').Terminal['step']} step
 * @returns {Promise<Record<string, string>>} variables for the tests
 */
async function findForKafka(step) {
  const { findKafka } = await import('./engines/kafka.mjs');
  const { findClickHouse, findClickHouseServer } = await import('./engines/clickhouse.mjs');
  const libraries = await step(
    'looking for Kafka',
    (say) => findKafka({ say }),
    (path) => `Kafka is ${path}`,
  );
  const clickhouse = await step(
    'looking for ClickHouse',
    (say) => findClickHouse({ say }),
    (path) =>
      path ? `ClickHouse is ${path}` : 'no Python with pip: the test with the engine of ClickHouse is skipped',
  );
  const server = await step(
    'looking for a server of ClickHouse',
    (say) => findClickHouseServer({ say }),
    (path) => (path ? `its server is ${path}` : 'no package clickhouse-server: the test with a server is skipped'),
  );
  return {
    DOORBUSTER_TEST_KAFKA: libraries,
    ...(clickhouse ? { DOORBUSTER_TEST_CHDB: clickhouse } : {}),
    ...(server ? { DOORBUSTER_TEST_CLICKHOUSE: server } : {}),
  };
}

/**
 * Leaves out long files, unless files are named. Prints how many run.
 * @param {string[]} args
 * @param {import('./terminal.mjs').Terminal} terminal
 * @returns {Promise<Record<string, string>>} what jest.config.mjs reads
 */
async function layerOf(args, { print }) {
  const names = args.some((arg) => !arg.startsWith('-') || /^--(?:changed|runTestsByPath)/.test(arg));
  if (names || [ALL, KAFKA].some((option) => args.includes(option))) return {};
  const { isLong, leftOutOn, testFiles } = await import('./test-layers.mjs');
  const long = testFiles(ROOT).filter(isLong);
  const leftOut = args.includes(DAILY) ? leftOutOn(long, Date.now()) : long;
  print(`${long.length - leftOut.length} of ${long.length} long test files run; \`npm test -- --all\` has them all.`);
  return { DOORBUSTER_TEST_LEFT_OUT: leftOut.join() };
}

/**
 * Replaces `--changed` and `--kafka` by the tests that they stand for. Prints which ones `--changed` leaves out.
 * @param {string[]} args
 * @param {import('./terminal.mjs').Terminal} terminal
 * @returns {Promise<string[]>} for jest
 */
async function jestArguments(args, { print }) {
  if (args.includes(KAFKA)) {
    const rest = args.filter((arg) => arg !== KAFKA);
    return rest.some((arg) => arg.startsWith('test/')) ? rest : [...rest, 'test/kafka'];
  }
  const [option, ...others] = args.filter((arg) => /^--changed(=|$)/.test(arg));
  if (option === undefined) return args;
  const { selectChangedTests } = await import('./changed-tests.mjs');
  const { since, changed, run, leftOut } = selectChangedTests(ROOT, option.split('=')[1]);
  print(`${changed} files differ from ${since}: ${run.length} test files run.`);
  if (leftOut.length > 0) print(`Left out until \`npm test\`: ${leftOut.join(', ')}`);
  return [...args.filter((arg) => arg !== option && !others.includes(arg)), '--runTestsByPath', ...run];
}

/**
 * Takes `--rounds N` out of the arguments, since Jest does not know it.
 * @param {ReturnType<typeof takeRedisOption>} options
 * @throws {Problem} when it is no number, or `--stress` has no file
 */
function withRounds({ redis, args }) {
  const at = args.indexOf('--rounds');
  const rounds = at < 0 ? ROUNDS : Number(args[at + 1]);
  const others = at < 0 ? args : args.toSpliced(at, 2);
  if (!Number.isInteger(rounds) || rounds < 1) throw new Problem('--rounds needs a whole number, at least 1.');
  if (others.includes(STRESS) && others.every((arg) => arg.startsWith('-')))
    throw new Problem('--stress needs a file.', {
      remedy: 'For example: npm test -- --stress test/e2e/fairness.test.ts',
    });
  return { redis, args: others, rounds };
}

/**
 * @param {string[]} args
 * @returns {Record<string, string>} what test/harness/replay.ts reads
 */
function replayOf(args) {
  const { seed, path } = args.map((arg) => REPLAY.exec(arg)?.groups).find(Boolean) ?? {};
  return seed === undefined ? {} : { DOORBUSTER_TEST_REPLAY: JSON.stringify({ '': { seed: Number(seed), path } }) };
}

/**
 * In our own session, unlike everything else: it reads the keys of `--watch`, and Ctrl-C is meant for it.
 * @param {string[]} args
 * @param {NodeJS.ProcessEnv} env
 * @param {string} [log] the file that gets its output
 */
async function startJest(args, env, log) {
  const { launch } = await import('./processes.mjs');
  const jest = [
    '--experimental-vm-modules',
    '--disable-warning=ExperimentalWarning',
    join(ROOT, 'node_modules/jest/bin/jest.js'),
    ...args,
  ];
  const output = log === undefined ? null : openSync(log, 'w');
  const running = await launch(process.execPath, jest, {
    cwd: ROOT,
    env,
    stdio: output === null ? 'inherit' : ['ignore', output, output],
    ownSession: false,
    deathSignal: 'SIGKILL',
  });
  if (output !== null) closeSync(output);
  return running;
}
