// Finds a redis-server, and installs one if there is none, so that a new user need not prepare the machine. Order: the
// PATH, an earlier private unpack, apt (private, then installed), brew. If all fail, it prints the command to run.
import { accessSync, constants, existsSync, mkdirSync, statSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { waitForLock } from '../lock.mjs';
import { Interrupted, messageOf, Problem } from '../problem.mjs';
import { run } from '../processes.mjs';
import { installWithApt, unpackWithApt } from './redis-apt.mjs';

const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url));
// XTRIM MINID, XAUTOCLAIM and SET … EXAT need 6.2; Valkey's versions continue from Redis 7.2.
const OLDEST = '6.2';
const GETTING_LIMIT_MS = 900_000;
const SERVERS = ['redis-server', 'valkey-server'];
const BREW_DIRECTORIES = ['/opt/homebrew/bin', '/usr/local/bin', '/home/linuxbrew/.linuxbrew/bin'];
const COMMANDS = [
  ['apt-get', 'sudo apt-get install redis-server'],
  ['brew', 'brew install redis'],
  ['dnf', 'sudo dnf install valkey'],
  ['apk', 'sudo apk add redis'],
  ['pacman', 'sudo pacman -S valkey'],
  ['zypper', 'sudo zypper install redis'],
];

/**
 * Returns the path of a server that runs on this machine, and installs one if there is none.
 * @param {{ say?: (note: string) => void, root?: string }} [options] root: the repository, below which a private copy
 *   is kept
 * @returns {Promise<string>}
 */
export async function findRedisServer({ say = () => {}, root = REPOSITORY } = {}) {
  const home = join(root, '.engines', 'redis');
  /** @type {string[]} */
  const refused = [];
  const usable = async (/** @type {string | undefined} */ path) => {
    if (path === undefined) return false;
    const why = await whyUnusable(path);
    if (why !== undefined) refused.push(`${path}: ${why}`);
    return why === undefined;
  };
  const present = [
    ...SERVERS.map((name) => async () => onPath(name)),
    async () => existing(join(home, 'redis-server')),
  ];
  const obtainable = [
    async () => (has('apt-get') && has('dpkg') ? unpackWithApt({ home, say }) : undefined),
    async () => (has('apt-get') && process.getuid?.() === 0 ? installWithApt({ home, say }) : undefined),
    async () => (onPath('brew') === undefined ? undefined : installWithBrew(say)),
  ];
  const firstUsable = async (/** @type {(() => Promise<string | undefined>)[]} */ ways) => {
    for (const way of ways) {
      try {
        const path = await way();
        if (await usable(path)) return path;
      } catch (error) {
        if (error instanceof Interrupted) throw error;
        refused.push(messageOf(error));
      }
    }
    return undefined;
  };
  const found =
    (await firstUsable(present)) ?? (await alone(home, say, () => firstUsable([...present, ...obtainable])));
  if (found !== undefined) return found;
  throw new Problem(`There is no redis-server or valkey-server (${OLDEST} or newer) here, and none could be got.`, {
    details: refused.join('\n'),
    remedy: `Install one:  ${commandToType()}\nor point REDIS_URL at a running one. Then try again.`,
  });
}

/**
 * Prevents two processes from downloading at once: the second waits, and then finds the server of the first.
 * @param {string} home
 * @param {(note: string) => void} say
 * @param {() => Promise<string | undefined>} work
 */
async function alone(home, say, work) {
  mkdirSync(dirname(home), { recursive: true });
  const release = await waitForLock(`${home}.lock`, { limitMs: GETTING_LIMIT_MS, say });
  try {
    return await work();
  } finally {
    release();
  }
}

/**
 * Returns the version, such as "7.0.15", or undefined if the program does not run.
 * @param {string} path
 * @returns {Promise<string | undefined>}
 */
export async function versionOf(path) {
  const { output } = await run(path, ['--version'], { limitMs: 10_000 });
  return /\bv=(\d+\.\d+\.\d+)/.exec(output)?.[1];
}

/** @param {string} path */
async function whyUnusable(path) {
  const version = await versionOf(path);
  if (version === undefined) return 'does not run on this machine';
  const isOld = version.localeCompare(OLDEST, 'en', { numeric: true }) < 0;
  return isOld ? `version ${version} is older than ${OLDEST}` : undefined;
}

/** @param {(note: string) => void} say */
async function installWithBrew(say) {
  say('brew install redis');
  const { code, output } = await run(onPath('brew') ?? 'brew', ['install', 'redis'], { limitMs: 900_000 });
  if (code !== 0) throw new Error(`brew install redis failed: ${output.trim().split('\n').slice(-5).join('\n')}`);
  return onPath('redis-server');
}

/** @param {string} name */
function has(name) {
  return onPath(name) !== undefined;
}

/**
 * @param {string} name
 * @returns {string | undefined}
 */
function onPath(name) {
  const directories = (process.env.PATH ?? '').split(delimiter).filter((directory) => directory !== '');
  if (process.platform === 'darwin') directories.push(...BREW_DIRECTORIES);
  // A package's own `redis-server` in node_modules/.bin is a script, not the server.
  const candidates = directories.filter((directory) => !dirname(directory).endsWith('node_modules'));
  return candidates.map((directory) => existing(join(directory, name))).find((path) => path !== undefined);
}

/**
 * Returns the path if it is an executable file.
 * @param {string} path
 * @returns {string | undefined}
 */
function existing(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile() ? path : undefined;
  } catch {
    return undefined;
  }
}

function commandToType() {
  const [, command] = COMMANDS.find(([manager = '']) => has(manager)) ?? [];
  if (command !== undefined) return command;
  return existsSync('/etc/debian_version')
    ? 'apt-get install redis-server'
    : 'see https://redis.io/docs/latest/operate/oss_and_stack/install/';
}
