import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { readEngineUrls } from '../config/config.js';
import { LIMITS } from '../config/limits.js';
import { readFormat, requireFormat } from '../postgres/format.js';
import { raiseMapVersion } from '../postgres/installation.js';
import { migrateToLatest } from '../postgres/migrate.js';
import { Database } from '../postgres/pool.js';
import { COPY_STATEMENT_MS, endWithReason } from './command.js';
import { readManifest } from './manifest.js';
import { type RedisChoice, RedisOfRestore } from './redis-of-restore.js';
import { RestoreRefused, readContents, restoreDatabase } from './restore-database.js';

/** `npm run restore -- <folder>`: see scripts/restore.mjs. */
const {
  values: { replace, redis: choice },
  positionals: [given = ''],
} = parseArgs({
  allowPositionals: true,
  options: {
    replace: { type: 'boolean', default: false },
    redis: { type: 'string' },
  },
});
const folder = resolve(given);
const print = (line: string) => process.stdout.write(`${line}\n`);

let failed = 'nothing was restored';
const open: { close(): Promise<void> | void }[] = [];
try {
  const { redis: target, databaseUrl } = readEngineUrls();
  const manifest = await readManifest(folder);
  print(`Backup of ${manifest.created_at}, by version ${manifest.service_version}; its files are whole.`);
  const database = new Database({
    url: databaseUrl,
    name: 'doorbuster-restore',
    connections: 3,
    statementMs: COPY_STATEMENT_MS,
    connectMs: LIMITS.commandConnectMs,
    onError: () => {},
  });
  open.push(database);
  await prepareSchema(database, databaseUrl);
  const redis = await RedisOfRestore.open(target, database);
  open.push(redis);
  redis.refuseWithout(choice as RedisChoice | undefined);
  await restoreDatabase(database, folder, manifest, (name, rows) =>
    print(`${String(rows).padStart(12)} rows  ${name}`),
  );
  failed = 'Postgres was restored, but the rest failed; repeat the command with --replace';
  print('Postgres was restored.');
  process.exitCode = await finish(redis);
} catch (error) {
  endWithReason(failed, error);
} finally {
  for (const one of open) await one.close();
}

// The driver keeps a timer for each COPY until its time limit, although the COPY has ended.
process.exit();

/** Gives an empty database its schema. @throws RestoreRefused · ForeignFormat */
async function prepareSchema(database: Database, databaseUrl: string): Promise<void> {
  if ((await readFormat(database)) === null) {
    await migrateToLatest(databaseUrl);
    print('The empty database got its schema.');
    return;
  }
  await requireFormat(database);
  const { campaigns, reservations } = await readContents(database);
  if (campaigns > 0 && !replace) {
    throw new RestoreRefused(
      `the database has ${campaigns} campaigns and ${reservations} reservations; --replace deletes them first`,
    );
  }
}

/** Makes Redis and Postgres agree, and prints the verdict of the ledger. @returns the exit code */
async function finish(redis: RedisOfRestore): Promise<number> {
  // Running processes may have a later map of campaigns than the backup, which Redis does not prove any more.
  if (redis.shards.map.count > 1 && (!redis.hasData || choice === 'discard')) await raiseMapVersion(redis.database);
  if (!redis.hasData) {
    print('Redis is empty: a worker fills it from Postgres when it runs.');
  } else if (choice === 'discard') {
    await redis.discard();
    print('Redis was emptied: a worker fills it from Postgres, as a new history.');
  } else {
    print('What happened after the backup is taken from Redis:\n');
    const repair = fileURLToPath(new URL('../restore-postgres/main.js', import.meta.url));
    return spawnSync(process.execPath, [repair, '--after-restore'], { stdio: 'inherit' }).status ?? 2;
  }
  if (!(await redis.waitUntilFilled(print))) {
    print('No worker runs. Start one, then compare: npm run ledger -- <product_id>');
    return 0;
  }
  return redis.judge(print);
}
