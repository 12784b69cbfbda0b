import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import type { EngineUrls } from '../shared/config/config.js';
import { serviceVersion } from '../shared/config/project-root.js';
import { Refused } from '../shared/errors/faults.js';
import { readFormat } from '../shared/postgres/format.js';
import type { Database } from '../shared/postgres/pool.js';
import { COPY_STATEMENT_MS, sizeOf } from './backup/size.js';
import { writeBackup } from './backup/write-backup.js';
import { connectDatabase, engineUrls, runCommand } from './command.js';
import { CommandShards } from './command-shards.js';

const USAGE = `usage: npm run backup -- <folder> [--postgres-only]

Writes all tables of Postgres, as they are at one moment, into a new or empty folder: a compressed file for each table, and manifest.json
with their checksums. The service goes on meanwhile. The files have personal data and codes; only their owner may read them.
An interrupted backup leaves <folder>/.partial, which the next one to the same folder replaces.

Of Redis it has the journal entries that Postgres lacks, so that everything that was promised before is in it, also while no worker runs.
The rest of Redis is filled from Postgres.

  --postgres-only   while Redis is away: without these entries. What was promised and not written to Postgres is missing

Restore: npm run restore -- <folder>. More: docs/runbook.md, "Backup and restore".

Exit code 0 when done, 1 when refused, 2 when it failed. REDIS_URL and DATABASE_URL name the engines; without them those of
\`npm start\`.
`;

await runCommand({
  usage: USAGE,
  parse(args) {
    const { positionals, values } = parseArgs({
      args,
      allowPositionals: true,
      options: { 'postgres-only': { type: 'boolean', default: false } },
    });
    const [folder = '', ...more] = positionals;
    if (folder === '' || more.length > 0) return null;
    return { folder: resolve(folder), postgresOnly: values['postgres-only'] };
  },
  async run({ folder, postgresOnly }, terminal) {
    terminal.failed = 'no backup was written';
    const urls = engineUrls();
    const database = connectDatabase('backup', urls.databaseUrl, COPY_STATEMENT_MS, 2);
    let shards: CommandShards | null = null;
    try {
      const start = performance.now();
      if (!postgresOnly) shards = await openShards(urls, database);
      const manifest = await writeBackup(database, shards, folder, serviceVersion(), ({ name, rows, bytes }) =>
        terminal.print(`${String(rows).padStart(12)} rows  ${sizeOf(bytes).padStart(9)}  ${name}`),
      );
      const bytes = manifest.tables.reduce((sum, table) => sum + table.bytes, 0);
      const seconds = ((performance.now() - start) / 1000).toFixed(1);
      terminal.print(`Backup of ${sizeOf(bytes)} written to ${folder} in ${seconds} s.`);
      return 0;
    } finally {
      shards?.close();
      await database.close();
    }
  },
});

/** Connects to all shards, or to none if the database has no schema. @throws Refused when Redis cannot be reached */
async function openShards({ redis }: EngineUrls, database: Database): Promise<CommandShards | null> {
  if ((await readFormat(database)) === null) return null;
  const shards = await CommandShards.of(redis, database, { commandMs: COPY_STATEMENT_MS });
  try {
    for (let index = 0; index < shards.map.count; index += 1) await shards.open(index);
    return shards;
  } catch (error) {
    shards.close();
    const reason = error instanceof Error ? error.message : String(error);
    throw new Refused(
      `Redis cannot be reached (${reason}), so that it is not known what Postgres lacks; --postgres-only`,
    );
  }
}
