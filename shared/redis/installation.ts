import type { Redis } from 'ioredis';
import { ContractError, EngineUnavailable } from '../errors/faults.js';
import { keys } from './keys.js';

/**
 * What a shard of Redis knows of its installation: the number of shards, and the latest version of the map of
 * campaigns. Postgres has both. If it has a lower version than a shard, it was set back (decision 69).
 */
export type Installation = { shards: number; version: number };

/** Parses `shards|version`. @returns null when the shard has none yet. @throws ContractError */
export function decodeInstallation(text: string | null): Installation | null {
  if (text === null) return null;
  const match = /^(\d{1,2})\|(\d{1,15})$/.exec(text);
  if (!match) throw new ContractError(`the installation is malformed: ${text}`);
  return { shards: Number(match[1]), version: Number(match[2]) };
}

/** Reads what a shard keeps, in service or not. @throws EngineUnavailable */
export async function readInstallation(redis: Redis): Promise<Installation | null> {
  try {
    return decodeInstallation(await redis.get(keys.installation));
  } catch (error) {
    throw error instanceof ContractError ? error : EngineUnavailable.from('redis', error);
  }
}
