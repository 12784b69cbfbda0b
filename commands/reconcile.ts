import { parseArgs } from 'node:util';
import { engineUrls, runCommand } from './command.js';
import { repairAfterRestore } from './reconcile/after-restore.js';

const USAGE = `usage: npm run reconcile -- --after-restore [--dry-run]

Writes to Postgres what it lacks of the sale in Redis, after a restore from a backup or a failover to a standby without the
last commits. The sale goes on meanwhile. Prints for each campaign what is missing, writes it page by page, and ends with the
verdict of the ledger. A worker writes what the journal still has. It can be interrupted and repeated.

  --dry-run   prints what is missing and changes nothing

Exit code 0 when nothing is lost or drifted afterwards (with --dry-run: when nothing is missing), 1 otherwise, 2 when it
could not be done. REDIS_URL and DATABASE_URL name the engines; without them those of \`npm start\`.
`;

await runCommand({
  usage: USAGE,
  parse(args) {
    const { values } = parseArgs({
      args,
      options: { 'after-restore': { type: 'boolean' }, 'dry-run': { type: 'boolean', default: false } },
    });
    return values['after-restore'] ? { dryRun: values['dry-run'] } : null;
  },
  async run(options, terminal) {
    terminal.failed = 'nothing was written';
    return repairAfterRestore(engineUrls(), options, terminal);
  },
});
