// How many instructions does Redis execute for a decision, with 1, 4, 16 and 64 callers at once?
//
// Method: as decision-cpu, on a Redis under callgrind, without the append-only file. Counts instructions in user space
// from the first call to the last reply, divided by the checkouts. They are the same on every machine with the same
// Redis, within 1 %: only the clock's tick (`hz 1`) depends on time.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Problem } from '../../scripts/problem.mjs';
import { connectSale } from './decisions.mjs';
import { startEngine } from './engine.mjs';
import { ROOT } from './environment.mjs';
import { round } from './measure.mjs';

const WARM_UP = 1_200;
/** Callers → checkouts. */
const LEVELS = new Map([
  [1, 100],
  [4, 200],
  [16, 480],
  [64, 960],
]);

/** Starts its own Redis, and nothing else. */
export const needsEnvironment = false;

/** @param {null} _environment @param {(text: string) => void} say @param {string} [root] */
export async function run(_environment, say, root = ROOT) {
  for (const tool of ['valgrind', 'callgrind_control']) requireTool(tool);
  const folder = mkdtempSync(join(tmpdir(), 'doorbuster-callgrind-'));
  try {
    // On some machines the server is a script that starts the program. Children are followed, and only the remaining
    // one is read.
    const engine = await startEngine({
      under: `valgrind --quiet --tool=callgrind --trace-children=yes --callgrind-out-file='${folder}/%p'`,
      args: ['--appendonly', 'no', '--hz', '1', '--dynamic-hz', 'no'],
    });
    try {
      const sale = await connectSale(root, engine.url);
      const product = await sale.open();
      /** @type {Record<string, number>} */
      const figures = {};
      // More entries than Redis stores as a list.
      await sale.decide(product, WARM_UP, 64);
      for (const [callers, checkouts] of LEVELS) {
        control('--zero', engine.pid);
        await sale.decide(product, checkouts, callers);
        control('--dump', engine.pid);
        const each = Math.round(lastDump(folder, engine.pid) / checkouts);
        figures[`instructions_${callers}`] = each;
        say(`${callers}: ${round(each / 1_000, 0)},000`);
      }
      sale.close();
      return figures;
    } finally {
      await engine.stop();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** @param {string} tool */
function requireTool(tool) {
  try {
    execFileSync(tool, ['--version'], { stdio: 'ignore' });
  } catch {
    throw new Problem(`There is no ${tool} on the PATH, so instructions are not counted.`, {
      remedy: 'apt-get install valgrind',
    });
  }
}

/** @param {'--zero' | '--dump'} what @param {number} pid */
function control(what, pid) {
  const text = execFileSync('callgrind_control', [what, String(pid)], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  if (!text.includes('OK')) throw new Error(`callgrind_control ${what}: ${text}`);
}

/** The instructions of the newest dump. @param {string} folder @param {number} pid */
function lastDump(folder, pid) {
  const numbers = readdirSync(folder)
    .filter((name) => name.startsWith(`${pid}.`))
    .map((name) => Number(name.slice(String(pid).length + 1)));
  const text = readFileSync(join(folder, `${pid}.${Math.max(...numbers)}`), 'utf8');
  return Number(/^totals: (\d+)/m.exec(text)?.[1]);
}
