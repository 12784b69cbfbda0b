// `npm run plan`: what a sale needs, by arithmetic with measured costs. See docs/planning.md.
import { existsSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { requireNode } from '../../scripts/node-version.mjs';
import { messageOf, Problem } from '../../scripts/problem.mjs';
import { createTerminal } from '../../scripts/terminal.mjs';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

const terminal = createTerminal();
try {
  requireNode();
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  terminal.explain(error);
  process.exitCode = error instanceof Problem ? error.exitCode : 2;
}

/** @param {readonly string[]} args @returns {Promise<number>} the exit code */
async function main(args) {
  const { readOptions, USAGE } = await import('./options.mjs');
  const wish = readOptions(args);
  switch (wish.what) {
    case 'help':
      terminal.print(USAGE);
      return 0;
    case 'measure':
      return await measure(wish.write);
    default: {
      const { planCapacity } = await import('./capacity.mjs');
      const { DEFAULT_COSTS, readCosts } = await import('./costs.mjs');
      const { describePlan } = await import('./report.mjs');
      const costs = wish.costs === null ? DEFAULT_COSTS : readCosts(wish.costs);
      const plan = planCapacity(wish.demand, costs);
      terminal.print(wish.json ? JSON.stringify({ ...plan, costs }, null, 2) : describePlan(plan, costs));
      return plan.problems.length === 0 ? 0 : 1;
    }
  }
}

/** @param {string | null} file where the costs are written; null = they are printed */
async function measure(file) {
  if (!existsSync(join(ROOT, 'dist/api/main.js')) || !existsSync(join(ROOT, 'node_modules/ioredis'))) {
    throw new Problem('Packages or build are missing.', { remedy: 'npm ci && npm run build', exitCode: 2 });
  }
  if (file !== null) write(file, '');
  const { measureCosts } = await import('./measure.mjs');
  // Progress goes to stderr, so that the costs can be piped.
  const costs = await measureCosts(ROOT, (text) => process.stderr.write(`${text}\n`));
  const text = JSON.stringify(costs, null, 2);
  if (file === null) {
    terminal.print(text);
    return 0;
  }
  write(file, `${text}\n`);
  terminal.print(`The costs are in ${file}. Use them with: npm run plan -- --costs ${file} --people …`);
  return 0;
}

/**
 * Writes the costs. Called first without any, so that a wrong path is found before the measurement.
 * @param {string} file
 * @param {string} text
 */
function write(file, text) {
  try {
    writeFileSync(file, text, { flag: text === '' ? 'a' : 'w' });
  } catch (error) {
    throw new Problem(`The costs cannot be written: ${messageOf(error)}`, { exitCode: 2 });
  }
}
