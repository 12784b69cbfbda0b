// `npm run restore -- <folder>`: restores Postgres from a backup, and makes Redis agree with it (shared/backup).
import { parseArgs } from 'node:util';
import { runServiceCommand } from './service-command.mjs';

const USAGE = `usage: npm run restore -- <folder> [--replace] [--redis keep|discard]

Restores Postgres from a folder of \`npm run backup\`, in one transaction: an interrupted restore has changed nothing
and can be repeated. The files are compared with their checksums first. An empty database gets its schema.

  --replace         the database has campaigns: delete all of its rows first
  --redis keep      take what the backup lacks from Redis, which has the sale up to now (reconcile -- --after-restore)
  --redis discard   empty this Redis database; all since the backup is lost, and a worker fills Redis from Postgres

Without --redis the command refuses while Redis has data. It ends with the ledger's verdict on each campaign.

Exit code 0 when nothing is lost or drifted, 1 when it refused or something is, 2 when it failed. REDIS_URL and DATABASE_URL
name the engines; without them those of \`npm start\`.
`;

runServiceCommand('shared/backup/restore-main.js', USAGE, (args) => {
  try {
    const options = /** @type {const} */ ({ replace: { type: 'boolean' }, redis: { type: 'string' } });
    const { values, positionals } = parseArgs({ args, options, allowPositionals: true });
    return positionals.length === 1 && positionals[0] !== '' && /^(|keep|discard)$/.test(values.redis ?? '');
  } catch {
    return false;
  }
});
