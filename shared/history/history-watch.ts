import type { RawEntry } from '../contracts/journal.js';
import { untilNext } from '../observability/shared-interval.js';
import type { Heartbeat } from '../postgres/heartbeats.js';
import type { History, JournalHistories, JournalState } from '../postgres/journal-histories.js';
import type { Database } from '../postgres/pool.js';
import type { RecoveredEntries } from '../postgres/recovered-entries.js';
import type { CommitWatermark } from '../redis/commit-watermark.js';
import { isBehind } from '../redis/continuity.js';
import type { Epoch } from '../redis/epoch.js';
import type { GateVerdict, RedisGate } from '../redis/gate.js';
import type { Installation } from '../redis/installation.js';
import type { JournalPosition } from '../redis/journal.js';
import { earliest, generationOf } from '../redis/journal-ids.js';
import type { UnpersistedPromises } from '../sale/unpersisted-promises.js';

/** Interval while the gate is open. It bounds how long a new history stays unnoticed if no connection is lost. */
const BEAT_MS = 500;
/** Interval while the gate is closed. It is short, because the worker that recovers Redis waits for this process. */
const FAST_BEAT_MS = 40;
/** Interval while Postgres is away. */
const TROUBLE_MS = 250;
/** A process counts as alive for this long after its last report. */
const ALIVE_MS = 2_000;
/**
 * The assumed outage before the first report of this process, because other processes may not have reached Postgres
 * either.
 */
const FIRST_OUTAGE_MS = 30_000;
/** Two reports further apart than this mean that Postgres was away in between. */
const OUTAGE_MS = 1_000;
const OUTAGE_REMEMBERED_MS = 5_000;
/** Entries saved by one statement. It takes some milliseconds in Postgres and about half a megabyte. */
const SAVE_CHUNK = 1_000;

export type MapOfProcess = {
  readonly version: number;
  /** Reads it from Postgres. */
  read(database: Database): Promise<void>;
  /** Postgres had this version at that moment, in ms of `performance.now`. */
  compared(version: number, atMs: number): void;
  /** A shard of Redis has this version. */
  sees(version: number): void;
};

export type HistoryWatchDeps = {
  processId: string;
  kind: Heartbeat['kind'];
  histories: JournalHistories;
  recovered: RecoveredEntries;
  promises: UnpersistedPromises;
  commits: CommitWatermark;
  /** Which campaigns have moved to another shard (ShardMap). */
  map: MapOfProcess;
  /** Called after entries that Redis lost were saved. */
  onSaved: (entries: number, generation: number) => void;
  onTrouble: (error: Error) => void;
  onBeat?: () => void;
};

/**
 * Follows the history of the journal for one process. It reports to Postgres that the process is alive, and reads there
 * whether a new history of Redis has begun. If so, it saves every promise of this process that the new history lacks.
 * It also decides for the gate whether a Redis server continues the latest history in Postgres.
 */
export class HistoryWatch {
  #state: JournalState | null = null;
  /** The latest history for which this process has saved all entries that the history lacks. */
  #saved = 0;
  #unsaved = 0;
  /** Verified server → its generation, so that a reconnection does not need Postgres. */
  readonly #verified = new Map<string, number>();
  #gate: RedisGate | null = null;
  /** What this shard of Redis knows of its installation. */
  #kept: Installation | null = null;
  /** The journal of this shard, as it was read last. */
  #journal: JournalPosition | null = null;
  #isSetBack: boolean | null = null;
  #reportedAt: number | null = null;
  #outage = { ms: 0, until: 0 };
  #timer: NodeJS.Timeout | null = null;
  #beating: Promise<JournalState> | null = null;
  /** From `start` to `stop`. A beat at another time schedules no further one. */
  #running = false;

