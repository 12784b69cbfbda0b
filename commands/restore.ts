import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import type { EngineUrls } from '../shared/config/config.js';
import { Refused } from '../shared/errors/faults.js';
import { readFormat, requireFormat } from '../shared/postgres/format.js';
import { raiseMapVersion } from '../shared/postgres/installation.js';
import { migrateToLatest } from '../shared/postgres/migrate.js';
import type { Database } from '../shared/postgres/pool.js';
import { readManifest } from './backup/manifest.js';
import { type RedisChoice, RedisOfRestore } from './backup/redis-of-restore.js';
import { readContents, restoreDatabase } from './backup/restore-database.js';
import { COPY_STATEMENT_MS } from './backup/size.js';
import { connectDatabase, engineUrls, runCommand, type Terminal } from './command.js';
import { repairAfterRestore } from './reconcile/after-restore.js';

const USAGE = `usage: npm run restore -- <folder> [--replace] [--redis keep|discard]

Restores Postgres from a folder of \`npm run backup\`, in one transaction: an interrupted restore has changed nothing
and can be repeated. The files are compared with their checksums first. An empty database gets its schema.

  --replace         the database is not empty: delete all of its rows first
  --redis keep      take what the backup lacks from Redis, which has the sale up to now (reconcile -- --after-restore)
  --redis discard   empty this Redis database; all since the backup is lost, and a worker fills Redis from Postgres

Without --redis the command refuses while Redis has data. It ends with the ledger's verdict on each campaign.

Exit code 0 when nothing is lost or drifted, 1 when it refused or something is, 2 when it failed. REDIS_URL and DATABASE_URL
name the engines; without them those of \`npm start\`.
`;

const UNTIL_WRITTEN =
  'Postgres was restored, but nothing was taken from Redis; repeat: npm run reconcile -- --after-restore';

/** `choice`: undefined = there is none, as long as Redis has no data. */
type Options = { folder: string; replace: boolean; choice: RedisChoice | undefined };

await runCommand<Options>({
  usage: USAGE,
  parse(args) {
    const { values, positionals } = parseArgs({
      args,
      allowPositionals: true,
      options: { replace: { type: 'boolean', default: false }, redis: { type: 'string' } },
    });
    const [folder = '', ...more] = positionals;
    const { replace, redis: choice } = values;
    if (choice !== undefined && choice !== 'keep' && choice !== 'discard')
      throw new TypeError('--redis must be keep or discard');
    if (folder === '' || more.length > 0) return null;
    return { folder: resolve(folder), replace, choice };
  },
  async run(options, terminal) {
    terminal.failed = 'nothing was restored';
    const { print } = terminal;
    const urls = engineUrls();
    const manifest = await readManifest(options.folder);
    print(`Backup of ${manifest.created_at}, by version ${manifest.service_version}; its files are whole.`);
    const database = connectDatabase('restore', urls.databaseUrl, COPY_STATEMENT_MS, 3);
    const open: { close(): Promise<void> | void }[] = [database];
    try {
      await prepareSchema(database, urls.databaseUrl, options, print);
      const redis = await RedisOfRestore.open(urls.redis, database);
      open.push(redis);
      redis.refuseWithout(options.choice);
      await restoreDatabase(database, options.folder, manifest, (name, rows) =>
        print(`${String(rows).padStart(12)} rows  ${name}`),
      );
      terminal.failed = 'Postgres was restored, but the rest failed; repeat the command with --replace';
      print('Postgres was restored.');
      return await finish(redis, urls, options, terminal);
    } finally {
      for (const one of open) await one.close();
    }
  },
});

/** Gives an empty database its schema. @throws Refused · ForeignFormat */
async function prepareSchema(
  database: Database,
  databaseUrl: string,
  { replace }: Options,
  print: Terminal['print'],
): Promise<void> {
  if ((await readFormat(database)) === null) {
    await migrateToLatest(databaseUrl);
    print('The empty database got its schema.');
    return;
  }
  await requireFormat(database);
  const found = Object.entries(await readContents(database)).filter(([, count]) => count > 0);
  if (found.length === 0 || replace) return;
  const what = found.map(([name, count]) => `${name}: ${count}`).join(', ');
  throw new Refused(`the database is not empty (${what}); --replace deletes all of its rows first`);
}

/** Makes Redis and Postgres agree, and prints the verdict of the ledger. @returns the exit code */
async function finish(
  redis: RedisOfRestore,
  urls: EngineUrls,
  { choice }: Options,
  terminal: Terminal,
): Promise<number> {
  const { print } = terminal;
  const { count } = (await redis.shards()).map;
  // Running processes may have a later map of campaigns than the backup, which Redis does not prove any more.
  if (count > 1 && (!redis.hasData || choice === 'discard')) await raiseMapVersion(redis.database);
  if (!redis.hasData) {
    print('Redis is empty: a worker fills it from Postgres when it runs.');
  } else if (choice === 'discard') {
    await redis.discard();
    print('Redis was emptied: a worker fills it from Postgres, as a new history.');
  } else {
    print('What happened after the backup is taken from Redis:\n');
    return repairAfterRestore(urls, { dryRun: false, untilWritten: UNTIL_WRITTEN }, terminal);
  }
  const unfilled = await redis.waitUntilFilled(print);
  if (unfilled === null) return redis.judge(print);
  if (unfilled.workers === 'none') print('No worker runs. Start one, then compare: npm run ledger -- <product_id>');
  else
    print(
      `The backup has ${unfilled.shards} shards, and the workers run with SHARDS=${unfilled.theirs}. Restart APIs and workers ` +
        `with SHARDS=${unfilled.shards}; they fill Redis. Then compare: npm run ledger -- <product_id>`,
    );
  return 0;
}
