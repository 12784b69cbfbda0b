// Compiles when dist/ was not made of the current sources. The stamp is a hash of their contents, because a git
// checkout changes times without changing files, and files without changing times. It is written last, so a failed
// build is never taken for a good one.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runNpm } from './npm.mjs';
import { codeOf } from './problem.mjs';

const BUILD_LIMIT_MS = 300_000;
const SOURCES = [
  'api',
  'worker',
  'commands',
  'shared',
  'migrations',
  'torture',
  'examples',
  'server',
  'client',
  'pages',
];
/** What `npm run build` runs after the compiler. */
const STEPS = ['scripts/finish-pages.mjs', 'scripts/bundle-programs.mjs'];
const SETTINGS = /^(tsconfig.*\.json|package\.json|package-lock\.json)$/;

/**
 * @param {string} root
 * @returns {boolean}
 */
export function isBuilt(root) {
  try {
    return readFileSync(stampPath(root), 'utf8') === sourceHash(root);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false;
    throw error;
  }
}

/**
 * @param {string} root
 * @returns {Promise<void>}
 */
export async function build(root) {
  const hash = sourceHash(root);
  // Removes output of deleted sources: a deleted migration, for example, would still run.
  rmSync(join(root, 'dist'), { recursive: true, force: true });
  await runNpm(root, ['run', 'build', '--silent'], {
    limitMs: BUILD_LIMIT_MS,
    failure: 'The sources do not compile',
    remedy: 'Mend what the lines above say and start again.',
  });
  writeFileSync(stampPath(root), hash);
}

/** @param {string} root */
function sourceHash(root) {
  const hash = createHash('sha256');
  const settings = readdirSync(root).filter((name) => SETTINGS.test(name));
  const sources = SOURCES.flatMap((folder) => filesIn(root, folder));
  for (const path of [...settings, ...STEPS, ...sources].sort()) {
    hash
      .update(`${path}\0`)
      .update(readFileSync(join(root, path)))
      .update('\0');
  }
  return `${hash.digest('hex')}\n`;
}

/**
 * @param {string} root
 * @param {string} folder
 */
function filesIn(root, folder) {
  try {
    const entries = readdirSync(join(root, folder), { recursive: true, withFileTypes: true });
    return entries
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1));
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return [];
    throw error;
  }
}

/** @param {string} root */
function stampPath(root) {
  return join(root, 'dist', '.stamp');
}
