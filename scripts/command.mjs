// `npm run ledger` and the other commands of operators (commands/): runs one against the engines of the environment,
// else against those that `npm start` runs here.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { constants } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { dataDirOf, enginesIn } from './own-service.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const [name, ...args] = process.argv.slice(2);
const module = join(ROOT, 'dist/commands', `${name}.js`);
if (!existsSync(module)) {
  process.stderr.write('there is no build, or it is being made: `npm start` makes one, and so does `npm run build`\n');
  process.exit(2);
}
const command = spawn(process.execPath, [module, ...args], {
  stdio: 'inherit',
  env: { ...enginesIn(dataDirOf(ROOT, process.env)), ...process.env },
});
// A signal to this process is meant for the command.
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP']))
  process.on(signal, () => command.kill(signal));
command.on('exit', (code, signal) => process.exit(code ?? (signal ? 128 + constants.signals[signal] : 2)));
