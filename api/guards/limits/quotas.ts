import { LRUCache } from 'lru-cache';
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';
import { Problem } from '../../../shared/errors/catalogue.js';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import { keys } from '../../../shared/redis/keys.js';
import type { CallerShards } from '../../../shared/shards/shards.js';

/**
 * Maximum number of callers over one quota that a process remembers. It evicts the oldest, whose next call asks Redis.
 */
const REFUSED_KEPT = 10_000;

/**
 * A quota of calls per window for one kind of caller. It fails closed unless it is insured, because little can be
 * served without Redis. An exceeded limit (429) is distinct from a failed store (503). The process remembers callers
 * over the quota until their window ends, so that a flood costs no round trips.
 */
export class Quota {
  /** By shard. */
  readonly #limiters: readonly RateLimiterRedis[];
  readonly #insurance: RateLimiterMemory | null;
  /**
   * Callers over the quota, each until its window ends by this process's clock. Created by the first refusal, because
   * it takes 380 KB.
   */
  #over: LRUCache<string, true> | undefined;

  constructor(
    /** Each caller is counted in one of them. */
    readonly shards: CallerShards,
    readonly name: string,
    readonly limit: number,
    readonly windowSeconds: number,
    readonly onLimited: (policy: string) => void = () => {},
    /** Separates the counts of quotas with the same name and different limits. */
    counter = name,
    /** Whether each process counts by itself during an outage of Redis, for calls that can be served without Redis. */
    insured = false,
  ) {
    this.#insurance = insured ? new RateLimiterMemory({ points: limit, duration: windowSeconds }) : null;
    this.#limiters = shards.all.map(
      ({ commands }) =>
        new RateLimiterRedis({
          storeClient: commands,
          keyPrefix: keys.quota(counter),
          points: limit,
          duration: windowSeconds,
          inMemoryBlockOnConsumed: limit + 1,
          ...(this.#insurance ? { insuranceLimiter: this.#insurance } : {}),
        }),
    );
  }

  /**
   * Counts one call. @returns the RateLimit fields as a flat list of headers
   * @throws Problem 429 · EngineUnavailable
   */
  async take(caller: string): Promise<string[]> {
    return (await this.takeCounted(caller)).fields;
  }

