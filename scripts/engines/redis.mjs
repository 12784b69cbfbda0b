// Starts a private Redis: on the loopback only, with every write on disk before the reply, without eviction. Used by
// `npm start`, `npm test` and by the tests that kill it.
import { once } from 'node:events';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join, resolve } from 'node:path';
import { closeLog, openLog, tailOf } from '../logfile.mjs';
import { freePort, whyNotListen } from '../ports.mjs';
import { Problem } from '../problem.mjs';
import { launch } from '../processes.mjs';
import { pause } from '../waiting.mjs';
import { findRedisServer } from './redis-binary.mjs';

const PORT_ATTEMPTS = 3;
const STOP_LIMIT_MS = 15_000;
const ANSWER_LIMIT_MS = 1_000;

/** @typedef {import('./engine.js').RedisOptions} RedisOptions */
/** @typedef {import('./engine.js').RunningEngine} RunningEngine */

/**
 * Starts Redis on the data directory and returns when it has loaded the data and replies.
 * @param {RedisOptions} options
 * @returns {Promise<RunningEngine>}
 */
export async function startRedis({
  binary,
  dataDir,
  port,
  password,
  extraArgs = [],
  logFile,
  say,
  readyLimitMs = 120_000,
}) {
  const server = binary ?? (await findRedisServer(say === undefined ? {} : { say }));
  const directory = resolve(dataDir);
  mkdirSync(directory, { recursive: true });
  chmodSync(directory, 0o700);
  const log = resolve(logFile ?? join(directory, 'redis.log'));
  for (let attempt = 1; ; attempt += 1) {
    const chosen = port ?? (await freePort());
    writeConfiguration(directory, chosen, password);
    const { descriptor, start } = openLog(log);
    const stdio = /** @type {const} */ (['ignore', descriptor, descriptor]);
    const running = await launch(server, [join(directory, 'redis.conf'), ...extraArgs], {
      cwd: directory,
      stdio: [...stdio],
    }).finally(() => closeLog(descriptor));
    const why = await whyNotReady(running, chosen, password, readyLimitMs);
    if (why === undefined) return engine(running, chosen, password);
    await running.stop(STOP_LIMIT_MS);
    const portWasTaken = port === undefined && (await whyNotListen(chosen)) !== undefined;
    if (portWasTaken && attempt < PORT_ATTEMPTS) continue;
    throw new Problem(`Redis did not start: ${why}.`, { details: tailOf(log, { start }), remedy: `Its log: ${log}` });
  }
}

export { findRedisServer };

/**
 * @param {import('../processes.mjs').Running} running
 * @param {number} port
 * @param {string | undefined} password
 * @returns {RunningEngine}
 */
function engine({ pid, child, exited, kill, stop }, port, password) {
  // `redis-cli -u` does not authenticate by a URL without a user.
  const credentials = password === undefined ? '' : `default:${encodeURIComponent(password)}@`;
  return {
    url: `redis://${credentials}127.0.0.1:${port}`,
    port,
    pid,
    exited,
    kill,
    unref: () => child.unref(),
    stop: (limitMs = STOP_LIMIT_MS) => stop(limitMs),
  };
}

/**
 * In a file rather than in the arguments, because every user of the machine can read those.
 * @param {string} directory
 * @param {number} port
 * @param {string | undefined} password
 */
function writeConfiguration(directory, port, password) {
  const settings = [
    ['bind', '127.0.0.1'],
    ['port', String(port)],
    ['dir', quoted(directory)],
    ['daemonize', 'no'],
    ['appendonly', 'yes'],
    ['appendfsync', 'always'],
    ['aof-load-truncated', 'yes'],
    ['save', '""'],
    ['maxmemory-policy', 'noeviction'],
  ];
  if (password !== undefined) settings.push(['requirepass', quoted(password)]);
  const text = settings.map((setting) => setting.join(' ')).join('\n');
  writeFileSync(join(directory, 'redis.conf'), `# Written anew at every start.\n${text}\n`, { mode: 0o600 });
}

/** @param {string} text */
function quoted(text) {
  return `"${text.replace(/[\\"]/g, '\\$&')}"`;
}

/**
 * Waits until the server replies. Returns the reason if that cannot happen.
 * @param {import('../processes.mjs').Running} running
 * @param {number} port
 * @param {string | undefined} password
 * @param {number} limitMs
 * @returns {Promise<string | undefined>}
 */
async function whyNotReady(running, port, password, limitMs) {
  const end = Date.now() + limitMs;
  let answer = 'no answer';
  while (Date.now() < end) {
    const exit = running.exit();
    if (exit !== undefined) return `it ended with ${exit.signal ?? `code ${exit.code}`}`;
    answer = await ask(port, password);
    if (answer.endsWith('+PONG')) return undefined;
    if (/^-(WRONGPASS|NOAUTH|NOPERM)/.test(answer)) return `port ${port} is another Redis (${answer})`;
    await pause(20);
  }
  return `not ready after ${limitMs / 1000} s (${answer})`;
}

/**
 * Sends one PING over a socket, because no client library is installed yet at the first start.
 * @param {number} port
 * @param {string | undefined} password
 * @returns {Promise<string>} what was answered
 */
async function ask(port, password) {
  const socket = connect({ port, host: '127.0.0.1' });
  const commands = password === undefined ? [['PING']] : [['AUTH', password], ['PING']];
  let answer = '';
  const answered = new Promise((resolve) => {
    socket.setEncoding('utf8').on('data', (text) => {
      answer += text;
      if (answer.split('\r\n').length > commands.length || answer.startsWith('-')) resolve(undefined);
    });
    socket.on('close', resolve);
    socket.on('error', resolve);
    socket.setTimeout(ANSWER_LIMIT_MS, () => resolve(undefined));
  });
  socket.on('connect', () => socket.write(commands.map(encoded).join('')));
  await answered;
  if (!socket.destroyed) {
    socket.destroy();
    await once(socket, 'close');
  }
  return answer.trim();
}

/** @param {string[]} words */
function encoded(words) {
  return `*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join('')}`;
}
