// The last step of `npm run build`: what browsers load is made small, and what is not compiled is put beside it.
import { copyFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { minifySync } from '@swc/core';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const FOLDERS = ['client', 'pages/sale'];

for (const folder of FOLDERS) {
  const target = join(ROOT, 'dist', folder);
  for (const name of readdirSync(target).filter((file) => file.endsWith('.js'))) {
    const path = join(target, name);
    const { code } = minifySync(readFileSync(path, 'utf8'), { module: true, compress: true, mangle: true });
    writeFileSync(path, code);
  }
  for (const name of readdirSync(join(ROOT, folder)).filter((file) => /\.(html|css)$/.test(file))) {
    copyFileSync(join(ROOT, folder, name), join(target, name));
  }
}
