import { connectForCommands } from './connections.js';
import type { RedisTarget } from './redis-target.js';
import { shapeProblems } from './shape.js';

const CONNECT_MS = 2_000;

/** Redis is set up in a way in which promises would be lost; the message has a line for each remedy. */
export class WrongShape extends Error {
  override readonly name = 'WrongShape';
}

/**
 * Looks at Redis once before a process starts. One that does not answer now passes, since it may be on its way up: the
 * gate looks again when it is there.
 * @throws WrongShape
 */
export async function requireShape(target: RedisTarget, production: boolean): Promise<void> {
  const problems = await problemsOf(target, production);
  if (problems.length > 0) throw new WrongShape(problems.join('\n'));
}

async function problemsOf(target: RedisTarget, production: boolean): Promise<string[]> {
  const redis = connectForCommands(target, { commandMs: CONNECT_MS, connectMs: CONNECT_MS }, () => {});
  try {
    await new Promise<void>((resolve, reject) => {
      redis.once('ready', resolve);
      redis.once('error', reject);
    });
    return await shapeProblems(redis, production);
  } catch {
    return [];
  } finally {
    redis.disconnect();
  }
}
