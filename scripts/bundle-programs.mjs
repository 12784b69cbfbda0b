// The last step of `npm run build`: bundles each program of the server over what tsc wrote, with its packages. A start
// then reads a few files instead of a thousand (docs/decisions/0078-bundled-programs.md).
import { rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const DIST = join(ROOT, 'dist');
/**
 * The programs by folder. Those of one folder share modules: what tests preload into an API has to see the API's own
 * instance of `http/respond.js`. `commands/restore.js` and `migrations/main.js` stay as they are, because they find
 * the migrations by the path of `shared/postgres/migrate.js`, and knex finds its dialects by their names.
 */
const PROGRAMS = {
  api: ['main', 'http/contract-check'],
  worker: ['main'],
  commands: ['audit', 'backup', 'ledger', 'partitions', 'reconcile', 'regions', 'reshard'],
};
/** Packages that stay in node_modules. */
const EXTERNAL = [
  // Find files by their own path. Both are loaded by `import()`, when they are needed.
  '@bull-board/*',
  '@platformatic/kafka',
  // Finds its binary by its own path. Inside a bundle it fails, and msgpackr goes on without it in silence.
  'msgpackr-extract',
  // Optional and not installed.
  'pg-native',
];
/**
 * CommonJS packages load modules of Node with `require`. There is no `__dirname`: a package that finds files by it must
 * be external, and fails at once instead of finding the wrong files.
 */
const BANNER = `import { createRequire as createRequireOfBundle } from 'node:module';
const require = createRequireOfBundle(import.meta.url);`;

for (const [folder, names] of Object.entries(PROGRAMS)) bundle(folder, names);

/**
 * @param {string} folder
 * @param {string[]} names
 */
function bundle(folder, names) {
  const programs = names.map((name) => join(DIST, folder, `${name}.js`));
  // Removes the maps of tsc, which describe the files as they were. Fails when a program is a bundle already.
  for (const program of programs) rmSync(`${program}.map`);
  buildSync({
    entryPoints: programs,
    outbase: DIST,
    outdir: DIST,
    allowOverwrite: true,
    chunkNames: `${folder}/chunks/[name]-[hash]`,
    bundle: true,
    // What is loaded by `import()` becomes a file of its own, which a start does not read.
    splitting: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    // BullMQ compares the names of errors. esbuild renames classes whose names collide.
    keepNames: true,
    external: EXTERNAL,
    banner: { js: BANNER },
    // The licences are in node_modules, which an image has beside dist/.
    legalComments: 'none',
    absWorkingDir: ROOT,
    logLevel: 'warning',
  });
}
