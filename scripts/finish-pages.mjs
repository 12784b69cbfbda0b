// The last step of `npm run build`: what browsers load is made small, and what is not compiled is put beside it.
import { copyFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { minifySync } from '@swc/core';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const FOLDERS = ['client', 'pages/sale', 'pages/admin'];
/** Browsers know no packages: what a page imports by name is put beside it. @type {Record<string, { from: string, to: string }>} */
const PACKAGES = { uplot: { from: 'uplot/dist/uPlot.esm.js', to: 'pages/admin/uplot.js' } };
const STYLES = { 'uplot/dist/uPlot.min.css': 'pages/admin/uplot.css' };

for (const { from, to } of Object.values(PACKAGES))
  copyFileSync(join(ROOT, 'node_modules', from), join(ROOT, 'dist', to));
for (const [from, to] of Object.entries(STYLES)) copyFileSync(join(ROOT, 'node_modules', from), join(ROOT, 'dist', to));
for (const folder of FOLDERS) {
  const target = join(ROOT, 'dist', folder);
  for (const name of readdirSync(target).filter((file) => file.endsWith('.js'))) {
    const path = join(target, name);
    const { code } = minifySync(withAddresses(readFileSync(path, 'utf8')), {
      module: true,
      compress: true,
      mangle: true,
    });
    writeFileSync(path, code);
  }
  for (const name of readdirSync(join(ROOT, folder)).filter((file) => /\.(html|css)$/.test(file))) {
    copyFileSync(join(ROOT, folder, name), join(target, name));
  }
}

/** @param {string} text */
function withAddresses(text) {
  return text.replace(/\bfrom '([\w-]+)'/g, (/** @type {string} */ whole, /** @type {string} */ name) => {
    const found = PACKAGES[name];
    if (!found) throw new Error(`no browser can load ${name}`);
    return whole.replace(name, `/assets/${found.to}`);
  });
}
