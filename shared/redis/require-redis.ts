import { connectForCommands } from './connections.js';
import { inspectRedis, type RedisRequirements, type RedisSetup } from './redis-requirements.js';
import type { RedisTarget } from './redis-target.js';

const CONNECT_MS = 2_000;

/** Redis is set up in a way that loses promises; the message has one line for each problem, with its remedy. */
export class UnsuitableRedis extends Error {
  override readonly name = 'UnsuitableRedis';
}

/**
 * Looks at Redis once before a process starts. Null when Redis does not answer now: it may be on its way up, and the gate
 * looks again when it is there.
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
