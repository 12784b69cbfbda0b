// Identifies processes. The system reuses pids, so locks and records have the pid and the start time.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/**
 * Returns what distinguishes this process from others with the same pid; undefined if there is none (a zombie counts as
 * none).
 * @param {number} pid
 * @returns {string | undefined}
 */
export function identityOf(pid) {
  return process.platform === 'linux' ? identityFromProc(pid) : identityFromPs(pid);
}

/**
 * Whether the recorded process still runs.
 * @param {{ pid: number, identity: string }} record
 * @returns {boolean}
 */
export function isRunning({ pid, identity }) {
  return identityOf(pid) === identity;
}

/**
 * Returns the command line of a process, "" if there is none.
 * @param {number} pid
 * @returns {string}
 */
export function commandLineOf(pid) {
  if (process.platform !== 'linux') return ps(pid, 'command=');
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    return '';
  }
}

/** @param {number} pid */
function identityFromProc(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name in brackets may contain any character, so fields are counted from the last bracket: state first, start
    // time 20th.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (fields[0] === 'Z' || fields[0] === 'X') return undefined;
    // The start time counts from boot, hence the boot's id.
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${boot}:${fields[19]}`;
  } catch {
    return undefined;
  }
}

/** @param {number} pid */
function identityFromPs(pid) {
  const [, state, started] = /^\s*(\S+)\s+(.+?)\s*$/.exec(ps(pid, 'stat=,lstart=')) ?? [];
  return state === undefined || state.startsWith('Z') ? undefined : started;
}

/**
 * @param {number} pid
 * @param {string} columns
 */
function ps(pid, columns) {
  const env = { ...process.env, LC_ALL: 'C' };
  return spawnSync('ps', ['-ww', '-o', columns, '-p', String(pid)], { encoding: 'utf8', env }).stdout ?? '';
}
