import type { Redis } from 'ioredis';
import { EngineUnavailable } from '../errors/faults.js';
import { Deadline, type Watched } from './deadline.js';
import { decodeEpoch, type Epoch } from './epoch.js';
import { keys } from './keys.js';
import { parseInfo } from './redis-requirements.js';

const LOOK_AGAIN_MS = 50;
/** How often an open gate verifies that the server is still the primary of its history. */
const VERIFY_EVERY_MS = 1_000;

/** Whether calls may go through to a server, and why not. `superseded`: another server continues the journal. */
export type GateVerdict = { open: true } | { open: false; reason: string; superseded?: boolean };

export type GateDeps = {
  redis: Redis;
  /** What is wrong with the configuration of this Redis; asked after each new connection. */
  shape: () => Promise<readonly string[]>;
  /** Whether a server continues the history that Postgres knows (shared/history). */
  judge: (epoch: Epoch | null, server: string) => Promise<GateVerdict>;
  /** Leaves the server, so that every connection finds the primary again. */
  leaveServer: (reason: string) => void;
  /** Is given every reply to INFO, about once a second while the gate is open. */
  onInfo?: (info: ReadonlyMap<string, string>) => void;
  onChange: (open: boolean, reason: string) => void;
  /** No call takes longer than this; one whose script Redis has forgotten is two calls. */
  callLimitMs: number;
};

/**
 * Lets calls through to Redis only while it is the primary of the history that Postgres knows. After every new connection
 * it may be another server: empty, restored from a snapshot, a replica that lacks the last entries, or an old primary that
 * was cut off. Calls are then refused until the server has been verified or refilled; serving from it would sell units
 * twice and deny what was acknowledged.
 */
export class RedisGate {
  #open = false;
  #stopped = false;
  #epoch: Epoch | null = null;
  /** Changes whenever replies to earlier calls must not be returned any more. */
  #generation: number | null = null;
  #lastReason = '';
  #checking: Promise<void> | null = null;
  #verifying: NodeJS.Timeout;
  readonly #deadline: Deadline;

  constructor(readonly deps: GateDeps) {
    this.#deadline = new Deadline(deps.callLimitMs, () => this.distrust('Redis does not reply in time'));
    deps.redis.on('ready', () => this.#check());
    deps.redis.on('close', () => this.#shut('the connection to Redis is lost'));
    this.#verifying = setInterval(() => this.#verify(), VERIFY_EVERY_MS);
    this.#verifying.unref();
  }

  get isOpen(): boolean {
    return this.#open;
  }

  /** Generation of the history that calls go to; null before the first one, and once a newer one has begun elsewhere. */
  get generation(): number | null {
    return this.#generation;
  }

  /** `master_replid` of the server that calls go to; null while the gate is shut. */
  get server(): string | null {
    return this.#open ? (this.#epoch?.server ?? null) : null;
  }

  /** Why the gate is shut; empty before the first look. */
  get reason(): string {
    return this.#lastReason;
  }

  /** @throws EngineUnavailable while calls must not go through */
  assertOpen(): void {
    if (!this.#open) throw this.#unavailable();
  }

  /**
   * Makes a call if the gate is open, and gives up on it in time. The first that runs out of time shuts the gate, so that
   * those behind it are refused at once, until Redis has replied again. A reply that arrives after another history has
   * begun is not returned.
   * @throws EngineUnavailable
   */
  async guard<Value>(call: () => Promise<Value>): Promise<Value> {
    if (!this.#open) throw this.#unavailable();
    const generation = this.#generation;
    const value = await this.#deadline.limit(call());
    if (this.#generation !== generation) throw staleReply('a call');
    return value;
  }

  /** Watches a call that is about to be made, for callers that avoid a promise: `giveUp` is called when it takes too long. */
  watch(giveUp: Watched['giveUp']): Watched {
    return this.#deadline.watch(giveUp);
  }

  /** Verifies Redis again before the next call, since it is not as expected. */
  distrust(reason: string): void {
    this.#shut(reason);
    this.#check();
  }

  /** A newer history has begun, on this server or another one: replies of older ones are dropped from now on. */
  supersede(generation: number): void {
    if (this.#generation !== null && this.#generation >= generation) return;
    this.#generation = null;
    this.distrust('a newer history of the journal has begun');
  }

  stop(): void {
    this.#stopped = true;
    clearInterval(this.#verifying);
  }

  #unavailable(): EngineUnavailable {
    return new EngineUnavailable('redis', this.#lastReason || 'Redis has not been verified yet');
  }

  #shut(reason: string): void {
    if (this.#open || reason !== this.#lastReason) this.deps.onChange(false, reason);
    this.#open = false;
    this.#lastReason = reason;
  }

  #check(): void {
    this.#open = false;
    this.#checking ??= this.#untilVerified().finally(() => {
      this.#checking = null;
      // A connection that came while the last look ended.
      if (!this.#open && !this.#stopped && this.deps.redis.status === 'ready') this.#check();
    });
  }

  async #untilVerified(): Promise<void> {
    while (!this.#stopped && this.deps.redis.status === 'ready') {
      const verdict = await this.#look().catch((error: unknown) => ({
        open: false as const,
        reason: error instanceof Error ? error.message : String(error),
      }));
      if (verdict.open) return;
      this.#shut(verdict.reason);
      await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS).unref());
    }
  }

  /** One look at the server; opens the gate when it may be used. */
  async #look(): Promise<GateVerdict> {
    const problems = await this.deps.shape();
    if (problems.length > 0) return { open: false, reason: problems.join(' ') };
    const { epoch, info } = await this.#readServer();
    if (info.get('role') !== 'master') {
      this.deps.leaveServer('this Redis server is not the primary');
      return { open: false, reason: 'this Redis server is not the primary' };
    }
    const verdict = await this.deps.judge(epoch, info.get('master_replid') ?? '');
    if (!verdict.open) {
      if (verdict.superseded) this.deps.leaveServer(verdict.reason);
      return verdict;
    }
    if (this.deps.redis.status !== 'ready') return { open: false, reason: 'the connection to Redis is lost' };
    this.#epoch = epoch;
    this.#generation = epoch?.generation ?? null;
    this.#open = true;
    this.#lastReason = '';
    this.deps.onChange(true, `generation ${this.#generation}`);
    return verdict;
  }

  /** While the gate is open: the server may have been demoted, replaced or emptied without a connection being lost. */
  #verify(): void {
    if (!this.#open) return;
    this.#readServer().then(
      ({ epoch, info }) => {
        if (!this.#open) return;
        const same = epoch?.generation === this.#generation && epoch?.server === this.#epoch?.server;
        if (info.get('role') !== 'master') this.distrust('this Redis server is not the primary any more');
        else if (!same || info.get('master_replid') !== this.#epoch?.server) this.distrust('Redis changed its history');
      },
      () => {
        // The connection reports its own failure.
      },
    );
  }

  async #readServer(): Promise<{ epoch: Epoch | null; info: ReadonlyMap<string, string> }> {
    const [epoch, text] = await Promise.all([
      this.deps.redis.get(keys.epoch),
      this.deps.redis.call('INFO', 'replication', 'memory'),
    ]);
    const info = parseInfo(String(text));
    this.deps.onInfo?.(info);
    return { epoch: epoch === null ? null : decodeEpoch(epoch), info };
  }
}

/** Another history began before the reply: what the call did may be missing in it. */
export function staleReply(call: string): EngineUnavailable {
  return new EngineUnavailable('redis', `${call}: another history of the journal began before the reply`);
}
