// The options of `npm run plan`, and the errors for wrong ones.
import { Problem } from '../../scripts/problem.mjs';

export const USAGE = `usage: npm run plan -- --people N --units N --within TIME [options]
       npm run plan -- --measure [--write FILE]

Says what a sale needs: nodes and shards of Redis, API processes, workers, memory, Postgres, and what each second looks like.
It is arithmetic with measured costs and starts nothing. Exit code 1 when the demand cannot be met as asked, 2 when it was not understood.

  --people N       people who check out, each once
  --units N        units for them
  --within TIME    in which they arrive, evenly: 10s, 500ms, 2m, 1h
  --campaigns N    campaigns over which people and units spread evenly (1)
  --sold-out       no line: who comes too late gets "sold out" and no place
  --sockets SHARE  share of the waiting people who have a WebSocket, 0 to 1; the others poll (1)
  --polling TIME   between two polls (by default as the service asks: 2 to 30 s by place)
  --hold TIME      how long a unit is kept for its payment (15m)
  --headroom SHARE of each core that stays free, 0 to 0.8 (0.3)

What there is, instead of what is needed:
  --nodes N        primaries of Redis, 1 to 64
  --api N          API processes
  --workers N      workers
  --machines N     machines, whose cores all parts share
  --cores N        cores of a machine, 0.1 to 512; a container may have half of one (4)

Costs:
  --costs FILE     those of your machine instead of those in docs/performance.md
  --measure        measures this machine: starts Redis, Postgres, an API and a worker of its own for a minute or two.
                   Do it while nothing else runs. Prints the costs, or writes them to --write FILE
  --json           prints the plan as JSON`;

const INTEGERS = new Map([
  ['--people', 1_000_000_000],
  ['--units', 1_000_000_000],
  ['--campaigns', 100_000],
  ['--nodes', 64],
  ['--api', 10_000],
  ['--workers', 1_000],
  ['--machines', 10_000],
]);
const TIMES = new Set(['--within', '--polling', '--hold']);
const SHARES = new Map([
  ['--sockets', 1],
  ['--headroom', 0.8],
]);
const MOST_CORES = 512;
const LEAST_CORES = 0.1;
const TEXTS = new Set(['--costs', '--write']);
const FLAGS = new Set(['--sold-out', '--json', '--measure', '--help', '-h']);
const UNITS_OF_TIME = new Map([
  ['ms', 0.001],
  ['s', 1],
  ['m', 60],
  ['h', 3_600],
]);
const LONGEST_SECONDS = 86_400;

/**
 * @typedef {{ what: 'help' } | { what: 'measure', write: string | null } |
 *   { what: 'plan', demand: import('./capacity.mjs').Demand, costs: string | null, json: boolean }} Wish
 */

/** @param {readonly string[]} args @returns {Wish} @throws Problem */
export function readOptions(args) {
  /** @type {Map<string, number>} */
  const numbers = new Map();
  /** @type {Map<string, string>} */
  const texts = new Map();
  const flags = new Set();
  const rest = [...args];
  for (let arg = rest.shift(); arg !== undefined; arg = rest.shift()) {
    const [name = arg, joined] = arg.startsWith('--') ? arg.split(/=(.*)/s) : [arg];
    if (FLAGS.has(name) && joined === undefined) {
      flags.add(name);
      continue;
    }
    const read = readerOf(name);
    if (read === null) return wrong(`There is no option ${arg}.`);
    const text = joined ?? rest.shift() ?? wrong(`${name} needs a value.`);
    if (TEXTS.has(name)) texts.set(name, text);
    else numbers.set(name, read(text));
  }
  if (flags.has('--help') || flags.has('-h')) return { what: 'help' };
  if (flags.has('--measure')) {
    if (numbers.size > 0) return wrong('--measure takes no demand: first measure, then plan with --costs FILE.');
    return { what: 'measure', write: texts.get('--write') ?? null };
  }
  if (texts.has('--write')) return wrong('--write goes with --measure.');
  return {
    what: 'plan',
    demand: demandOf(numbers, flags),
    costs: texts.get('--costs') ?? null,
    json: flags.has('--json'),
  };
}

/**
 * Returns what reads the value of an option; null = there is none.
 * @param {string} name
 * @returns {((text: string) => number) | null}
 */
function readerOf(name) {
  const most = INTEGERS.get(name);
  if (most !== undefined) return (text) => integer(name, text, most);
  if (TIMES.has(name)) return (text) => seconds(name, text);
  const share = SHARES.get(name);
  if (share !== undefined) return (text) => fraction(name, text, share);
  if (name === '--cores') return cores;
  return TEXTS.has(name) ? () => 0 : null;
}

/**
 * @param {ReadonlyMap<string, number>} numbers
 * @param {ReadonlySet<string>} flags
 * @returns {import('./capacity.mjs').Demand}
 */
function demandOf(numbers, flags) {
  const required = (/** @type {string} */ name) =>
    numbers.get(name) ?? wrong(`${name} is missing. For example: --people 1000000 --units 50000 --within 10s`);
  const people = required('--people');
  const campaigns = numbers.get('--campaigns') ?? 1;
  if (campaigns > people) wrong(`--campaigns ${campaigns}: there are fewer people than campaigns.`);
  return {
    people,
    units: required('--units'),
    withinSeconds: required('--within'),
    campaigns,
    nodes: numbers.get('--nodes') ?? null,
    api: numbers.get('--api') ?? null,
    workers: numbers.get('--workers') ?? null,
    machines: numbers.get('--machines') ?? null,
    cores: numbers.get('--cores') ?? 4,
    pollSeconds: numbers.get('--polling') ?? null,
    sockets: numbers.get('--sockets') ?? 1,
    holdSeconds: numbers.get('--hold') ?? 900,
    line: !flags.has('--sold-out'),
    headroom: numbers.get('--headroom') ?? 0.3,
  };
}

/** @param {string} name @param {string} text @param {number} most @returns {number} */
function integer(name, text, most) {
  const value = /^\d[\d_,]*$/.test(text) ? Number(text.replace(/[_,]/g, '')) : Number.NaN;
  if (value >= 1 && value <= most) return value;
  return wrong(`${name} ${text}: expected a whole number from 1 to ${most.toLocaleString('en')}.`);
}

/** @param {string} name @param {string} text @returns {number} */
function seconds(name, text) {
  const [, number = '', unit = ''] = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text) ?? [];
  const value = Number(number) * (UNITS_OF_TIME.get(unit) ?? Number.NaN);
  if (value > 0 && value <= LONGEST_SECONDS) return value;
  return wrong(`${name} ${text}: expected a time up to 24h, for example 10s, 500ms, 2m or 1h.`);
}

/** @param {string} name @param {string} text @param {number} most @returns {number} */
function fraction(name, text, most) {
  const value = /^\d*\.?\d+$/.test(text) ? Number(text) : Number.NaN;
  if (value >= 0 && value <= most) return value;
  return wrong(`${name} ${text}: expected a share from 0 to ${most}.`);
}

/** @param {string} text @returns {number} */
function cores(text) {
  const value = /^\d*\.?\d+$/.test(text) ? Number(text) : Number.NaN;
  if (value >= LEAST_CORES && value <= MOST_CORES) return value;
  return wrong(`--cores ${text}: expected a number from ${LEAST_CORES} to ${MOST_CORES}.`);
}

/** @param {string} message @returns {never} */
function wrong(message) {
  throw new Problem(message, { remedy: 'See npm run plan -- --help', exitCode: 2 });
}
