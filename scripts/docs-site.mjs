// `npm run docs:site`: builds the site of the documents into docs-site/dist, with search. Gets the packages of the
// generator on first use, since nothing else needs them.
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installPackages, isInstalled } from './install.mjs';
import { createTerminal } from './terminal.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const SITE = join(ROOT, 'docs-site');
const USAGE = `usage: npm run docs:site [-- dev | preview]

Builds the documents as a site into docs-site/dist: static files for any web server, under the root of a host. With \`dev\` it
serves them on this machine and follows changes. With \`preview\` it serves what was built.
`;

const args = process.argv.slice(2);
const command = args[0] ?? 'build';
if (args.length > 1 || !['build', 'dev', 'preview'].includes(command)) {
  const asked = args.includes('--help') || args.includes('-h');
  process[asked ? 'stdout' : 'stderr'].write(USAGE);
  process.exit(asked ? 0 : 2);
}
const terminal = createTerminal();
try {
  if (!isInstalled(SITE))
    await terminal.step(
      'installing the generator',
      () => installPackages(SITE),
      () => 'installed the generator',
    );
} catch (error) {
  terminal.explain(error);
  process.exit(1);
}
const vitepress = join(SITE, 'node_modules/vitepress/bin/vitepress.js');
const { status } = spawnSync(process.execPath, [vitepress, command, SITE], { stdio: 'inherit' });
if (status === 0 && command === 'build') {
  const built = process.env.DOCS_SITE_OUT ?? join(SITE, 'dist');
  process.stdout.write(
    `\nThe site is in ${built}, for any web server.\nLook at it here: npm run docs:site -- preview\n`,
  );
}
process.exit(status ?? 1);
