// `npm run backup -- <folder>`: writes all tables of Postgres into a folder (shared/backup).
import { runServiceCommand } from './service-command.mjs';

const USAGE = `usage: npm run backup -- <folder>

Writes all tables of Postgres, as they are at one moment, into a new folder: a compressed file for each table, and manifest.json
with their checksums. The service goes on meanwhile. The files have personal data and codes; only their owner may read them.
An interrupted backup leaves <folder>.partial, which the next one with the same name replaces.

Redis is not copied. Postgres has everything but the last promises, less than a second of them, and Redis is filled from it.
Restore: npm run restore -- <folder>. More: docs/runbook.md, "Backup and restore".

Exit code 0 when done, 1 when refused, 2 when it failed. REDIS_URL and DATABASE_URL name the engines; without them those of
\`npm start\`.
`;

runServiceCommand(
  'shared/backup/backup-main.js',
  USAGE,
  ([folder = '', ...others]) => folder !== '' && !folder.startsWith('-') && others.length === 0,
);
