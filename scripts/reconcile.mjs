// `npm run reconcile -- --after-restore`: repairs Postgres from Redis after it was set back (shared/restore-postgres).
import { runServiceCommand } from './service-command.mjs';

const USAGE = `usage: npm run reconcile -- --after-restore [--dry-run]

Writes to Postgres what it lacks of the sale in Redis, after a restore from a backup or a failover to a standby without the
last commits. The sale goes on meanwhile. Prints for each campaign what is missing, writes it page by page, and ends with the
verdict of the ledger. A worker writes what the journal still has. It can be interrupted and repeated.

  --dry-run   prints what is missing and changes nothing

Exit code 0 when nothing is lost or drifted afterwards (with --dry-run: when nothing is missing), 1 otherwise, 2 when it
could not be done. REDIS_URL and DATABASE_URL name the engines; without them those of \`npm start\`.
`;

runServiceCommand('shared/restore-postgres/main.js', USAGE);
