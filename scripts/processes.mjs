// Starts all processes of the scripts, so that none is left behind: stopStragglers() ends those that still run when
// this program stops. On Linux the kernel ends them even if this program is killed.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { codeOf, Interrupted, messageOf, Problem } from './problem.mjs';
import { settlesWithin } from './waiting.mjs';

const OUTPUT_LIMIT_CHARS = 64 * 1024;
const PIPE_DRAIN_MS = 500;

/** @typedef {{ code: number | null, signal: NodeJS.Signals | null }} Exit */
/** @typedef {{ uid: number, gid: number, overrideAccess: boolean }} User  overrideAccess: keep CAP_DAC_OVERRIDE */
/**
 * @typedef {object} LaunchOptions
 * @property {string} [cwd]
 * @property {NodeJS.ProcessEnv} [env]
 * @property {import('node:child_process').StdioOptions} [stdio]
 * @property {User | undefined} [as] another user (only root can)
 * @property {NodeJS.Signals} [stopSignal] asks it to end in good order (SIGTERM)
 * @property {NodeJS.Signals} [hurrySignal] makes it end at once (SIGKILL)
 * @property {NodeJS.Signals} [deathSignal] what it gets if we are killed (stopSignal)
 * @property {boolean} [wholeGroup] signals go to all of its descendants too, for commands that are chains of programs
 * @property {boolean} [ownSession] out of reach of the terminal's Ctrl-C (true)
 */
/**
 * @typedef {object} Running
 * @property {number} pid
 * @property {import('node:child_process').ChildProcess} child
 * @property {Promise<Exit>} exited
 * @property {() => Exit | undefined} exit how it ended, if it has
 * @property {(signal?: NodeJS.Signals) => void} kill
 * @property {(limitMs?: number) => Promise<void>} stop in good order, by force after the limit
 * @property {() => void} hurry ends it and its descendants at once
 */

/** @type {Set<Running>} */
const living = new Set();
let stopping = false;

/**
 * Starts a program, by default in a session of its own, so that on Ctrl-C this program decides in which order the
 * others end.
 * @param {string} command
 * @param {string[]} args
 * @param {LaunchOptions} [options]
 * @returns {Promise<Running>}
 */
export async function launch(command, args, options = {}) {
  if (stopping) throw new Interrupted();
  const {
    as,
    cwd,
    env,
    stdio = 'ignore',
    stopSignal = 'SIGTERM',
    hurrySignal = 'SIGKILL',
    deathSignal = stopSignal,
    wholeGroup = false,
    ownSession = true,
  } = options;
  const prefix = setprivPrefix(deathSignal, as);
  const [file = command, ...rest] = [...prefix, command, ...args];
  const user = as !== undefined && prefix.length === 0 ? { uid: as.uid, gid: as.gid } : {};
  const child = spawn(file, rest, { cwd, env, stdio, detached: ownSession, ...user });
  const { pid } = child;
  if (pid === undefined) {
    const [error] = await once(child, 'error');
    throw new Problem(`cannot run ${command}: ${messageOf(error)}`, { cause: error });
  }
  /** @type {Exit | undefined} */
  let exit;
  const exited = new Promise((/** @type {(exit: Exit) => void} */ resolve) => {
    child.once('exit', (code, signal) => {
      exit = { code, signal };
      living.delete(running);
      resolve(exit);
    });
  });
  const group = ownSession ? -pid : pid;
  const kill = (/** @type {NodeJS.Signals} */ signal = 'SIGKILL') => {
    if (exit === undefined) sendSignal(wholeGroup ? group : pid, signal);
  };
  const stop = async (limitMs = 15_000) => {
    kill(stopSignal);
    // A suspended program handles no signal until it is resumed.
    kill('SIGCONT');
    if (await settlesWithin(exited, limitMs)) return;
    kill(hurrySignal);
    if (hurrySignal !== 'SIGKILL' && (await settlesWithin(exited, 5_000))) return;
    sendSignal(group, 'SIGKILL');
    await exited;
  };
  const hurry = () => sendSignal(group, hurrySignal);
  /** @type {Running} */
  const running = { pid, child, exited, exit: () => exit, kill, stop, hurry };
  living.add(running);
  return running;
}

