// `npm run torture`: faults from a seed under load, then checks the whole history. docs/torture.md.
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { requireNode } from '../scripts/node-version.mjs';
import { Problem } from '../scripts/problem.mjs';
import { createTerminal } from '../scripts/terminal.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const STOP_LIMIT_MS = 5_000;
const INTERRUPTED = 130;
/** Of ports: the files of a test run begin with the first ones. */
const LAST_BLOCKS = 12;

process.exit(await main(process.argv.slice(2)));

/**
 * @param {string[]} args
 * @returns {Promise<number>} the exit code
 */
async function main(args) {
  const terminal = createTerminal();
  try {
    requireNode();
    const { readOptions, USAGE } = await import('./options.mjs');
    const options = readOptions(args);
    if (options.what === 'help') {
      terminal.print(USAGE);
      return 0;
    }
    const { prepare } = await import('../scripts/prepare.mjs');
    await prepare(ROOT, terminal);
    if (options.what === 'faults') return await listFaults(terminal);
    if (options.what === 'judge') return await judgeAgain(terminal, options.folder);
    return await runOne(terminal, options);
  } catch (error) {
    terminal.explain(error);
    return error instanceof Problem ? error.exitCode : 2;
  }
}

/** @returns {Promise<typeof import('./run.js')>} */
function builtRun() {
  return import(join(ROOT, 'dist/torture/run.js'));
}

/** @returns {Promise<typeof import('./faults/all-faults.js')>} */
function builtFaults() {
  return import(join(ROOT, 'dist/torture/faults/all-faults.js'));
}

/** @param {import('../scripts/terminal.mjs').Terminal} terminal */
async function listFaults({ print }) {
  const { ALL_FAULTS } = await builtFaults();
  const width = Math.max(...ALL_FAULTS.map(({ name }) => name.length));
  for (const { name, about } of ALL_FAULTS) print(`${name.padEnd(width)}  ${about}`);
  return 0;
}

/**
 * @param {import('../scripts/terminal.mjs').Terminal} terminal
 * @param {string} folder
 */
async function judgeAgain({ print }, folder) {
  const result = await (await builtRun()).judgeAgain(folder);
  for (const line of result.report) print(line);
  print(result.violations.length === 0 ? 'PASSED' : `FAILED  ${result.violations.length} violations`);
  return result.violations.length === 0 ? 0 : 1;
}

/**
 * @param {import('../scripts/terminal.mjs').Terminal} terminal
 * @param {import('./options.mjs').Run} options
 */
async function runOne(terminal, options) {
  const { onStopRequest } = await import('../scripts/stop-requests.mjs');
  const { launch, refuseToLaunch, run, stopStragglers } = await import('../scripts/processes.mjs');
  const { findRedisServer, startRedis } = await import('../scripts/engines/redis.mjs');
  const { startPostgres } = await import('../scripts/engines/postgres.mjs');
  const { PortRange } = await import('../scripts/port-range.mjs');
  const { runTorture } = await builtRun();
  await refuseUnknownFaults(options.faults);
  const { print } = terminal;
  const redisBinary = await findRedisServer();
  const folder = mkdtempSync(join(tmpdir(), 'doorbuster-torture-'));
  // Other users may enter the folder, because Postgres runs as another user under root.
  chmodSync(folder, 0o711);
  const ports = await PortRange.take(LAST_BLOCKS);
  const end = async () => {
    refuseToLaunch();
    await stopStragglers(STOP_LIMIT_MS);
    await ports.release();
    if (!options.keep) rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  onStopRequest({
    stop: () => void end().finally(() => process.exit(INTERRUPTED)),
    hurry: () => process.exit(INTERRUPTED),
  });
  const tools = {
    root: ROOT,
    redisBinary,
    startRedis,
    startPostgres,
    launch,
    run,
    freePort: () => ports.freePort(),
    print,
  };
  print(`seed ${options.seed}: faults for ${options.minutes} minutes, ${options.perSecond} shoppers a second`);
  if (options.keep) print(`history, rows and logs: ${folder}`);
  try {
    const result = await runTorture({ ...options, folder, canReconcile: canReconcile() }, tools);
    return report(terminal, options, result);
  } finally {
    await end();
  }
}

/** @param {string[] | null} names */
async function refuseUnknownFaults(names) {
  const { ALL_FAULTS } = await builtFaults();
  const known = new Set(ALL_FAULTS.map(({ name }) => name));
  const unknown = names?.find((name) => !known.has(name));
  if (unknown === undefined) return;
  throw new Problem(`There is no fault ${unknown}.`, { remedy: 'npm run torture -- --faults help', exitCode: 2 });
}

/** Whether this version can repair Postgres after a restore. */
function canReconcile() {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  return typeof scripts.reconcile === 'string';
}

/**
 * @param {import('../scripts/terminal.mjs').Terminal} terminal
 * @param {import('./options.mjs').Run} options
 * @param {import('./run.js').RunResult} result
 * @returns {number} the exit code
 */
function report({ print }, { seed, minutes, faults, replicas, shards, apis, perSecond }, result) {
  for (const line of result.report) print(line);
  for (const failure of result.failures) print(`this program failed: ${failure}`);
  if (result.violations.length === 0 && result.failures.length === 0) {
    const late = result.slow.length === 0 ? '' : `, ${result.slow.length} times slow`;
    print(`PASSED  seed ${seed}${late}`);
    return 0;
  }
  const only = faults === null ? '' : ` --faults ${faults.join(',') || 'none'}`;
  const waits = replicas === 0 ? '' : ` --replicas ${replicas}`;
  const parts = shards === 1 && apis === 2 ? '' : ` --shards ${shards} --apis ${apis}`;
  print(`FAILED  ${result.violations.length} violations`);
  print(
    `again:  npm run torture -- --seed ${seed} --minutes ${minutes} --rate ${perSecond}${only}${waits}${parts} --keep`,
  );
  return result.violations.length > 0 ? 1 : 2;
}
