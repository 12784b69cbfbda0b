// Runs a command of the build against the engines of the environment, else against those that `npm start` runs here.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { dataDirOf, enginesIn } from './own-service.mjs';
import { helpOrGoOn } from './usage.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

/**
 * Prints the usage for `--help`, else runs the command and ends with its exit code.
 * @param {string} main the command's module, a path inside dist/
 * @param {string} usage
 * @param {(args: string[]) => boolean} [isUsable] false for arguments that end in the usage and exit code 2
 */
export function runServiceCommand(main, usage, isUsable = () => true) {
  helpOrGoOn(usage);
  const args = process.argv.slice(2);
  if (!isUsable(args)) {
    process.stderr.write(usage);
    process.exit(2);
  }
  const module = join(ROOT, 'dist', main);
  if (!existsSync(module)) {
    process.stderr.write('there is no build yet: `npm start` makes one, and so does `npm run build`\n');
    process.exit(2);
  }
  const { status } = spawnSync(process.execPath, [module, ...args], {
    stdio: 'inherit',
    env: { ...enginesIn(dataDirOf(ROOT, process.env)), ...process.env },
  });
  process.exit(status ?? 2);
}
