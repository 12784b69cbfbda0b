import { connectForCommands } from './connections.js';
import { shapeProblems } from './shape.js';

const CONNECT_MS = 2_000;

/**
 * Looks at Redis once before a process starts. @returns what is wrong with it; empty also when it does not answer now, since
 * it may be on its way up: the gate looks again when it is there.
 */
export async function shapeProblemsAtStart(url: string, production: boolean): Promise<string[]> {
  const redis = connectForCommands(url, { commandMs: CONNECT_MS, connectMs: CONNECT_MS }, () => {});
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
