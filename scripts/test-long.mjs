// `npm run test:long -- --minutes N`: the layers of tests that take too long for every run, in an order that changes
// with the date, so that runs of a few minutes reach everything within some weeks.
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { planOf, runLong } from './long-layer.mjs';
import { Problem } from './problem.mjs';
import { createTerminal } from './terminal.mjs';
import { isLong, testFiles } from './test-layers.mjs';
import { helpOrGoOn } from './usage.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const REPORT = join(ROOT, 'test-report');
const DAY_MS = 86_400_000;
/** More failed files than five in a run get no second chance. */
const FILES_AT_ONCE = 5;
const TORTURES = [[], ['--replicas', '1'], ['--shards', '4']];

const USAGE = `usage: npm run test:long -- --minutes N [options]

Runs torture with the date as its seed, the files \`*.long.test.ts\`, tests with Kafka, and files on a Redis Cluster, through PgBouncer
and behind nginx, until N minutes are over. The order changes with the date. What runs then is stopped and counts as left.

  --minutes N          how long, at least 1
  --date YYYY-MM-DD    the order and the seeds of that date (today)
  --without PART       leaves out a part; may be repeated. Kafka needs Java and Maven
  --list               prints the order, and runs nothing

Parts: torture, files, kafka, cluster, pgbouncer, gateway. A file counts as failed if it fails twice, or once with a
violation. Exit code 0: nothing failed. 1: something failed, or a part did not start.
`;

helpOrGoOn(USAGE);
const terminal = createTerminal();
try {
  process.exitCode = await main();
} catch (error) {
  terminal.explain(error instanceof TypeError ? new Problem(error.message, { remedy: USAGE }) : error);
  process.exitCode = 2;
}

/** @returns {Promise<number>} the exit code */
async function main() {
  const { values } = parseArgs({
    options: {
      minutes: { type: 'string' },
      date: { type: 'string' },
      list: { type: 'boolean', default: false },
      without: { type: 'string', multiple: true, default: [] },
    },
  });
  const minutes = Number(values.minutes);
  const atMs = values.date === undefined ? Date.now() : Date.parse(values.date);
  if (Number.isNaN(atMs)) throw new Problem('--date must be YYYY-MM-DD.');
  const parts = partsOf(new Date(atMs).toISOString().slice(0, 10).replaceAll('-', ''));
  const unknown = values.without.filter((name) => !Object.hasOwn(parts, name));
  if (unknown.length > 0) throw new Problem(`Unknown part ${unknown[0]}. There are ${Object.keys(parts).join(', ')}.`);
  for (const name of values.without) delete parts[name];
  const plan = planOf(Object.values(parts), Math.floor(atMs / DAY_MS));
  if (values.list) {
    for (const { command } of plan) terminal.print(command);
    return 0;
  }
  if (!(minutes >= 1)) throw new Problem('--minutes needs a number, at least 1.', { remedy: USAGE });
  let kept = '';
  return runLong(plan, {
    limitMs: minutes * 60_000,
    root: ROOT,
    print: terminal.print,
    before: () => rmSync(REPORT, { recursive: true, force: true }),
    failuresOf: (number) => {
      const failed = join(REPORT, 'failed.json');
      if (!existsSync(failed)) return [];
      // The next item removes the report.
      kept ||= mkdtempSync(join(tmpdir(), 'doorbuster-long-'));
      const folder = join(kept, String(number));
      cpSync(REPORT, folder, { recursive: true });
      /** @type {{ file: string, test: string }[]} */
      const entries = JSON.parse(readFileSync(failed, 'utf8'));
      return [...entries.map(({ file, test }) => `${file} › ${test || 'the file itself'}`), `report: ${folder}`];
    },
  });
}

/**
 * @param {string} date as digits
 * @returns {Record<string, import('./long-layer.mjs').Item[]>}
 */
function partsOf(date) {
  const all = ['e2e', 'integration', 'faults'].flatMap((folder) => testFiles(ROOT, folder));
  return {
    torture: TORTURES.map((more, i) => {
      const args = ['--seed', `${date}${i}`, '--minutes', '2', ...more];
      return { command: `npm run torture -- ${args.join(' ')}`, args: ['torture/main.mjs', ...args] };
    }),
    files: tests([], testFiles(ROOT).filter(isLong)),
    kafka: tests(['--kafka'], testFiles(ROOT, 'kafka')),
    cluster: tests(['--redis', 'cluster'], all),
    pgbouncer: tests(['--pgbouncer'], all),
    gateway: tests(['--gateway'], testFiles(ROOT, 'e2e')),
  };
}

/**
 * @param {string[]} options
 * @param {string[]} files
 * @returns {import('./long-layer.mjs').Item[]} a few files each
 */
function tests(options, files) {
  return Array.from({ length: Math.ceil(files.length / FILES_AT_ONCE) }, (_, i) => {
    const args = [...options, ...files.slice(i * FILES_AT_ONCE, (i + 1) * FILES_AT_ONCE)];
    return { command: `npm test -- ${args.join(' ')}`, args: ['scripts/test.mjs', ...args] };
  });
}
