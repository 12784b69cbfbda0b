// `npm run bench [-- api-cpu persistence …] [--versus <revision>] [--instructions]`: measures the goals of the project
// on engines of their own. Prints machine, versions and figures, and keeps the last record in
// loadtest/bench/record.json and in the program's header. A benchmark is no test: a slow result does not fail it.
import { prepare } from '../../scripts/prepare.mjs';
import { Problem } from '../../scripts/problem.mjs';
import { createTerminal } from '../../scripts/terminal.mjs';
import { machineFacts } from '../machine.mjs';
import { checkOut, compare } from './compare.mjs';
import { ROOT, startEnvironment } from './environment.mjs';
import { keep } from './record.mjs';

const GOALS = [
  'api-cpu',
  'throughput',
  'refusals',
  'persistence',
  'promotion-latency',
  'memory-per-user',
  'growth',
  'opening',
  'unknown-codes',
  'checkout-cpu',
  'decision-cpu',
  'open-loop',
  'cluster-nodes',
  'idle-cpu',
  'buckets',
];
const ALL = [...GOALS, 'memory', 'storm', 'blocked', 'bots', 'floods', 'polls', 'restock', 'views', 'many-codes'];
const ROUNDS = 3;
const USAGE = `usage: npm run bench [-- ${ALL.join('|')} …] [--versus <revision> [--rounds N]] [--instructions]

Without names those of the goals run, in about a quarter of an hour. --instructions: decision-cpu counts instructions under callgrind (valgrind). --versus builds another revision and measures both in turn, each ${ROUNDS} times
unless --rounds says otherwise; prints medians, and the ratio of this checkout to the other.`;

const terminal = createTerminal();
try {
  await main(process.argv.slice(2));
} catch (error) {
  terminal.explain(error);
  process.exitCode = error instanceof Problem ? error.exitCode : 1;
}

/** @param {readonly string[]} args */
async function main(args) {
  const { help, names, revision, rounds } = read(args);
  if (help) return terminal.print(USAGE);
  await prepare(ROOT, terminal);
  const facts = machineFacts(ROOT);
  for (const [name, value] of Object.entries(facts)) terminal.print(`${name}: ${value}`);
  if (revision === undefined) {
    for (const name of names) keep(name, { ...(await measure(name, ROOT, name)), ...facts });
    return;
  }
  const other = await checkOut(ROOT, revision, terminal.print);
  try {
    for (const name of names) terminal.print(JSON.stringify(await inTurn(name, other, rounds), null, 2));
  } finally {
    other.remove();
  }
}

/** @param {readonly string[]} args */
function read(args) {
  const rest = [...args];
  const names = [];
  let revision;
  let rounds = ROUNDS;
  let instructions = false;
  const wrong = (/** @type {string} */ what) =>
    new Problem(what, { remedy: 'See npm run bench -- --help', exitCode: 2 });
  for (let arg = rest.shift(); arg !== undefined; arg = rest.shift()) {
    if (arg === '--help' || arg === '-h') return { help: true, names, revision, rounds };
    if (arg === '--versus') {
      revision = rest.shift();
      if (revision === undefined) throw wrong('--versus needs a revision.');
    } else if (arg === '--rounds') {
      rounds = Number(rest.shift());
      if (!(rounds >= 1 && rounds <= 20)) throw wrong('--rounds needs a number from 1 to 20.');
    } else if (arg === '--instructions') instructions = true;
    else if (ALL.includes(arg)) names.push(arg);
    else throw wrong(`There is no benchmark ${arg}.`);
  }
  if (instructions && names.some((name) => name !== 'decision-cpu'))
    throw wrong('--instructions is for decision-cpu alone.');
  const chosen = names.length > 0 ? names : GOALS;
  return { help: false, names: instructions ? ['decision-instructions'] : chosen, revision, rounds };
}

/**
 * Runs one benchmark on its own engines.
 * @param {string} name
 * @param {string} root whose dist/ is run
 * @param {string} label
 * @returns {Promise<Record<string, unknown>>}
 */
async function measure(name, root, label) {
  terminal.print(`\n${label}`);
  const { run, extraEnv = {}, needsEnvironment = true } = await import(`./${name}.mjs`);
  const environment = needsEnvironment ? await startEnvironment({ root, env: extraEnv }) : null;
  try {
    const figures = await run(environment, (/** @type {string} */ text) => terminal.print(`  ${text}`), root);
    terminal.print(JSON.stringify(figures, null, 2));
    return figures;
  } finally {
    await environment?.stop();
  }
}

/**
 * Measures here, there, there, here, … so that neither is always the second.
 * @param {string} name
 * @param {{ root: string, name: string }} other
 * @param {number} rounds
 */
async function inTurn(name, other, rounds) {
  /** @type {Record<string, unknown>[]} */
  const ours = [];
  /** @type {Record<string, unknown>[]} */
  const theirs = [];
  for (let i = 0; i < rounds; i += 1) {
    const here = async () => ours.push(await measure(name, ROOT, `${name} here, round ${i + 1}`));
    const there = async () => theirs.push(await measure(name, other.root, `${name} at ${other.name}, round ${i + 1}`));
    for (const turn of i % 2 === 0 ? [here, there] : [there, here]) await turn();
  }
  return { benchmark: name, versus: other.name, rounds, medians: compare(ours, theirs) };
}
