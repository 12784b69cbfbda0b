// `npm run reconcile -- --after-restore`: repairs Postgres from Redis after it was set back (shared/restore-postgres).
// Engines come from the environment, else from a service that `npm start` runs here.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { dataDirOf, enginesIn } from './own-service.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const MAIN = join(ROOT, 'dist/shared/restore-postgres/main.js');
const args = process.argv.slice(2);

if (args.includes('--help') || args.includes('-h')) {
  process.stdout.write(`usage: npm run reconcile -- --after-restore [--dry-run]

Writes to Postgres what it lacks of the sale in Redis, after a restore from a backup or a failover to a standby without the
last commits. The sale goes on meanwhile. Prints for each campaign what is missing, writes it in one transaction, and ends
with the verdict of the ledger. It can be interrupted and repeated.

  --dry-run   prints what is missing and changes nothing

Exit code 0 when nothing is lost or drifted afterwards (with --dry-run: when nothing is missing), 1 otherwise, 2 when it
could not be done. REDIS_URL and DATABASE_URL name the engines; without them those of \`npm start\`.
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
