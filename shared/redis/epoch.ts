import type { Redis } from 'ioredis';
import { FORMAT } from '../domain/format.js';
import { ContractError } from '../errors/faults.js';
import { keys } from './keys.js';

/**
 * The history that a Redis server continues. A history ends when the lineage of the server changes: after a restart, a
 * failover, a restore or a refill. `generation` numbers the histories of an installation and only grows; `server` is
 * the `master_replid` of the server that was verified when the history began.
 */
export type Epoch = { generation: number; server: string };

/**
 * Reads the epoch; null = Redis is empty or being filled. The epoch is written last, so a server with an epoch contains
 * everything that was acknowledged in its history.
 */
export async function readEpoch(redis: Redis): Promise<Epoch | null> {
  const text = await redis.get(keys.epoch);
  return text === null ? null : decodeEpoch(text);
}

/** Writes the epoch, which puts a filled Redis into service. */
export async function writeEpoch(redis: Redis, epoch: Epoch): Promise<void> {
  await redis.mset(keys.format, FORMAT, keys.epoch, encodeEpoch(epoch));
}

/** Removes the epoch, which takes Redis out of service until it is filled. */
export async function removeEpoch(redis: Redis): Promise<void> {
  await redis.del(keys.epoch);
}

/** Returns an epoch in the format that lua/includes/generation.lua reads: `generation|server`. */
export function encodeEpoch({ generation, server }: Epoch): string {
  return `${generation}|${server}`;
}

/** Parses `generation|server`. @throws ContractError */
export function decodeEpoch(text: string): Epoch {
  const match = /^(\d{1,15})\|(.*)$/.exec(text);
  if (!match) throw new ContractError(`the epoch is malformed: ${text}`);
  return { generation: Number(match[1]), server: String(match[2]) };
}
