// `npm run plan`: reads the options and prints what a sale needs (docs/planning.md).
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { codeOf, messageOf, Problem } from '../../scripts/problem.mjs';
import { createTerminal } from '../../scripts/terminal.mjs';
import { COSTS, LIMITS, planSale, SOURCE } from './plan.mjs';

const USAGE = `usage: npm run plan -- --people N --units N --within TIME [options] [--json] [--help]

Computes what a sale needs. Starts nothing. Exit code 1: the demand cannot be met as asked, 2: an option is wrong.

  --within TIME     in which all people arrive, evenly and each once: 10s, 500ms, 2m, 1h
  --campaigns N     over which people and units spread evenly (1)
  --sold-out        people without a unit get "sold out" instead of a place in line
  --sockets SHARE   of the people in line who have a WebSocket, 0 to 1; the others poll (1)
  --nodes N, --api N, --workers N   primaries of Redis, and processes, instead of as many as are needed
  --headroom SHARE  of each core that stays free, 0 to 0.8 (0.3)
  --costs FILE      JSON with figures that replace those of docs/planning.md, such as { "place_redis_us": 70 }`;
const COUNTS = { people: 1e9, units: 1e9, campaigns: 1e5, nodes: LIMITS.shards, api: 1e4, workers: 1e3 };
const MOST = { ...COUNTS, sockets: 1, headroom: 0.8, within: 86_400 };
const DEFAULTS = { people: '', units: '', within: '', campaigns: '1', sockets: '1', headroom: '0.3' };
const SECONDS = { ms: 0.001, s: 1, m: 60, h: 3_600 };

const count = (/** @type {number} */ value) => Math.round(value).toLocaleString('en');
const percent = (/** @type {number} */ share) => `${Math.round(share * 100)} %`;
const time = (/** @type {number} */ seconds) => `${seconds < 10 ? Number(seconds.toPrecision(2)) : count(seconds)} s`;
const wrong = (/** @type {string} */ what) => new Problem(what, { remedy: 'See npm run plan -- --help' });

const terminal = createTerminal();
try {
  main(process.argv.slice(2));
} catch (error) {
  // Errors of options and files have a code or are of syntax. Others are bugs, whose stack is printed.
  terminal.explain(codeOf(error) || error instanceof SyntaxError ? wrong(messageOf(error)) : error);
  process.exitCode = 2;
}

/** @param {string[]} args */
function main(args) {
  const texts = [...Object.keys(MOST), 'costs'].map((name) => [name, { type: 'string' }]);
  const flags = ['sold-out', 'json', 'help'].map((name) => [name, { type: 'boolean' }]);
  const { values } = parseArgs({ args, options: Object.fromEntries([...texts, ...flags]) });
  const { help, json, costs: file, 'sold-out': soldOut, ...given } = /** @type {Record<string, any>} */ (values);
  if (help) return terminal.print(USAGE);
  const numbers = Object.entries({ ...DEFAULTS, ...given }).map(([name, text]) => [name, readNumber(name, text)]);
  const demand = { ...Object.fromEntries(numbers), line: !soldOut };
  const costs = file ? readCosts(file) : COSTS;
  const plan = planSale(demand, costs);
  const reasons = reasonsOf(demand, plan);
  const text = [...describe(demand, plan), `Costs: ${file ? `${file}, and ` : ''}${SOURCE}.`, ...reasons].join('\n');
  terminal.print(json ? JSON.stringify({ demand, ...plan, reasons, costs }, null, 2) : text);
  process.exitCode = reasons.length > 0 ? 1 : 0;
}

/** @param {string} name @param {string} text @returns {number} a time in s */
function readNumber(name, text) {
  const most = MOST[/** @type {'people'} */ (name)];
  const [, digits = 'none', unit] = /^(\d{1,3}(?:[_,]\d{3})+|\d*\.?\d+)(ms|s|m|h)?$/.exec(text) ?? [];
  const value = Number(digits.replace(/[_,]/g, '')) * SECONDS[/** @type {'s'} */ (unit ?? 's')];
  const [isTime, isShare] = [name === 'within', most <= 1];
  const isKind = isTime === (unit !== undefined) && (isTime || isShare || Number.isInteger(value));
  if (isKind && value <= most && (isShare || value > 0)) return value;
  const range = isShare ? `a share from 0 to ${most}` : `a whole number from 1 to ${count(most)}`;
  throw wrong(`--${name} ${text || 'is missing'}: expected ${isTime ? 'a time up to 24h, such as 1.5s' : range}.`);
}

/** @param {string} file @returns {typeof COSTS} */
function readCosts(file) {
  const figures = Object.entries(JSON.parse(readFileSync(file, 'utf8')));
  const bad = figures.find(([name, value]) => !Object.hasOwn(COSTS, name) || !(Number.isFinite(value) && value > 0));
  if (bad) throw wrong(`${file}: ${bad[0]} is no figure of docs/planning.md, or not a number above 0.`);
  return { ...COSTS, ...Object.fromEntries(figures) };
}

/** @param {import('./plan.mjs').Demand} demand @param {ReturnType<typeof planSale>} plan */
function describe({ people, units, within, campaigns, headroom }, { redis, api, postgres, ...plan }) {
  return [
    `${count(people)} people within ${time(within)}, ${count(units)} units, campaigns: ${count(campaigns)}`,
    `Redis     ${redis.nodes} × a primary with two replicas; SHARDS=${redis.shards}; "buckets": ${redis.buckets}`,
    `          busiest: ${redis.busiest} of ${campaigns * redis.buckets} buckets, ${percent(redis.busy)} of its core`,
    `          maxmemory ${count(plan.maxmemory / 1e6)} MB; twice as much in the machine, for rewrites of the file`,
    `API       ${api.processes} × a core; ${count(api.sockets)} sockets, ${count(api.polls)} polls a second`,
    `workers   ${plan.workers} × a core, for up to ${count(postgres.perSecond)} rows a second`,
    `Postgres  ${count(postgres.backlog)} rows behind at most; ${count(postgres.bytes / 1e6)} MB of disk`,
    `          all ${count(postgres.rows)} rows after ${time(postgres.after)}`,
    `The last person has a response after ${time(plan.lastResponse)}. ${percent(headroom)} of each core stays free.`,
  ];
}

/** Why the demand cannot be met as asked, with remedies. @type {(...args: Parameters<typeof describe>) => string[]} */
function reasonsOf({ within, campaigns, headroom, nodes }, { redisCores, redis, api, postgres }) {
  const free = 1 - headroom + 1e-9;
  const apart = Math.ceil(redisCores / free);
  const split = apart > campaigns && apart <= LIMITS.shards ? `, or split the sale: --campaigns ${apart}` : '';
  const longer = `Let people arrive more slowly: --within ${Math.ceil((within * redis.busy) / free)}s${split}`;
  return [
    redis.busy > free &&
      `The busiest core of Redis is ${percent(redis.busy)} busy. ${nodes ? 'Add some: leave out --nodes' : longer}.`,
    (api.cores > api.processes * free || api.sockets > api.processes * LIMITS.sockets) &&
      `--api ${api.processes} is too few for ${api.cores.toFixed(1)} cores of work, or for the sockets. Leave it out.`,
    postgres.backlog * redis.share > LIMITS.journal &&
      `A shard would have more than ${count(LIMITS.journal)} promises. Raise JOURNAL_LIMIT, or checkouts get 503.`,
  ].flatMap((reason) => (reason ? [`Does not hold as asked: ${reason}`] : []));
}
