import { connectForCommands } from './connections.js';
import { inspectRedis, type RedisRequirements, type RedisSetup } from './redis-requirements.js';
import type { RedisTarget } from './redis-target.js';

const CONNECT_MS = 2_000;

/** The configuration of Redis could lose promises. The message has one line per problem, with its remedy. */
export class UnsuitableRedis extends Error {
  override readonly name = 'UnsuitableRedis';
}

/**
 * Checks Redis once before a process starts. Returns null if Redis does not reply: it may be starting, and the gate
 * checks it again after the connection.
 * @throws UnsuitableRedis
 */
export async function requireRedis(target: RedisTarget, requirements: RedisRequirements): Promise<RedisSetup | null> {
  const shape = await shapeOf(target, requirements);
  if (shape && shape.problems.length > 0) throw new UnsuitableRedis(shape.problems.join('\n'));
  return shape;
}

async function shapeOf(target: RedisTarget, requirements: RedisRequirements): Promise<RedisSetup | null> {
  const redis = connectForCommands(target, { commandMs: CONNECT_MS, connectMs: CONNECT_MS }, () => {});
  try {
    await new Promise<void>((resolve, reject) => {
      redis.once('ready', resolve);
      redis.once('error', reject);
    });
    return await inspectRedis(redis, requirements);
  } catch {
    return null;
  } finally {
    redis.disconnect();
  }
}
