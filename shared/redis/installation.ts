import { ContractError } from '../errors/faults.js';

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
