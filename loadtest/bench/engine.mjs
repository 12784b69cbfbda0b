// What benchmarks ask of the Redis of their stage.

/** @param {import('ioredis').Redis} redis @returns {Promise<number>} */
export async function usedBytes(redis) {
  return Number(/used_memory:(\d+)/.exec(await redis.info('memory'))?.[1]);
}

/** Until the journal is empty: Postgres has everything. @param {import('ioredis').Redis} redis */
export async function untilWritten(redis) {
  while ((await redis.xlen('db1:journal')) > 0) await new Promise((resolve) => setTimeout(resolve, 5));
}

/**
 * Empties the stream of events, which goes on behind its last one: it is bounded by itself, and what Redis says it weighs is an estimate.
 * @param {import('ioredis').Redis} redis
 * @returns how many it had
 */
export async function withoutEvents(redis) {
  const entries = await redis.xlen('db1:events');
  await redis.xtrim('db1:events', 'MAXLEN', 0);
  return entries;
}
