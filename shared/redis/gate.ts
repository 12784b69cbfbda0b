import type { Redis } from 'ioredis';
import { EngineUnavailable } from '../errors/faults.js';
import { runEvery } from '../observability/shared-interval.js';
import { Deadline, type Watched } from './deadline.js';
import { decodeEpoch, type Epoch } from './epoch.js';
import { decodeInstallation, type Installation } from './installation.js';
import { Journal, type JournalPosition } from './journal.js';
import { keys } from './keys.js';
import { parseInfo } from './redis-requirements.js';

const LOOK_AGAIN_MS = 50;
/** How often an open gate verifies that the server is still the primary of its history. */
const VERIFY_EVERY_MS = 1_000;

/** Whether calls may go to a server, or the reason why not. `superseded`: another server continues the journal. */
export type GateVerdict = { open: true } | { open: false; reason: string; superseded?: boolean };

export type GateDeps = {
  redis: Redis;
  /** Returns problems of the configuration of this Redis. Called after each new connection. */
  shape: () => Promise<readonly string[]>;
  /** Decides whether a server continues the history in Postgres (shared/history). */
  judge: (epoch: Epoch | null, server: string) => Promise<GateVerdict>;
  /** Receives what the server knows of its installation, before each judgement and about once a second. */
  onInstallation?: (installation: Installation) => void;
  /** Receives the extent of the journal at the same times. */
  onJournal?: (journal: JournalPosition) => void;
  /** Leaves the server, so that every connection finds the primary again. */
  leaveServer: (reason: string) => void;
  /** Receives every reply to INFO, about once a second while the gate is open. */
  onInfo?: (info: ReadonlyMap<string, string>) => void;
  onChange: (open: boolean, reason: string) => void;
  /** Time limit of a call. A script that Redis has evicted takes two calls. */
  callLimitMs: number;
};

/**
 * Allows calls to Redis only while it is the primary of the history in Postgres. After every new connection it may be
 * another server: empty, restored from a snapshot, a replica that lacks the last entries, or an isolated old primary.
 * Calls are then refused until the server is verified or refilled. Otherwise units could be sold twice and acknowledged
 * promises could be lost.
 */
export class RedisGate {
  #open = false;
  #stopped = false;
  #epoch: Epoch | null = null;
  /** Changes when replies to earlier calls must no longer be returned. */
  #generation: number | null = null;
  #lastReason = '';
  #checking: Promise<void> | null = null;
  readonly #endVerifying: () => void;
  readonly #deadline: Deadline;

  constructor(readonly deps: GateDeps) {
    this.#deadline = new Deadline(deps.callLimitMs, () => this.distrust('Redis does not reply in time'));
    deps.redis.on('ready', () => this.#check());
    deps.redis.on('close', () => this.#shut('the connection to Redis is lost'));
    this.#endVerifying = runEvery(VERIFY_EVERY_MS, () => this.#verify());
  }

  get isOpen(): boolean {
    return this.#open;
  }

  /** Generation of the current history; null before the first one, and after a newer one has begun elsewhere. */
  get generation(): number | null {
    return this.#generation;
  }

  /** `master_replid` of the current server; null = the gate is closed. */
  get server(): string | null {
    return this.#open ? (this.#epoch?.server ?? null) : null;
  }

  /** Why the gate is closed; "" before the first check. */
  get reason(): string {
    return this.#lastReason;
  }

  /** @throws EngineUnavailable if the gate is closed */
  assertOpen(): void {
    if (!this.#open) throw this.#unavailable();
  }

  /**
   * Makes a call if the gate is open, with a time limit. The first call that times out closes the gate, so that later
   * calls are refused at once until Redis replies again. A reply that arrives after a new history has begun is not
   * returned.
   * @throws EngineUnavailable
   */
  async guard<Value>(call: () => Promise<Value>): Promise<Value> {
    if (!this.#open) throw this.#unavailable();
    const generation = this.#generation;
    const value = await this.#deadline.limit(call());
    if (this.#generation !== generation) throw staleReply('a call');
    return value;
  }

  /**
   * Watches a call that begins now, for callers that avoid another promise.
   * @param giveUp called if it takes too long
   */
  watch(giveUp: Watched['giveUp']): Watched {
    return this.#deadline.watch(giveUp);
  }

  /** Closes the gate and verifies Redis again, because it is not as expected. */
  distrust(reason: string): void {
    this.#shut(reason);
    this.#check();
  }

  /** Drops replies of older histories, because a newer one has begun on this or another server. */
  supersede(generation: number): void {
    if (this.#generation !== null && this.#generation >= generation) return;
    this.#generation = null;
    this.distrust('a newer history of the journal has begun');
  }

  stop(): void {
    this.#stopped = true;
    this.#endVerifying();
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
      // A new connection may have become ready while the last check ended.
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

  /** Checks the server once, and opens the gate if it is valid. */
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

  /** Verifies the server while the gate is open. It may be demoted, replaced or emptied without a lost connection. */
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
        // The connection itself reports the failure.
      },
    );
  }

  async #readServer(): Promise<{ epoch: Epoch | null; info: ReadonlyMap<string, string> }> {
    const { redis, onInfo, onInstallation, onJournal } = this.deps;
    const [epoch, kept, text, journal] = await Promise.all([
      redis.get(keys.epoch),
      redis.get(keys.installation),
      redis.call('INFO', 'replication', 'memory'),
      // An entry that cannot be decoded is for the worker to refuse.
      new Journal(redis).position().catch(() => null),
    ]);
    const info = parseInfo(String(text));
    onInfo?.(info);
    const installation = decodeInstallation(kept);
    if (installation) onInstallation?.(installation);
    if (journal) onJournal?.(journal);
    return { epoch: epoch === null ? null : decodeEpoch(epoch), info };
  }
}

/** Returns the error of a call whose reply arrived after a new history had begun, which may lack its effect. */
export function staleReply(call: string): EngineUnavailable {
  return new EngineUnavailable('redis', `${call}: another history of the journal began before the reply`);
}
