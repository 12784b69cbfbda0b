// `npm run ledger -- <product_id>`: compares Redis, journal and Postgres (shared/ledger). Engines come from the
// environment, else from a service that `npm start` runs here.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { dataDirOf, enginesIn } from './own-service.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const MAIN = join(ROOT, 'dist/shared/ledger/main.js');
const args = process.argv.slice(2);

if (args.includes('--help') || args.includes('-h')) {
  process.stdout.write(`usage: npm run ledger -- <product_id>

Prints one JSON object: {confirmed, persisted, lost, duplicated, over_cap, drift, …}. Exit code 0 when the last four are 0, 1 when
one is not, 2 when nothing could be compared. REDIS_URL and DATABASE_URL name the engines; without them those of \`npm start\`.
`);
  process.exit(0);
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
