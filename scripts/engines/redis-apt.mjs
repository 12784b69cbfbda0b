// Gets Redis from the distribution's own signed packages, unpacked below the repository: without root, without a
// service, without a change of the system. apt's state and cache are private too, because its lists may be missing,
// old, or not writable.
import { mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { run } from '../processes.mjs';
import { APT_LIMIT_MS, aptOptions, clearHalfDone, moveInto, mustRun } from './apt.mjs';

/** @typedef {{ home: string, say: (note: string) => void }} Place  home: where the unpacked server is to lie */

/** The packages of the servers, with the dependencies that a slim system lacks, for when apt cannot resolve them. */
const PACKAGES = [
  { server: 'redis-server', names: ['redis-server', 'redis-tools', 'liblzf1', 'libjemalloc2'] },
  { server: 'valkey-server', names: ['valkey-server', 'valkey-tools', 'liblzf1', 'libjemalloc2'] },
];

/**
 * Downloads and unpacks a server without installing it. Returns the path of its starter.
 * @param {Place} place
 * @returns {Promise<string>}
 */
export async function unpackWithApt({ home, say }) {
  clearHalfDone(home);
  const draft = `${home}.new-${process.pid}`;
  const apt = join(draft, 'apt');
  for (const directory of ['lists/partial', 'cache/archives/partial', 'archives']) {
    mkdirSync(join(apt, directory), { recursive: true });
  }
  try {
    say('fetching Redis from the system’s package sources');
    const server = (await download(apt, [])) ?? (await downloadWithOwnLists(apt, say));
    say('unpacking Redis');
    for (const archive of readdirSync(join(apt, 'archives')).filter((name) => name.endsWith('.deb'))) {
      await mustRun('dpkg', ['-x', join(apt, 'archives', archive), join(draft, 'root')]);
    }
    rmSync(apt, { recursive: true });
    writeStarter(draft, server);
    moveInto(draft, home);
    return join(home, 'redis-server');
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
}

/**
 * For root, if unpacking was not enough: installs the package with the binary, but not the one with the service, so
 * that no Redis of the system is started. The binary depends on the name it is called by, hence the link.
 * @param {Place} place
 * @returns {Promise<string>}
 */
export async function installWithApt({ home, say }) {
  say('apt-get install redis-tools');
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  await run('apt-get', ['update'], { env, limitMs: APT_LIMIT_MS });
  await mustRun('apt-get', ['install', '-y', '--no-install-recommends', 'redis-tools'], { env });
  const draft = `${home}.new-${process.pid}`;
  mkdirSync(draft, { recursive: true });
  symlinkSync('/usr/bin/redis-check-rdb', join(draft, 'redis-server'));
  moveInto(draft, home);
  return join(home, 'redis-server');
}

/**
 * @param {string} apt
 * @param {(note: string) => void} say
 */
async function downloadWithOwnLists(apt, say) {
  say('fetching the package lists');
  const options = ['-o', `Dir::State::lists=${join(apt, 'lists')}`];
  // The exit code is no evidence: one unreachable third-party source, or a hook that needs root, makes it fail.
  const { output } = await run('apt-get', [...aptOptions(apt), ...options, 'update'], { limitMs: APT_LIMIT_MS });
  say('fetching Redis');
  const server = await download(apt, options);
  if (server === undefined)
    throw new Error(`apt has no usable redis-server:\n${output.trim().split('\n').slice(-4).join('\n')}`);
  return server;
}

/**
 * Downloads a server's packages. Returns its name, or undefined if there is none.
 * @param {string} apt
 * @param {string[]} listOptions
 */
async function download(apt, listOptions) {
  const options = [...aptOptions(apt), ...listOptions];
  for (const { server, names } of PACKAGES) {
    const plan = await run('apt-get', [...options, '--simulate', '--no-install-recommends', 'install', server], {
      limitMs: APT_LIMIT_MS,
    });
    const missing = [...plan.output.matchAll(/^Inst (\S+)/gm)].map((match) => match[1] ?? '');
    const wanted = plan.code === 0 && missing.includes(server) ? missing : names;
    const fetched = await run('apt-get', [...options, 'download', ...wanted], {
      cwd: join(apt, 'archives'),
      limitMs: APT_LIMIT_MS,
    });
    if (fetched.code === 0) return server;
  }
  return undefined;
}

/**
 * Writes a starter that finds the libraries beside it, so that callers need not set their path, and the folder may be
 * moved.
 * @param {string} draft
 * @param {string} server
 */
function writeStarter(draft, server) {
  const libraries = new Set();
  for (const entry of readdirSync(join(draft, 'root'), { recursive: true, encoding: 'utf8' })) {
    if (/\.so(\.\d+)*$/.test(entry)) libraries.add(`$here/root/${dirname(entry)}`);
  }
  const path = `${[...libraries].join(':')}\${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}`;
  const script = [
    '#!/bin/sh',
    'here=$(dirname -- "$(readlink -f -- "$0")") || exit 1',
    `export LD_LIBRARY_PATH="${path}"`,
    `exec "$here/root/usr/bin/${server}" "$@"`,
  ];
  writeFileSync(join(draft, 'redis-server'), `${script.join('\n')}\n`, { mode: 0o755 });
}
