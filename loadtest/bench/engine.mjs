// Starts a Redis for benchmarks, and reads its figures.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findRedisServer, startRedis } from '../../scripts/engines/redis.mjs';

/**
 * Starts a Redis that writes to disk before it replies, as production must.
 * @param {{ under?: string, args?: string[] }} [options] under: a command that runs the server; args: further ones of
 *   the server
 * @returns {Promise<{ url: string, pid: number, stop: () => Promise<void> }>}
 */
export async function startEngine({ under, args = [] } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'doorbuster-redis-'));
  let binary = await findRedisServer({});
  if (under !== undefined) {
    const command = `#!/bin/sh\nexec ${under} '${binary}' "$@"\n`;
    binary = join(folder, 'redis-server');
    writeFileSync(binary, command, { mode: 0o700 });
  }
  const redis = await startRedis({ binary, dataDir: join(folder, 'data'), extraArgs: args });
  return {
    url: redis.url,
    pid: redis.pid,
    stop: async () => {
      await redis.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** @param {import('ioredis').Redis} redis @returns {Promise<number>} */
export async function usedBytes(redis) {
  return Number(/used_memory:(\d+)/.exec(await redis.info('memory'))?.[1]);
}

/** Waits until the journal is empty, so that Postgres has all promises. @param {import('ioredis').Redis} redis */
export async function untilWritten(redis) {
  while ((await redis.xlen('db1:journal')) > 0) await new Promise((resolve) => setTimeout(resolve, 5));
}

/**
 * Waits until `count` events have been appended to the stream of events. @param {import('ioredis').Redis} redis @param
 * {number} [count]
 * @returns {Promise<number>} how many have
 */
export async function untilPublished(redis, count = 0) {
  for (;;) {
    const added = await eventsAdded(redis);
    if (added >= count) return added;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** @param {import('ioredis').Redis} redis @returns {Promise<number>} events that were ever appended */
async function eventsAdded(redis) {
  if ((await redis.exists('db1:events')) === 0) return 0;
  const facts = /** @type {unknown[]} */ (await redis.call('XINFO', 'STREAM', 'db1:events'));
  return Number(facts[facts.indexOf('entries-added') + 1]);
}

/**
 * Empties the stream of events, which continues after its last id. The stream has a limit of its own, and its size in
 * Redis is an estimate.
 * @param {import('ioredis').Redis} redis
 * @returns how many it had
 */
export async function withoutEvents(redis) {
  const entries = await redis.xlen('db1:events');
  await redis.xtrim('db1:events', 'MAXLEN', 0);
  return entries;
}
