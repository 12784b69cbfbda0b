import type { RawEntry } from '../contracts/journal.js';
import { untilNext } from '../observability/shared-interval.js';
import type { Heartbeat, History, JournalHistories, JournalState } from '../postgres/journal-histories.js';
import type { RecoveredEntries } from '../postgres/recovered-entries.js';
import type { CommitWatermark } from '../redis/commit-watermark.js';
import type { Epoch } from '../redis/epoch.js';
import type { GateVerdict, RedisGate } from '../redis/gate.js';
import { earliest, generationOf } from '../redis/journal-ids.js';
import type { UnpersistedPromises } from '../sale/unpersisted-promises.js';

/** While the gate is open: how long another history may stay unnoticed when no connection was lost. */
const BEAT_MS = 500;
/** While the gate is shut: the worker that recovers waits for this process. */
const FAST_BEAT_MS = 40;
/** Postgres is away. */
const TROUBLE_MS = 250;
/** Processes that report are seen at least this often. */
const ALIVE_MS = 2_000;
/** Before this process first reached Postgres, others may not have reached it either. */
const FIRST_OUTAGE_MS = 30_000;
/** Two reports further apart than this had an outage of Postgres between them; others get this long to report again. */
const OUTAGE_MS = 1_000;
const OUTAGE_REMEMBERED_MS = 5_000;
/** Entries saved by one statement: some milliseconds of Postgres and about half a megabyte. */
const SAVE_CHUNK = 1_000;

export type HistoryWatchDeps = {
  processId: string;
  kind: Heartbeat['kind'];
  histories: JournalHistories;
  recovered: RecoveredEntries;
  promises: UnpersistedPromises;
  commits: CommitWatermark;
  /** Entries that Redis lost were saved. */
  onSaved: (entries: number, generation: number) => void;
  onTrouble: (error: Error) => void;
  onBeat?: () => void;
};

/**
 * Follows the history of the journal on behalf of one process. It reports to Postgres that the process is alive, learns
 * from there when a new history of Redis begins, and then saves every promise of this process that the new history lacks.
 * It also gives the gate its verdict: whether a Redis server continues the history that Postgres knows.
 */
export class HistoryWatch {
  #state: JournalState | null = null;
  /** Latest history for which everything that it lacks has been saved. */
  #saved = 0;
  #unsaved = 0;
  /** Servers that were verified, so that a cut connection needs no Postgres: the generation of each. */
  readonly #verified = new Map<string, number>();
  #gate: RedisGate | null = null;
  #reportedAt: number | null = null;
  #outage = { ms: 0, until: 0 };
  #timer: NodeJS.Timeout | null = null;
  #beating: Promise<JournalState> | null = null;
  #stopped = false;

  constructor(readonly deps: HistoryWatchDeps) {
    deps.commits.onCommit((upTo) => {
      // Entries of older histories may be missing in this one; they leave the memory when that has been settled.
      if (generationOf(upTo) <= this.#saved) deps.promises.committed(upTo);
    });
  }

  /** @param gate refuses replies of older histories as soon as a newer one begins */
  start(gate: RedisGate): void {
    this.#gate = gate;
    this.#schedule(0);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#timer) clearTimeout(this.#timer);
    await this.#beating?.catch(() => {});
    await this.deps.histories.leave(this.deps.processId).catch(() => {});
  }

  /** What Postgres said last; null before it answered once. */
  get state(): JournalState | null {
    return this.#state;
  }

  /** The latest history for which this process has saved everything that it lacks. */
  get savedGeneration(): number {
    return this.#saved;
  }

  /** A process that reported within this time counts as alive: longer just after Postgres was away, for everybody was. */
  get aliveMs(): number {
    return ALIVE_MS + (performance.now() < this.#outage.until ? this.#outage.ms : 0);
  }

  /** Reports and reads at once. @throws EngineUnavailable when Postgres is away */
  beat(): Promise<JournalState> {
    this.#beating ??= this.#beat().finally(() => {
      this.#beating = null;
    });
    return this.#beating;
  }

  /**
   * Whether a server may be used. Without Postgres only one that this process has verified before.
   * @throws EngineUnavailable when Postgres is needed and away
   */
  async judge(epoch: Epoch | null, server: string): Promise<GateVerdict> {
    if (epoch === null) return { open: false, reason: 'Redis is empty or being filled' };
    if (epoch.server !== server) return { open: false, reason: 'this Redis server has not been verified yet' };
    const newest = this.#state?.latest?.generation ?? 0;
    if (this.#verified.get(server) === epoch.generation && epoch.generation >= newest) return { open: true };
    const { latest, current } = await this.beat();
    if (current && epoch.generation < current.generation) {
      return { open: false, reason: 'another Redis server continues the journal', superseded: true };
    }
    if (latest && epoch.generation < latest.generation) return { open: false, reason: 'Redis is being recovered' };
    // A generation that Postgres does not know yet: Postgres was set back. The server was verified when it began.
    if (latest?.generation === epoch.generation && !latest.opened)
      return { open: false, reason: 'Redis is being recovered' };
    this.#verified.clear();
    this.#verified.set(server, epoch.generation);
    this.#saved = Math.max(this.#saved, epoch.generation);
    return { open: true };
  }

  async #beat(): Promise<JournalState> {
    const { histories, processId, kind, commits } = this.deps;
    const state = await histories.beat({
      processId,
      kind,
      generation: this.#saved,
      unsaved: this.#unsaved,
      serving: this.#gate?.isOpen ? this.#gate.generation : null,
    });
    const now = performance.now();
    const silentMs = this.#reportedAt === null ? FIRST_OUTAGE_MS : now - this.#reportedAt;
    if (silentMs > OUTAGE_MS) this.#outage = { ms: silentMs, until: now + OUTAGE_REMEMBERED_MS };
    this.#reportedAt = now;
    this.deps.onBeat?.();
    const first = this.#state === null;
    this.#state = state;
    commits.heard(state.cursor);
    const { latest } = state;
    if (latest === null) return state;
    // A process that has acknowledged nothing has nothing to save.
    if (first && this.deps.promises.size === 0) this.#saved = Math.max(this.#saved, latest.generation);
    if (latest.generation > this.#saved) await this.#saveWhatIsMissing(latest);
    return this.#state ?? state;
  }

  /** A newer history has begun: nothing of an older one is acknowledged any more, and what the newer one lacks is saved. */
  async #saveWhatIsMissing(latest: History): Promise<void> {
    const { histories, recovered, promises, processId, onSaved } = this.deps;
    this.#gate?.supersede(latest.generation);
    this.deps.commits.abandonBefore(latest.generation);
    const later = await histories.since(this.#saved);
    const contained = earliest([latest.afterId, ...later.map(({ afterId }) => afterId)]);
    let saved = 0;
    for (;;) {
      const missing: RawEntry[] = promises.after(contained, latest.generation, SAVE_CHUNK);
      if (missing.length === 0) break;
      this.#unsaved = promises.size;
      await recovered.save(processId, missing);
      promises.forget(missing.map(({ journalId }) => journalId));
      saved += missing.length;
    }
    this.#unsaved = 0;
    this.#saved = latest.generation;
    if (saved > 0) onSaved(saved, latest.generation);
    // Reported at once, since a worker may be waiting for it.
    this.#schedule(0);
  }

  #schedule(afterMs: number): void {
    if (this.#timer) clearTimeout(this.#timer);
    if (this.#stopped) return;
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
