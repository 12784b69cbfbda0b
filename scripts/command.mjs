// `npm run ledger` and the other commands of operators (commands/): runs one against the engines of the environment,
// else against those that `npm start` runs here.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { dataDirOf, enginesIn } from './own-service.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const [name, ...args] = process.argv.slice(2);
const module = join(ROOT, 'dist/commands', `${name}.js`);
if (!existsSync(module)) {
  process.stderr.write('there is no build yet: `npm start` makes one, and so does `npm run build`\n');
  process.exit(2);
}
const { status } = spawnSync(process.execPath, [module, ...args], {
  stdio: 'inherit',
  env: { ...enginesIn(dataDirOf(ROOT, process.env)), ...process.env },
});
process.exit(status ?? 2);
