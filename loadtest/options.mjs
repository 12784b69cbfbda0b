// The options of `npm run loadtest`, and the errors for unknown ones.
import { Problem } from '../scripts/problem.mjs';
import { SCENARIOS } from './scenarios.mjs';

const DEFAULT_TARGET = 'http://127.0.0.1:8102';
const NAMES = Object.keys(SCENARIOS);

export const USAGE = `usage: npm run loadtest -- <scenario> [options]
       npm run loadtest -- --list
       npm run loadtest -- --again loadtest/reports/<report>.json

Puts load on a server that runs already (\`npm start\` in another terminal) and ends with a verdict: exit code 1 when a unit was lost,
oversold or given out twice, when Redis and Postgres do not agree, or when a request got a 5xx, a response that the scenario does not
allow, or none. 2 when the load could not start.

  --target URL        the server (${DEFAULT_TARGET})
  --scale N           so many times as many people, 0.001 to 1 (1)
  --reports FOLDER    where the report is written (loadtest/reports)
  --again FILE        takes the verdict of an earlier run again, without load
  --i-own-this-target allows a target that is not on this machine

Keys and engines are those of \`npm start\` in DATA_DIR (.data). ADMIN_API_KEYS, SERVICE_API_KEYS, REDIS_URL and DATABASE_URL in the
environment say otherwise.`;

/**
 * @typedef {{ what: 'help' | 'list' } | { what: 'run', scenario: string, target: URL, targetGiven: boolean, scale:
 *   number, reports: string }
 *   | { what: 'again', report: string, target: URL | null }} Wish
 */

/**
 * @param {readonly string[]} args
 * @param {string} reports the usual folder
 * @returns {Wish}
 */
export function readOptions(args, reports) {
  /** @type {Record<string, string>} */
  const given = {};
  const flags = new Set();
  const names = [];
  const rest = [...args];
  for (let arg = rest.shift(); arg !== undefined; arg = rest.shift()) {
    if (['--help', '-h', '--list', '--i-own-this-target'].includes(arg)) flags.add(arg);
    else if (['--target', '--scale', '--reports', '--again'].includes(arg))
      given[arg] = rest.shift() ?? wrong(`${arg} needs a value.`);
    else if (arg.startsWith('-')) wrong(`There is no option ${arg}.`);
    else names.push(arg);
  }
  if (flags.has('--help') || flags.has('-h')) return { what: 'help' };
  if (flags.has('--list')) return { what: 'list' };
  const asked = given['--target'];
  const target = asked === undefined ? null : targetFrom(asked, flags.has('--i-own-this-target'));
  if (given['--again'] !== undefined) return { what: 'again', report: given['--again'], target };
  const [scenario, ...more] = names;
  if (scenario === undefined) return wrong(`Which scenario? ${NAMES.join(', ')}.`);
  if (more.length > 0) wrong(`One scenario at a time, but got ${names.join(' ')}.`);
  if (!NAMES.includes(scenario)) wrong(`There is no scenario ${scenario}. There are ${NAMES.join(', ')}.`);
  const scale = Number(given['--scale'] ?? 1);
  if (!(scale >= 0.001 && scale <= 1)) wrong(`--scale ${given['--scale']}: expected a number from 0.001 to 1.`);
  return {
    what: 'run',
    scenario,
    target: target ?? new URL(DEFAULT_TARGET),
    targetGiven: target !== null,
    scale,
    reports: given['--reports'] ?? reports,
  };
}

/**
 * Refuses other targets, because a load test of another party's server is an attack on it.
 * @param {string} text
 * @param {boolean} owned
 * @returns {URL}
 */
function targetFrom(text, owned) {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !['http:', 'https:'].includes(url.protocol))
    return wrong(`--target ${text}: expected http://host:port.`);
  if (!isLoopback(url.hostname) && !owned) {
    throw new Problem(`${url.hostname} is not this machine.`, {
      remedy: 'If the server is yours and idle, add --i-own-this-target.',
      exitCode: 2,
    });
  }
  return url;
}

/** @param {string} host as a URL has it */
export function isLoopback(host) {
  return host === 'localhost' || host === '[::1]' || /^127(\.\d{1,3}){3}$/.test(host);
}

/** @param {string} message @returns {never} */
function wrong(message) {
  throw new Problem(message, { remedy: 'See npm run loadtest -- --help', exitCode: 2 });
}
