// A step of `npm run build`: bundles the pages for browsers, and minifies the modules of the client.
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants } from 'node:zlib';
import { minifySync } from '@swc/core';
import { buildSync } from 'esbuild';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const DIST = join(ROOT, 'dist');
/** The pages, with the scripts and styles of each. Those become files whose names have a hash of their contents. */
const PAGES = {
  'pages/sale/sale.html': ['pages/sale/main.ts', 'pages/sale/sale.css'],
  'pages/admin/admin.html': ['pages/admin/main.ts', 'pages/admin/page.css'],
  'pages/server/server.html': ['pages/server/main.ts', 'pages/server/server.css'],
};
/** Modules of the client's only package, with their places below dist/. */
const HASHES = ['sha2.js', '_md.js', '_u64.js', 'utils.js'];

for (const [page, entries] of Object.entries(PAGES)) bundle(page, entries);
bundleWorker();
minifyClient();
compressBundles();

/**
 * Writes the files of a page to dist/assets, and the page with their names.
 * @param {string} page
 * @param {string[]} entries
 */
function bundle(page, entries) {
  const { metafile } = buildSync({
    entryPoints: Object.fromEntries(entries.map((path) => [nameOf(path), join(ROOT, path)])),
    outdir: join(DIST, 'assets'),
    entryNames: '[name]-[hash]',
    chunkNames: '[name]-[hash]',
    bundle: true,
    splitting: true,
    minify: true,
    format: 'esm',
    target: ['es2022', 'safari15.4'],
    legalComments: 'eof',
    metafile: true,
    absWorkingDir: ROOT,
    logLevel: 'warning',
  });
  const files = new Map(
    Object.entries(metafile.outputs).flatMap(([path, { entryPoint }]) =>
      entryPoint ? [[entryPoint, basename(path)]] : [],
    ),
  );
  const html = readFileSync(join(ROOT, page), 'utf8').replace(/"\/assets\/(pages\/[^"]+)"/g, (_, path) => {
    const file = files.get(path.replace(/\.js$/, '.ts'));
    if (!file) throw new Error(`${page} names ${path}, which is not among its entries`);
    return `"/assets/${file}"`;
  });
  // The modules of the page are in its bundle.
  rmSync(join(DIST, dirname(page)), { recursive: true, force: true });
  mkdirSync(join(DIST, dirname(page)), { recursive: true });
  writeFileSync(join(DIST, page), html);
}

/** The service worker of the sale page. Its name stays the same, because browsers look for a new version under it. */
function bundleWorker() {
  buildSync({
    entryPoints: [join(ROOT, 'pages/sale/push-worker.ts')],
    outfile: join(DIST, 'pages/sale/push-worker.js'),
    bundle: true,
    minify: true,
    format: 'iife',
    target: ['es2022', 'safari15.4'],
    absWorkingDir: ROOT,
    logLevel: 'warning',
  });
}

/** Writes the Brotli form of each bundle beside it: it takes long, so the API does not make it at each start. */
function compressBundles() {
  const folder = join(DIST, 'assets');
  for (const name of readdirSync(folder).filter((file) => /\.(?:js|css)$/.test(file))) {
    const body = readFileSync(join(folder, name));
    const params = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY };
    writeFileSync(join(folder, `${name}.br`), brotliCompressSync(body, { params }));
  }
}

/** `pages/sale/main.ts` → `sale` @param {string} path */
function nameOf(path) {
  return basename(dirname(path)) + (path.endsWith('.css') ? '-styles' : '');
}

/** The modules of dist/client, which pages of shops load as they are. */
function minifyClient() {
  // Its users bundle it with React.
  rmSync(join(DIST, 'client/react.js'));
  mkdirSync(join(DIST, 'client/hashes'), { recursive: true });
  for (const name of HASHES) {
    copyFileSync(join(ROOT, 'node_modules/@noble/hashes', name), join(DIST, 'client/hashes', name));
  }
  for (const folder of ['client', 'client/hashes']) {
    for (const name of readdirSync(join(DIST, folder)).filter((file) => file.endsWith('.js'))) {
      const path = join(DIST, folder, name);
      const { code } = minifySync(readFileSync(path, 'utf8'), { module: true, compress: true, mangle: true });
      // Browsers cannot import packages by name.
      writeFileSync(path, code.replaceAll('"@noble/hashes/sha2.js"', '"./hashes/sha2.js"'));
    }
  }
}
