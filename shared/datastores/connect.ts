import type { Config } from '../config/config.js';
import { LIMITS } from '../config/limits.js';
import { ForeignFormat, Refused } from '../errors/faults.js';
import type { Lifecycle } from '../observability/lifecycle.js';
import type { Log } from '../observability/log.js';
import { requireFormat } from '../postgres/format.js';
import { Database, type PoolOptions } from '../postgres/pool.js';
import { requireRedis } from '../redis/require-redis.js';

/** Opens a pool of connections to Postgres that is closed when the process stops. Default of `url`: DATABASE_URL. */
export type OpenPool = (
  options: Pick<PoolOptions, 'name' | 'connections' | 'statementMs'> & Partial<Pick<PoolOptions, 'onError' | 'url'>>,
) => Database;

/**
 * Checks the engines before a process starts, as far as they are reachable.
 * @param inspect checks more in Postgres; it may throw Refused
 * @throws UnsuitableRedis when Redis is configured in a way that loses promises, or has data of another format
 * @throws ForeignFormat when Postgres has data of another format · Refused
 */
export async function inspectEngines(config: Config, log: Log, inspect: Inspect = async () => {}): Promise<void> {
  const [found] = await Promise.all([requireRedis(config.redis, config), inspectPostgres(config.databaseUrl, inspect)]);
  if (found) log.info({ protection: found.protection }, found.summary);
  for (const warning of found?.warnings ?? []) log.warn(warning);
}

type Inspect = (database: Database) => Promise<void>;

/** Checks the database, if Postgres is reachable. @throws ForeignFormat · Refused */
async function inspectPostgres(url: string, inspect: Inspect): Promise<void> {
  const database = new Database({
    ...{ url, name: 'doorbuster-format', connections: 1, statementMs: LIMITS.postgres.connectMs },
    ...{ connectMs: LIMITS.postgres.connectMs, onError: () => {} },
  });
  try {
    await requireFormat(database);
    await inspect(database);
  } catch (error) {
    if (error instanceof ForeignFormat || error instanceof Refused) throw error;
  } finally {
    await database.close();
  }
}

/**
 * Provides pools of connections to Postgres, which does not have to be reachable yet. They are closed after all parts
 * that are registered later have stopped.
 * @param connectMs how long one connection may take
 */
export function connectPostgres(config: Config, life: Lifecycle, connectMs: number): OpenPool {
  const pools: Database[] = [];
  life.add('connections to Postgres', {
    // All pools are closed in parallel, because each waits for its running statements.
    stop: async () => void (await Promise.all(pools.map((pool) => pool.close()))),
  });
  return (options) => {
    const pool = new Database({
      onError: () => {},
      url: config.databaseUrl,
      ...options,
      connectMs,
    });
    pools.push(pool);
    return pool;
  };
}
