import { LRUCache } from 'lru-cache';
import { Problem } from '../../../shared/errors/catalogue.js';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import { keys } from '../../../shared/redis/keys.js';
import type { ScriptRunner } from '../../../shared/redis/script-runner.js';
import { takeTokenScript } from '../../../shared/sale/scripts/limits.js';
import { policyField } from './quotas.js';

/** Callers whose buckets a process remembers: empty ones, and all of them while Redis is away. */
const CALLERS_KEPT = 10_000;
const MINUTE_MS = 60_000;

export type BucketShards = { spread(caller: string): { scripts: Pick<ScriptRunner, 'run'> } };

export type TokenBucketOptions = {
  /** Of the policy, as responses name it. */
  name: string;
  /** Tokens of a full bucket, and tokens that are refilled in a minute. */
  perMinute: number;
  /** Separates the buckets of the same name with different limits. */
  counter: string;
  /** Whether each process has buckets of its own while the shard of a caller is away. */
  insured: boolean;
  onLimited: (policy: string) => void;
  /** Monotonic, in ms. */
  nowMs?: () => number;
};

type Taken = { kind: 'taken'; left: number; fullMs: number } | { kind: 'empty'; waitMs: number };

/**
 * Limits calls of each caller by a bucket of tokens. In any span of t seconds a caller gets at most as many calls as
 * the bucket has tokens, plus those that t seconds refill. The buckets are in Redis (lua/take_token.lua), so that they
 * hold for all processes. A process remembers callers whose bucket is empty, so that a flood costs no round trips.
 */
export class TokenBucket {
  /** Time in which one token is refilled, in microseconds. */
  readonly #intervalUs: number;
  readonly #nowMs: () => number;
  // Created when they are needed, because each takes some hundred kilobytes.
  /** Callers whose bucket is empty, each until its next token. */
  #empty: LRUCache<string, true> | undefined;
  /** Caller → when the bucket is full again, in microseconds of `nowMs`; while Redis is away. */
  #inProcess: LRUCache<string, number> | undefined;

  constructor(
    readonly shards: BucketShards,
    readonly options: TokenBucketOptions,
  ) {
    this.#intervalUs = Math.round((MINUTE_MS * 1000) / options.perMinute);
    this.#nowMs = options.nowMs ?? (() => performance.now());
  }

  /**
   * Takes a token. @returns the RateLimit fields as a flat list of headers
   * @throws Problem 429 · EngineUnavailable
   */
  async take(caller: string): Promise<string[]> {
    const { name, perMinute, onLimited } = this.options;
    const known = this.#empty?.getRemainingTTL(caller) ?? 0;
    const taken: Taken = known > 0 ? { kind: 'empty', waitMs: known } : await this.#take(caller);
    const policy = policyField(name, perMinute, MINUTE_MS / 1000);
    if (taken.kind === 'taken') {
      const full = Math.ceil(taken.fullMs / 1000);
      return ['RateLimit-Policy', policy, 'RateLimit', `"${name}";r=${taken.left};t=${full}`];
    }
    onLimited(name);
    this.#empty ??= new LRUCache({ max: CALLERS_KEPT, perf: { now: this.#nowMs }, ttlResolution: 0 });
    this.#empty.set(caller, true, { ttl: Math.max(1, taken.waitMs) });
    const seconds = Math.max(1, Math.ceil(taken.waitMs / 1000));
    throw new Problem('rate_limited', `At most ${perMinute} calls at once, and ${perMinute} more in each minute.`, {
      members: { policy: name },
      retryAfterSeconds: seconds,
      headers: { 'RateLimit-Policy': policy, RateLimit: `"${name}";r=0;t=${seconds}` },
    });
  }

  /** Gives a token back, in the background: to Redis, or to the bucket in process from which it was taken. */
  giveBack(caller: string): void {
    const fullAt = this.#inProcess?.get(caller);
    if (fullAt !== undefined) {
      this.#inProcess?.set(caller, fullAt - this.#intervalUs);
      this.#empty?.delete(caller);
      return;
    }
    this.#run(caller, true).then(
      () => this.#empty?.delete(caller),
      () => {
        // The bucket refills by itself.
      },
    );
  }

  async #take(caller: string): Promise<Taken> {
    try {
      const taken = await this.#run(caller, false);
      this.#inProcess?.delete(caller);
      return taken;
    } catch (error) {
      if (!this.options.insured || !(error instanceof EngineUnavailable)) throw error;
      return this.#takeInProcess(caller);
    }
  }

  #run(caller: string, givesBack: boolean): Promise<Taken> {
    const { counter, perMinute } = this.options;
    return this.shards.spread(caller).scripts.run(takeTokenScript, {
      keys: { bucket: keys.bucket(counter, caller) },
      args: { capacity: perMinute, interval_us: this.#intervalUs, gives_back: givesBack },
    });
  }

  #takeInProcess(caller: string): Taken {
    const now = Math.floor(this.#nowMs() * 1000);
    this.#inProcess ??= new LRUCache({ max: CALLERS_KEPT });
    const fullAt = Math.max(this.#inProcess.get(caller) ?? 0, now) + this.#intervalUs;
    const room = now + this.options.perMinute * this.#intervalUs - fullAt;
    if (room < 0) return { kind: 'empty', waitMs: Math.ceil(-room / 1000) };
    this.#inProcess.set(caller, fullAt);
    return { kind: 'taken', left: Math.floor(room / this.#intervalUs), fullMs: Math.ceil((fullAt - now) / 1000) };
  }
}