/**
 * Runs a command to its end and returns the last part of its output, whatever its exit code.
 * @param {string} command
 * @param {string[]} args
 * @param {Omit<LaunchOptions, 'stdio'> & { input?: string, limitMs?: number }} [options]
 * @returns {Promise<Exit & { output: string }>}
 */
export async function run(command, args, { input, limitMs = 300_000, ...options } = {}) {
  // The command ends at once if this program is killed: npm, for example, would otherwise undo its work for seconds,
  // during the next start.
  const defaults = /** @type {const} */ ({ wholeGroup: true, deathSignal: 'SIGKILL' });
  const running = await launch(command, args, { ...defaults, ...options, stdio: ['pipe', 'pipe', 'pipe'] });
  const { child } = running;
  let output = '';
  const closed = once(child, 'close');
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text) => {
      output = (output + text).slice(-OUTPUT_LIMIT_CHARS);
    });
  }
  child.stdin?.on('error', () => {}).end(input ?? '');
  if (!(await settlesWithin(running.exited, limitMs))) {
    await running.stop(2_000);
    output += `\n(stopped after ${limitMs / 1000} s)`;
  }
  const exit = await running.exited;
  await settlesWithin(closed, PIPE_DRAIN_MS);
  if (stopping) throw new Interrupted();
  return { ...exit, output };
}

/** Prevents further starts. */
export function refuseToLaunch() {
  stopping = true;
}

/**
 * Ends all processes that still run, at the same time. Callers that need an order stop their processes before.
 * @param {number} limitMs
 * @returns {Promise<void>}
 */
export async function stopStragglers(limitMs) {
  await Promise.all([...living].map((running) => running.stop(limitMs)));
}

/**
 * Kills all processes that still run, after a second Ctrl-C. No data are lost, but the next start has more to recover.
 * @returns {void}
 */
export function hurryStragglers() {
  for (const running of living) running.hurry();
}

/**
 * Sends a signal. It is no error if the process has ended.
 * @param {number} pid negative for a process group
 * @param {NodeJS.Signals} signal
 * @returns {void}
 */
export function sendSignal(pid, signal) {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (codeOf(error) !== 'ESRCH' && codeOf(error) !== 'EPERM') throw error;
  }
}

/**
 * Returns the setpriv call in front of a command: it makes the kernel signal the child when this process dies, and
 * changes the user. setpriv then executes the command, so the pid stays. Empty if setpriv is missing.
 * @param {NodeJS.Signals} deathSignal
 * @param {User | undefined} as
 * @returns {string[]}
 */
export function setprivPrefix(deathSignal, as) {
  if (!hasSetpriv()) return [];
  const prefix = ['setpriv', '--pdeathsig', deathSignal.slice(3)];
  if (as !== undefined) prefix.push('--reuid', String(as.uid), '--regid', String(as.gid), '--clear-groups');
  if (as?.overrideAccess) {
    // Without no_setuid_fixup, access(2), which Postgres calls for its own programs, ignores the capability.
    prefix.push('--securebits=+no_setuid_fixup', '--inh-caps=+dac_override', '--ambient-caps=+dac_override');
  }
  return [...prefix, '--'];
}

/** @type {boolean | undefined} */
let setprivWorks;

/**
 * Whether setpriv (util-linux) is installed and has --pdeathsig.
 * @returns {boolean}
 */
export function hasSetpriv() {
  setprivWorks ??=
    process.platform === 'linux' && spawnSync('setpriv', ['--pdeathsig', 'TERM', '--', 'true']).status === 0;
  return setprivWorks;
}