  /** As `take`, and also returns the number of calls in this window. */
  async takeCounted(caller: string): Promise<{ fields: string[]; count: number }> {
    try {
      const left = await this.#consume(caller);
      return { fields: this.#fields(left.remainingPoints, left.msBeforeNext), count: left.consumedPoints };
    } catch (refusal) {
      if (refusal instanceof EngineUnavailable) throw refusal;
      if (!(refusal instanceof RateLimiterRes)) {
        throw EngineUnavailable.from('redis', refusal);
      }
      this.onLimited(this.name);
      const waitMs = Math.min(refusal.msBeforeNext, this.windowSeconds * 1_000);
      this.#over ??= new LRUCache({ max: REFUSED_KEPT });
      this.#over.set(caller, true, { ttl: Math.max(1, waitMs) });
      throw rateLimited(this.name, this.limit, this.windowSeconds, refusal.msBeforeNext);
    }
  }

  /** Whether this process remembers callers over the quota. */
  get hasRefused(): boolean {
    return (this.#over?.size ?? 0) > 0;
  }

  /**
   * Returns how long a caller that this process has rejected must still wait, milliseconds; 0 = the caller may call. It
   * is synchronous and makes no round trip, for floods. A wait above 0 is counted as a refusal.
   */
  waitOf(caller: string): number {
    const leftMs = this.#over?.getRemainingTTL(caller) ?? 0;
    if (leftMs <= 0) return 0;
    this.onLimited(this.name);
    return leftMs;
  }

  async #consume(caller: string): Promise<RateLimiterRes> {
    const insurance = this.#insurance;
    const { gate, limiter } = this.#placeOf(caller);
    const consume = () => gate.guard(() => limiter.consume(caller));
    try {
      return await consume();
    } catch (refusal) {
      // The limiter uses its insurance itself when Redis fails. This branch covers a closed gate and a timeout of the
      // gate.
      if (insurance && !(refusal instanceof RateLimiterRes)) return insurance.consume(caller);
      // A wait longer than the window means that a clock went back. The count is deleted, or the caller would have to
      // wait until the clock has caught up.
      if (!(refusal instanceof RateLimiterRes) || refusal.msBeforeNext <= this.windowSeconds * 1_000) throw refusal;
      await gate.guard(() => limiter.delete(caller));
      return consume();
    }
  }

  /** Counts one call. @returns the number of calls in this window; infinity = more than the limit */
  async count(caller: string): Promise<number> {
    return (await this.counted(caller)).count;
  }

  /** As `count`, and also returns how long the window lasts, milliseconds. */
  async counted(caller: string): Promise<{ count: number; leftMs: number }> {
    const { gate, limiter } = this.#placeOf(caller);
    try {
      const { consumedPoints, msBeforeNext } = await gate.guard(() => limiter.consume(caller));
      return { count: consumedPoints, leftMs: msBeforeNext };
    } catch (refusal) {
      if (refusal instanceof RateLimiterRes)
        return { count: Number.POSITIVE_INFINITY, leftMs: Math.min(refusal.msBeforeNext, this.windowSeconds * 1_000) };
      if (this.#insurance)
        return { count: await countedBy(this.#insurance, caller), leftMs: this.windowSeconds * 1_000 };
      if (refusal instanceof EngineUnavailable) throw refusal;
      throw new EngineUnavailable('redis', String(refusal), { cause: refusal });
    }
  }

  /** Uncounts calls, in the background. */
  giveBack(caller: string, calls = 1): void {
    this.#placeOf(caller)
      .limiter.reward(caller, calls)
      .catch(() => {
        // The count expires with its window.
      });
  }

  #placeOf(caller: string) {
    const { index, gate } = this.shards.spread(caller);
    return { gate, limiter: this.#limiters[index] as RateLimiterRedis };
  }

  #fields(remaining: number, resetMs: number): string[] {
    return [
      'RateLimit-Policy',
      policyField(this.name, this.limit, this.windowSeconds),
      'RateLimit',
      `"${this.name}";r=${remaining};t=${Math.ceil(resetMs / 1000)}`,
    ];
  }
}

/** Counts a call in this process alone. @returns the number of calls in this window; infinity = more than the limit */
async function countedBy(limiter: RateLimiterMemory, caller: string): Promise<number> {
  try {
    return (await limiter.consume(caller)).consumedPoints;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

const OVERRIDES = 64;

/** Limits of one name that a campaign may override. Each has its own counts. */
export class CampaignLimit<One extends object = Quota> {
  readonly #byLimit: LRUCache<number, One>;

  constructor(
    make: (limit: number, counter: string) => One,
    readonly name: string,
    readonly limit: number,
  ) {
    this.#byLimit = new LRUCache({
      max: OVERRIDES,
      memoMethod: (wanted) => make(wanted, wanted === limit ? name : `${name}-${wanted}`),
    });
  }

  /** @param limit of the campaign; undefined = the default */
  of(limit: number | undefined): One {
    return this.#byLimit.memo(limit ?? this.limit);
  }
}

export function policyField(name: string, limit: number, windowSeconds: number): string {
  return `"${name}";q=${limit};w=${windowSeconds}`;
}

export function rateLimited(
  name: string,
  limit: number,
  windowSeconds: number,
  retryMs: number,
): Problem<'rate_limited'> {
  const seconds = Math.max(1, Math.ceil(retryMs / 1000));
  return new Problem('rate_limited', `At most ${limit} calls in ${windowSeconds} s.`, {
    members: { policy: name },
    retryAfterSeconds: seconds,
    headers: { 'RateLimit-Policy': policyField(name, limit, windowSeconds), RateLimit: `"${name}";r=0;t=${seconds}` },
  });
}
