// `npm run partitions`: the partitions of the table redemptions (shared/partitions). Engines come from the environment,
// else from a service that `npm start` runs here.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { dataDirOf, enginesIn } from './own-service.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const MAIN = join(ROOT, 'dist/shared/partitions/main.js');
const args = process.argv.slice(2);

const USAGE = `usage: npm run partitions                                    lists the partitions
       npm run partitions -- add <product_id>               gives a campaign without reservations its own partition
       npm run partitions -- drop <product_id> [--yes]      drops the reservations of a closed campaign

A campaign with its own partition can be dropped in a second, however many reservations it has. Without --yes, drop prints
what it would do. It refuses campaigns that are not closed and archived, or that have events to send. docs/postgres.md.

Exit code 0 when done, 1 when refused, 2 when it failed. REDIS_URL and DATABASE_URL name the engines; without them those of
\`npm start\`.
`;
if (args.includes('--help') || args.includes('-h')) {
  process.stdout.write(USAGE);
  process.exit(0);
}
const [action = 'list', product, ...flags] = args;
const takesProduct = action === 'add' || action === 'drop';
const isUsable = takesProduct
  ? product !== undefined && flags.every((flag) => action === 'drop' && flag === '--yes')
  : action === 'list' && product === undefined;
if (!isUsable) {
  process.stderr.write(USAGE);
  process.exit(2);
}
if (!existsSync(MAIN)) {
  process.stderr.write('there is no build yet: `npm start` makes one, and so does `npm run build`\n');
  process.exit(2);
}
const { status } = spawnSync(process.execPath, [MAIN, ...args], {
  stdio: 'inherit',
  env: { ...enginesIn(dataDirOf(ROOT, process.env)), ...process.env },
});
process.exit(status ?? 2);
