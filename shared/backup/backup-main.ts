import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { readEngineUrls } from '../config/config.js';
import { LIMITS } from '../config/limits.js';
import { serviceVersion } from '../config/project-root.js';
import { Database } from '../postgres/pool.js';
import { COPY_STATEMENT_MS, endWithReason, sizeOf } from './command.js';
import { writeBackup } from './write-backup.js';

/** `npm run backup -- <folder>`: see scripts/backup.mjs. */
const [given = ''] = parseArgs({ allowPositionals: true }).positionals;
const folder = resolve(given);
const print = (line: string) => process.stdout.write(`${line}\n`);
let database: Database | null = null;
try {
  const { databaseUrl } = readEngineUrls();
  database = new Database({
    url: databaseUrl,
    name: 'doorbuster-backup',
    connections: 1,
    statementMs: COPY_STATEMENT_MS,
    connectMs: LIMITS.commandConnectMs,
    onError: () => {},
  });
  const start = performance.now();
  const manifest = await writeBackup(database, folder, serviceVersion(), ({ name, rows, bytes }) =>
    print(`${String(rows).padStart(12)} rows  ${sizeOf(bytes).padStart(9)}  ${name}`),
  );
  const bytes = manifest.tables.reduce((sum, table) => sum + table.bytes, 0);
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  print(`Backup of ${sizeOf(bytes)} written to ${folder} in ${seconds} s.`);
} catch (error) {
  endWithReason('no backup was written', error);
} finally {
  await database?.close();
}
// The driver keeps a timer for each COPY until its time limit, although the COPY has ended.
process.exit();
