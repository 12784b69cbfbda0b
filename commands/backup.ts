import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { serviceVersion } from '../shared/config/project-root.js';
import { COPY_STATEMENT_MS, sizeOf } from './backup/size.js';
import { writeBackup } from './backup/write-backup.js';
import { connectDatabase, engineUrls, runCommand } from './command.js';

const USAGE = `usage: npm run backup -- <folder>

Writes all tables of Postgres, as they are at one moment, into a new or empty folder: a compressed file for each table, and manifest.json
with their checksums. The service goes on meanwhile. The files have personal data and codes; only their owner may read them.
An interrupted backup leaves <folder>/.partial, which the next one to the same folder replaces.

Redis is not copied. Postgres has everything but the last promises, less than a second of them, and Redis is filled from it.
Restore: npm run restore -- <folder>. More: docs/runbook.md, "Backup and restore".

Exit code 0 when done, 1 when refused, 2 when it failed. REDIS_URL and DATABASE_URL name the engines; without them those of
\`npm start\`.
`;

await runCommand({
  usage: USAGE,
  parse(args) {
    const [folder = '', ...more] = parseArgs({ args, allowPositionals: true }).positionals;
    return folder !== '' && more.length === 0 ? { folder: resolve(folder) } : null;
  },
  async run({ folder }, terminal) {
    terminal.failed = 'no backup was written';
    const database = connectDatabase('backup', engineUrls().databaseUrl, COPY_STATEMENT_MS, 1);
    try {
      const start = performance.now();
      const manifest = await writeBackup(database, folder, serviceVersion(), ({ name, rows, bytes }) =>
        terminal.print(`${String(rows).padStart(12)} rows  ${sizeOf(bytes).padStart(9)}  ${name}`),
      );
      const bytes = manifest.tables.reduce((sum, table) => sum + table.bytes, 0);
      const seconds = ((performance.now() - start) / 1000).toFixed(1);
      terminal.print(`Backup of ${sizeOf(bytes)} written to ${folder} in ${seconds} s.`);
      return 0;
    } finally {
      await database.close();
    }
  },
});
