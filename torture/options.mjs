// The command line of `npm run torture`.
import { randomInt } from 'node:crypto';
import { Problem } from '../scripts/problem.mjs';

const DEFAULT_MINUTES = 2;
const DEFAULT_PER_SECOND = 20;
const LARGEST_SEED = 1_000_000;

export const USAGE = `usage: npm run torture -- [options]

Runs a crowd with every call of the API against real processes and engines while faults strike, and judges the whole history.

  --seed N        the seed of the faults and of what the shoppers do (a new one)
  --minutes M     how long faults strike, 0.1 to 1440 (${DEFAULT_MINUTES})
  --faults a,b    only these faults, or \`none\`; --faults help lists them (all that this version supports)
  --replicas N    REDIS_WAIT_REPLICAS of the processes, 0 or 1 (0)
  --shards N      SHARDS of the processes, 1, 2, 4, 8 or 16 (1). With more than one, divided campaigns are open too, and
                  campaigns are moved between shards
  --apis N        API processes, 2 to 4 (2; 3 with several shards)
  --rate R        shoppers that arrive in a second (${DEFAULT_PER_SECOND})
  --keep          keep the folder with the history, the rows and the logs
  --judge FOLDER  judge the history that an earlier run with --keep left in this folder; nothing is started
  --help

Exit code 0: the service kept every rule. 1: it broke one; the violations are printed. 2: the run itself failed.
`;

/**
 * @typedef {{ what: 'help' } | { what: 'faults' } | { what: 'judge', folder: string }} Question
 * @typedef {{ what: 'run', seed: number, minutes: number, faults: string[] | null, replicas: number, shards: number,
 *   apis: number, perSecond: number, keep: boolean }} Run
 */

/**
 * @param {string[]} args
 * @returns {Question | Run}
 */
export function readOptions(args) {
  /** @type {Run} */
  const run = {
    what: 'run',
    seed: randomInt(1, LARGEST_SEED),
    minutes: DEFAULT_MINUTES,
    faults: null,
    replicas: 0,
    shards: 1,
    apis: 0,
    perSecond: DEFAULT_PER_SECOND,
    keep: false,
  };
  const left = [...args];
  for (let arg = left.shift(); arg !== undefined; arg = left.shift()) {
    const [name = '', inline] = arg.split(/=(.*)/s);
    if (name === '--help' || name === '-h') return { what: 'help' };
    if (name === '--keep') {
      run.keep = true;
      continue;
    }
    const value = inline ?? left.shift();
    if (value === undefined) throw mistake(`${name} needs a value.`);
    if (name === '--seed') run.seed = number(name, value, 0, Number.MAX_SAFE_INTEGER);
    else if (name === '--minutes') run.minutes = number(name, value, 0.1, 1_440);
    else if (name === '--replicas') run.replicas = number(name, value, 0, 1);
    else if (name === '--shards') run.shards = choice(name, value, ['1', '2', '4', '8', '16']);
    else if (name === '--apis') run.apis = choice(name, value, ['2', '3', '4']);
    else if (name === '--rate') run.perSecond = number(name, value, 1, 1_000);
    else if (name === '--judge') return { what: 'judge', folder: value };
    else if (name === '--faults' && value === 'help') return { what: 'faults' };
    else if (name === '--faults') run.faults = value === 'none' ? [] : value.split(',');
    else throw mistake(`Unknown option ${name}.`);
  }
  if (run.apis === 0) run.apis = run.shards > 1 ? 3 : 2;
  return run;
}

/** @param {string} name @param {string} text @param {string[]} choices */
function choice(name, text, choices) {
  if (choices.includes(text)) return Number(text);
  throw mistake(`${name} is ${text}; expected one of ${choices.join(', ')}.`);
}

/** @param {string} name @param {string} text @param {number} min @param {number} max */
function number(name, text, min, max) {
  const value = Number(text);
  if (text.trim() !== '' && value >= min && value <= max) return value;
  throw mistake(`${name} is ${text}; expected a number from ${min} to ${max}.`);
}

/** @param {string} message */
const mistake = (message) => new Problem(message, { remedy: 'npm run torture -- --help', exitCode: 2 });
