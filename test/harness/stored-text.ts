import type { Redis } from 'ioredis';
import type pg from 'pg';
import { keyNames } from './key-names.js';

/** Every place in Postgres whose rows contain a text: table → number of rows. */
export async function tablesWith(client: pg.Client, text: string): Promise<Record<string, number>> {
  const { rows: tables } = await client.query<{ name: string }>(
    `select c.relname as name from pg_class c where c.relnamespace = 'public'::regnamespace
       and c.relkind in ('r', 'p') and not c.relispartition`,
  );
  const found: Record<string, number> = {};
  for (const { name } of tables) {
    const { rows } = await client.query(`select count(*)::int as rows from "${name}" t where strpos(t::text, $1) > 0`, [
      text,
    ]);
    if (rows[0].rows > 0) found[name] = rows[0].rows;
  }
  return found;
}

/** Every key in Redis whose name or value contains a text. */
export async function keysWith(redis: Redis, text: string): Promise<string[]> {
  const found: string[] = [];
  for (const name of await keyNames(redis)) {
    const value = await contentOf(redis, name);
    if (`${name} ${JSON.stringify(value)}`.includes(text)) found.push(name);
  }
  return found.sort();
}

async function contentOf(redis: Redis, name: string): Promise<unknown> {
  switch (await redis.type(name)) {
    case 'string':
      return redis.get(name);
    case 'hash':
      return redis.hgetall(name);
    case 'list':
      return redis.lrange(name, 0, -1);
    case 'set':
      return redis.smembers(name);
    case 'zset':
      return redis.zrange(name, '0', '-1');
    case 'stream':
      return redis.xrange(name, '-', '+');
    default:
      return null;
  }
}

/** They expire with the idempotency records, at the latest a day after the user was last seen, or within a minute. */
const EXPIRES = /^db1:(r:\d|q:|f:|w:|t:)/;

/** Keys of Redis with a text, but for those that expire. */
export async function keptWith(redis: Redis, text: string): Promise<string[]> {
  return (await keysWith(redis, text)).filter((name) => !EXPIRES.test(name));
}
