// The last step of `npm run build`: minifies the files for browsers, and copies those that are not compiled.
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { minifySync } from '@swc/core';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const PAGES = ['pages/sale', 'pages/admin'];
const FOLDERS = ['client', 'client/hashes', ...PAGES];
/** Files of packages that browsers load, with their places below dist/. */
const FILES = {
  'uplot/dist/uPlot.esm.js': 'pages/admin/uplot.js',
  'uplot/dist/uPlot.min.css': 'pages/admin/uplot.css',
  '@noble/hashes/sha2.js': 'client/hashes/sha2.js',
  '@noble/hashes/_md.js': 'client/hashes/_md.js',
  '@noble/hashes/_u64.js': 'client/hashes/_u64.js',
  '@noble/hashes/utils.js': 'client/hashes/utils.js',
};
/** Files of the server that pages share. */
const SHARED = ['shared/domain/phase.js'];
/** Paths of packages for browsers, which cannot import packages by name. @type {Record<string, string>} */
const MODULES = { uplot: 'pages/admin/uplot.js', '@noble/hashes/sha2.js': 'client/hashes/sha2.js' };

for (const [from, to] of Object.entries(FILES)) {
  mkdirSync(join(ROOT, 'dist', dirname(to)), { recursive: true });
  copyFileSync(join(ROOT, 'node_modules', from), join(ROOT, 'dist', to));
}
const ours = FOLDERS.flatMap((folder) => readdirSync(join(ROOT, 'dist', folder)).map((name) => `${folder}/${name}`));
for (const file of [...ours.filter((name) => name.endsWith('.js')), ...SHARED]) {
  const path = join(ROOT, 'dist', file);
  const { code } = minifySync(readFileSync(path, 'utf8'), { module: true, compress: true, mangle: true });
  writeFileSync(path, withPaths(code, dirname(file)));
}
for (const folder of PAGES) {
  for (const name of readdirSync(join(ROOT, folder)).filter((file) => /\.(html|css)$/.test(file))) {
    copyFileSync(join(ROOT, folder, name), join(ROOT, 'dist', folder, name));
  }
}

/** @param {string} code without comments @param {string} folder that it lies in */
function withPaths(code, folder) {
  return code.replace(
    /\b(from ?|import\()["']([\w@][^"']*)["']/g,
    (_, /** @type {string} */ before, /** @type {string} */ name) => {
      const found = MODULES[name];
      if (!found) throw new Error(`no browser can load ${name}`);
      return `${before}"./${posix.relative(folder, found)}"`;
    },
  );
}
