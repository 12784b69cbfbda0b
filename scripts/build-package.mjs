// `prepack` of client/ and server/: compiles the package into its dist/, and copies the licence, which npm adds to the
// tarball. The client also gets one minified file for <script>. Each declaration is there a second time as .d.cts:
// `require` loads the modules, and TypeScript before 5.8, or with module node16, accepts that only with such types.
import { spawnSync } from 'node:child_process';
import { copyFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const FOLDERS = ['client', 'server'];
const [folder = ''] = process.argv.slice(2);

if (!FOLDERS.includes(folder)) {
  process.stderr.write(`usage: node scripts/build-package.mjs ${FOLDERS.join('|')}\n`);
  process.exit(2);
}
const target = join(ROOT, folder);
const dist = join(target, 'dist');
rmSync(dist, { recursive: true, force: true });
const { status } = spawnSync(process.execPath, [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', target], {
  // The output of npm pack --json is read by programs.
  stdio: ['ignore', 2, 2],
});
if (status !== 0) process.exit(status ?? 1);
for (const name of readdirSync(dist).filter((file) => file.endsWith('.d.ts'))) {
  const types = readFileSync(join(dist, name), 'utf8').replace(/(['"])(\.\/[\w-]+)\.js\1/g, '$1$2.cjs$1');
  writeFileSync(join(dist, name.replace(/\.d\.ts$/, '.d.cts')), types);
}
copyFileSync(join(ROOT, 'LICENSE'), join(target, 'LICENSE'));
if (folder === 'client') {
  buildSync({
    entryPoints: [join(target, 'sale.ts')],
    outfile: join(dist, 'doorbuster.min.js'),
    bundle: true,
    minify: true,
    format: 'iife',
    globalName: 'Doorbuster',
    target: ['es2022', 'safari15.4'],
    absWorkingDir: ROOT,
    logLevel: 'warning',
  });
}