  constructor(readonly deps: HistoryWatchDeps) {
    deps.commits.onCommit((upTo) => {
      // Entries of a later history do not show which older promises it contains. Promises are forgotten only after the
      // missing ones were saved.
      if (generationOf(upTo) <= this.#saved) deps.promises.committed(upTo);
    });
  }

  /** @param gate rejects replies of older histories as soon as a newer one begins */
  start(gate: RedisGate): void {
    this.#gate = gate;
    this.#running = true;
    this.#schedule(0);
  }

  async stop(): Promise<void> {
    this.#running = false;
    if (this.#timer) clearTimeout(this.#timer);
    await this.#beating?.catch(() => {});
    await this.deps.histories.leave(this.deps.processId).catch(() => {});
  }

  /** The state that Postgres returned last; null before its first response. */
  get state(): JournalState | null {
    return this.#state;
  }

  /**
   * Whether Postgres lacks entries that it had committed, because it was set back. It is known from the first reads of
   * both engines on, within two seconds; null = not yet.
   */
  get isSetBack(): boolean | null {
    return this.#isSetBack;
  }

  /** The latest history for which this process has saved its promises that the history lacks. */
  get savedGeneration(): number {
    return this.#saved;
  }

  /**
   * A process that reported within this time counts as alive. The time is longer just after an outage of Postgres,
   * because no process could report during it.
   */
  get aliveMs(): number {
    return ALIVE_MS + (performance.now() < this.#outage.until ? this.#outage.ms : 0);
  }

  /** Reports to Postgres and reads the state now. @throws EngineUnavailable when Postgres is away */
  beat(): Promise<JournalState> {
    this.#beating ??= this.#beat().finally(() => {
      this.#beating = null;
    });
    return this.#beating;
  }

  /** Reports unless it has done so within `ms`. @throws EngineUnavailable when Postgres is away */
  async beatUnlessWithin(ms: number): Promise<void> {
    if (this.#reportedAt === null || performance.now() - this.#reportedAt > ms) await this.beat();
  }

  /** Takes what the shard knows of its installation. */
  sees(installation: Installation): void {
    const { map } = this.deps;
    this.#kept = installation;
    map.sees(installation.version);
    // Until the map is read, this process does not know whether a campaign exists.
    if (installation.version > map.version) this.#schedule(0);
  }

  /** Takes the extent of the journal. The next report compares it with the cursor. */
  seesJournal(journal: JournalPosition): void {
    this.#journal = journal;
  }

  /**
   * Decides whether a server may be used. While Postgres is away, only a server that this process has verified before
   * may be used.
   * @throws EngineUnavailable when Postgres is needed and away
   */
  async judge(epoch: Epoch | null, server: string): Promise<GateVerdict> {
    // Shards of another number have other tags, so this process finds nothing there. It may not know yet that the
    // number has changed.
    if (this.#otherShards() !== null) await this.beat();
    const other = this.#otherShards();
    if (other) return { open: false, reason: other };
    if (epoch === null) return { open: false, reason: 'Redis is empty or being filled' };
    if (epoch.server !== server) return { open: false, reason: 'this Redis server has not been verified yet' };
    const newest = this.#state?.latest?.generation ?? 0;
    if (this.#verified.get(server) === epoch.generation && epoch.generation >= newest) return { open: true };
    let { latest, current } = await this.beat();
    // That report may have begun before the journal was read.
    if (this.#journal !== null && this.#isSetBack === null) ({ latest, current } = await this.beat());
    const meanwhile = this.#otherShards();
    if (meanwhile) return { open: false, reason: meanwhile };
    if (current && epoch.generation < current.generation) {
      return { open: false, reason: 'another Redis server continues the journal', superseded: true };
    }
    if (latest && epoch.generation < latest.generation) return { open: false, reason: 'Redis is being recovered' };
    // A generation that Postgres does not know means that Postgres was set back. The server is accepted, because it was
    // verified when its history began.
    if (latest?.generation === epoch.generation && !latest.opened)
      return { open: false, reason: 'Redis is being recovered' };
    this.#verified.clear();
    this.#verified.set(server, epoch.generation);
    this.#saved = Math.max(this.#saved, epoch.generation);
    return { open: true };
  }

  async #beat(): Promise<JournalState> {
    const { commits, map } = this.deps;
    const askedAt = performance.now();
    const journal = this.#journal;
    const state = await this.#report();
    const now = performance.now();
    const silentMs = this.#reportedAt === null ? FIRST_OUTAGE_MS : now - this.#reportedAt;
    if (silentMs > OUTAGE_MS) this.#outage = { ms: silentMs, until: now + OUTAGE_REMEMBERED_MS };
    this.#reportedAt = now;
    this.deps.onBeat?.();
    const first = this.#state === null;
    this.#state = state;
    if (journal !== null) this.#isSetBack = isBehind(state.cursor, journal, beginningOf(journal, state));
    if (state.mapVersion > map.version) {
      await map.read(this.deps.histories.database);
      // The command that moves a campaign waits until each process reports the move.
      this.#schedule(0);
    }
    map.compared(state.mapVersion, askedAt);
    const other = this.#otherShards();
    if (other) {
      this.#verified.clear();
      this.#gate?.distrust(other);
    }
    commits.heard(state.cursor);
    const { latest } = state;
    if (latest === null) return state;
    // A process that has acknowledged no promise has nothing to save.
    if (first && this.deps.promises.size === 0) this.#saved = Math.max(this.#saved, latest.generation);
    if (latest.generation > this.#saved) await this.#saveWhatIsMissing(latest);
    return this.#state ?? state;
  }

  #report(): Promise<JournalState> {
    const { histories, processId, kind, map } = this.deps;
    return histories.beat({
      processId,
      kind,
      generation: this.#saved,
      unsaved: this.#unsaved,
      serving: this.#gate?.isOpen ? this.#gate.generation : null,
      mapVersion: map.version,
    });
  }

  /**
   * Handles the beginning of a newer history: the process no longer acknowledges promises of older histories, and saves
   * its promises that the newer history lacks.
   */
  async #saveWhatIsMissing(latest: History): Promise<void> {
    const { histories, recovered, promises, processId, onSaved } = this.deps;
    this.#gate?.supersede(latest.generation);
    this.deps.commits.abandonBefore(latest.generation);
    const later = await histories.since(this.#saved);
    const contained = earliest([latest.afterId, ...later.map(({ afterId }) => afterId)]);
    let saved = 0;
    let reportedAt = performance.now();
    for (;;) {
      const missing: RawEntry[] = promises.after(contained, latest.generation, SAVE_CHUNK);
      if (missing.length === 0) break;
      this.#unsaved = promises.size;
      // The recovery waits for as long as it hears from this process.
      if (performance.now() - reportedAt > BEAT_MS) {
        await this.#report();
        reportedAt = performance.now();
      }
      await recovered.save(processId, missing);
      promises.forget(missing.map(({ journalId }) => journalId));
      saved += missing.length;
    }
    this.#unsaved = 0;
    this.#saved = latest.generation;
    if (saved > 0) onSaved(saved, latest.generation);
    // The result is reported at once, because a worker may be waiting for it.
    this.#schedule(0);
  }

  /** Why SHARDS is not the number of shards of this installation; null = it is. */
  #otherShards(): string | null {
    const { shards } = this.deps.histories;
    const found = { shards: this.#state?.shards ?? shards, version: this.#state?.mapVersion ?? 0 };
    return otherNumber(this.#kept, found, shards);
  }

  #schedule(afterMs: number): void {
    if (this.#timer) clearTimeout(this.#timer);
    if (!this.#running) return;
    this.#timer = setTimeout(() => {
      this.beat().then(
        () => this.#schedule(this.#gate?.isOpen ? untilNext(BEAT_MS) : FAST_BEAT_MS),
        (error: unknown) => {
          this.deps.onTrouble(error instanceof Error ? error : new Error(String(error)));
          this.#schedule(TROUBLE_MS);
        },
      );
    }, afterMs);
    this.#timer.unref();
  }
}

/** The last entry before the history of the first one; null = Postgres does not know that history. */
function beginningOf({ firstId }: JournalPosition, { cursor, latest }: JournalState): string | null {
  if (firstId === null || latest === null || generationOf(firstId) > latest.generation) return null;
  // An earlier one is taken to follow the cursor, because only the latest ones are read.
  return generationOf(firstId) === latest.generation ? latest.afterId : cursor;
}

/**
 * Why a process with this number of shards must not use a shard; null = it may. Redis may know of a later change of the
 * number, which Postgres has lost.
 * @param kept by this shard. @param found in Postgres. @param shards SHARDS
 */
export function otherNumber(kept: Installation | null, found: Installation, shards: number): string | null {
  if (kept && kept.version > found.version && (kept.shards !== shards || found.shards !== shards))
    return (
      `Redis has ${kept.shards} shards, and Postgres ${found.shards}: it was set back. ` +
      'Run: npm run reconcile -- --after-restore'
    );
  if (found.shards === shards) return null;
  return (
    `SHARDS is ${shards}, but this installation has ${found.shards}. ` +
    `Set it to ${found.shards}, or run: npm run reshard -- --to ${shards}`
  );
}
