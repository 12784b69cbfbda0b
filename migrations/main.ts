import { readEngineUrls } from '../shared/config/config.js';
import { foreignFormat } from '../shared/domain/format.js';
import { ForeignFormat } from '../shared/errors/faults.js';
import { migrateToLatest } from '../shared/postgres/migrate.js';
import { requireRedisFormat } from '../shared/redis/require-redis.js';

/**
 * `npm run migrate`: makes the schema of an empty DATABASE_URL. Two at once wait for each other. Changes nothing if the
 * database, or a Redis that REDIS_URL names, has data of another format.
 */
const url = process.env.DATABASE_URL;
if (!url) {
  process.stderr.write('DATABASE_URL is missing: the Postgres database to migrate, as postgres://…\n');
  process.exit(1);
}
try {
  if (process.env.REDIS_URL) {
    const { redis, shards } = readEngineUrls();
    await requireRedisFormat(redis, shards);
  }
  const applied = await migrateToLatest(url);
  process.stdout.write(applied.length ? `applied ${applied.join(', ')}\n` : 'the schema is up to date\n');
} catch (error) {
  if (error instanceof ForeignFormat) {
    // `npm start` names the folder of each engine that it runs.
    const { engine, found } = error;
    const ownData = process.env[`DOORBUSTER_OWN_${engine.toUpperCase()}`] ?? null;
    process.stderr.write(`${foreignFormat(engine, found, ownData)}\n`);
  } else {
    process.stderr.write(`the migration failed: ${error instanceof Error ? error.message : error}\n`);
  }
  process.exit(1);
}
