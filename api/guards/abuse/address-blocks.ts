import { LRUCache } from 'lru-cache';
import { RateLimiterMemory, RateLimiterRedis } from 'rate-limiter-flexible';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import { keys } from '../../../shared/redis/keys.js';
import type { CallerShards } from '../../../shared/shards/shards.js';
import { once } from '../limits/once.js';

const MINUTE_SECONDS = 60;
/** How long an address that has sent too many claims in a minute is blocked. */
const BLOCK_MS = 3_600_000;
/** Blocked networks that a process remembers, so that their claims cost no round trip for the block. */
const BLOCKED_KEPT = 10_000;
/** The counts have no limit of their own; the campaign has one. */
const UNLIMITED = { points: Number.MAX_SAFE_INTEGER, duration: MINUTE_SECONDS };

/** A claim of a network in a campaign. `blockedMs`: for how long the network is blocked there; 0 = it is not. */
export type CountedClaim = { blockedMs: number; inMinute: number; giveBack: () => void };

/**
 * Counts the claims of each network in a campaign, and blocks networks for an hour, in that campaign alone. Checkouts
 * and redemptions count together. Counts and blocks are in Redis. While the shard of a network is away, each process
 * counts by itself if there are several shards.
 */
export class AddressBlocks {
  /** By shard. */
  readonly #counts: readonly RateLimiterRedis[];
  readonly #countsInProcess = new RateLimiterMemory(UNLIMITED);
  readonly #blocked = new LRUCache<string, true>({ max: BLOCKED_KEPT });

  constructor(readonly shards: CallerShards) {
    this.#counts = shards.all.map(
      ({ commands }) =>
        new RateLimiterRedis({ storeClient: commands, keyPrefix: keys.quota('strict-address'), ...UNLIMITED }),
    );
  }

  /** Counts a claim, unless the network is known to be blocked. @throws EngineUnavailable */
  async count(product: string, network: string): Promise<CountedClaim> {
    const caller = `${product}|${network}`;
    const knownMs = this.#blocked.getRemainingTTL(caller);
    if (knownMs > 0) return { blockedMs: knownMs, inMinute: 0, giveBack: () => {} };
    const { index, gate, commands } = this.shards.spread(caller);
    const counts = this.#counts[index] as RateLimiterRedis;
    try {
      const [leftMs, { consumedPoints }] = await gate.guard(() =>
        Promise.all([commands.pttl(keys.addressBlock(caller)), counts.consume(caller)]),
      );
      if (leftMs > 0) this.#blocked.set(caller, true, { ttl: leftMs });
      return { blockedMs: Math.max(0, leftMs), inMinute: consumedPoints, giveBack: uncounting(counts, caller) };
    } catch (error) {
      if (this.shards.all.length === 1) throw EngineUnavailable.from('redis', error);
      const counted = this.#countsInProcess;
      const { consumedPoints } = await counted.consume(caller);
      return { blockedMs: 0, inMinute: consumedPoints, giveBack: uncounting(counted, caller) };
    }
  }

  /** Blocks a network. @returns for how long, milliseconds */
  async block(product: string, network: string): Promise<number> {
    const caller = `${product}|${network}`;
    this.#blocked.set(caller, true, { ttl: BLOCK_MS });
    const { gate, commands } = this.shards.spread(caller);
    await gate
      .guard(() => commands.set(keys.addressBlock(caller), '1', 'PX', BLOCK_MS))
      .catch(() => {
        // This process remembers it; the others block the network by its next claims.
      });
    return BLOCK_MS;
  }
}

/** Returns what uncounts a claim, once, in the background. */
function uncounting(counts: Pick<RateLimiterRedis, 'reward'>, caller: string): () => void {
  return once(() => {
    counts.reward(caller).catch(() => {
      // The count expires with its minute.
    });
  });
}
