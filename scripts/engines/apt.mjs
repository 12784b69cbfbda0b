// What every private copy of the distribution's packages needs: apt with a state of its own, and folders that appear whole.
import { readdirSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { run } from '../processes.mjs';

export const APT_LIMIT_MS = 300_000;

/** @param {string} apt */
export function aptOptions(apt) {
  const settings = {
    'Dir::Cache': join(apt, 'cache'),
    'Debug::NoLocking': 'true',
    'APT::Sandbox::User': 'root',
    'Acquire::Languages': 'none',
    'Acquire::Retries': '2',
    'Acquire::http::Timeout': '20',
    'Acquire::https::Timeout': '20',
  };
  return Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
}

/**
 * Puts the finished folder in its place at one stroke, so that half of it is never taken for the whole.
 * @param {string} draft
 * @param {string} home
 */
export function moveInto(draft, home) {
  rmSync(home, { recursive: true, force: true });
  renameSync(draft, home);
}

/**
 * Removes what killed attempts left. The caller holds the lock, so no draft here is alive.
 * @param {string} home
 */
export function clearHalfDone(home) {
  for (const name of readdirSync(dirname(home))) {
    if (name.startsWith(`${basename(home)}.new-`)) rmSync(join(dirname(home), name), { recursive: true, force: true });
  }
}

/**
 * @param {string} command
 * @param {string[]} args
 * @param {{ env?: NodeJS.ProcessEnv }} [options]
 */
export async function mustRun(command, args, options = {}) {
  const { code, output } = await run(command, args, { limitMs: APT_LIMIT_MS, ...options });
  if (code !== 0) throw new Error(`${command} failed: ${output.trim().split('\n').slice(-5).join('\n')}`);
}
