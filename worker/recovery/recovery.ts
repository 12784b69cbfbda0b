import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { HistoryWatch } from '../../shared/history/history-watch.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import { untilNext } from '../../shared/observability/shared-interval.js';
import type { CampaignsTable, StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { JournalHistories } from '../../shared/postgres/journal-histories.js';
import type { Database } from '../../shared/postgres/pool.js';
import type { RecoveredEntries } from '../../shared/postgres/recovered-entries.js';
import type { JournalCursor } from '../../shared/projection/journal-cursor.js';
import { decodeEpoch, type Epoch } from '../../shared/redis/epoch.js';
import {
  compareJournalIds,
  earliest,
  generationOf,
  JOURNAL_START,
  type Journal,
  nextId,
} from '../../shared/redis/journal.js';
import { keys } from '../../shared/redis/keys.js';
import { parseInfo } from '../../shared/redis/redis-requirements.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';
import { type ApplyRecoveredDeps, applyRecovered } from './apply-recovered.js';
import { type Diagnosis, diagnose, FIRST_START, isBehind, type Look } from './diagnosis.js';
import { LockLost, RecoveryLock } from './recovery-lock.js';
import type { RedisFill } from './redis-fill.js';
import { restoreCampaign } from './restore-campaign.js';

/** How often the worker looks while Redis is in service, and while it is not. */
const LOOK_EVERY_MS = 500;
const LOOK_SOON_MS = 50;
/** Processes that are alive are waited for this long; longer only while they report that they are saving entries. */
const COLLECT_MS = 1_000;
const COLLECT_SAVING_MS = 30_000;
const LOOK_FOR_REPORTS_MS = 20;
/** A worker on a superseded server takes over when no process has used the newer one for this long. */
const TAKE_OVER_MS = 5_000;
const READ_ENTRIES = 1_000;

export type RecoveryDeps = Omit<ApplyRecoveredDeps, 'cursor'> & {
  processId: string;
  database: Database;
  /** Holds the connection of the lock. */
  lockDatabase: Database;
  campaigns: CampaignsTable;
  cursor: JournalCursor;
  histories: JournalHistories;
  recovered: RecoveredEntries;
  journal: Journal;
  fill: RedisFill;
  /** A store without a gate: it fills the Redis that the gate keeps others from. */
  sale: SaleStore;
  watch: HistoryWatch;
  /** Persists what the journal has up to an entry, while Redis is out of service. */
  drain: (upTo: string, numbered: boolean) => Promise<void>;
  leaveServer: (reason: string) => void;
  nowMs: () => Promise<number>;
  idempotencyTtlMs: number;
  metrics: Metrics;
  log: Log;
};

/**
 * Keeps Redis and Postgres on one history. After every change of server it verifies that Redis has everything that Postgres
 * has and everything that the processes have acknowledged. If so, a new history begins within milliseconds. If not, what is
 * missing is written to Postgres, Redis is filled from there, and then the new history begins. Until then every call is
 * refused with 503. Workers agree by a lock in Postgres on which one does it (docs/decisions/0021-histories.md).
 */
export class Recovery {
  #stopping = false;
  #loop: Promise<void> | null = null;
  #wake: (() => void) | null = null;
  #behindReported = false;
  #supersededSince: number | null = null;
  #collectedFrom = '';
  readonly #lock: RecoveryLock;

  constructor(readonly deps: RecoveryDeps) {
    this.#lock = new RecoveryLock(deps.lockDatabase);
    deps.sale.scripts.redis.on('ready', () => this.#wake?.());
  }

  /** Looks for as long as the worker runs: Redis may be lost without its connection being lost. */
  start(): void {
    this.#loop = this.#run();
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    this.#wake?.();
    await this.#loop;
  }

  /** Looks once and recovers if necessary. @returns whether Redis is in service. @throws EngineUnavailable */
  async ensureInService(): Promise<boolean> {
    const diagnosis = await this.#diagnose();
    if (diagnosis === null) return false;
    this.#reportBehind(diagnosis.kind === 'postgres_behind');
    if (diagnosis.kind !== 'superseded') this.#supersededSince = null;
    switch (diagnosis.kind) {
      case 'in_service':
      case 'postgres_behind':
        return true;
      case 'superseded':
        return this.#standAside();
      case 'recover':
        await this.#lock.hold((assertHeld) => this.#recover(assertHeld, false));
        return false;
      default:
        return diagnosis satisfies never;
    }
  }

  /** Fills one campaign from Postgres although Redis is in service: every call gets 503 for that moment. */
  async refill(campaign: StoredCampaign, reason: string): Promise<void> {
    const { deps } = this;
    const done = await this.#lock.hold(async (assertHeld) => {
      const look = await this.#look();
      const { epoch } = look;
      if (epoch === null || diagnose(look).kind !== 'in_service') {
        throw new EngineUnavailable('redis', 'it is being recovered, or ahead of Postgres');
      }
      deps.log.warn({ campaign: campaign.productId, reason }, 'a campaign is refilled from Postgres');
      const token = tokenOf(deps.processId, epoch.generation);
      await deps.fill.begin(token);
      // No unit moves from here on, so what the journal has now is all.
      await deps.drain((await deps.journal.position()).lastId, true);
      await this.#restore([campaign], token, assertHeld);
      await deps.fill.end(token, epoch);
    });
    if (!done) throw new EngineUnavailable('redis', 'another worker is recovering it');
  }

  async #diagnose(): Promise<Diagnosis | null> {
    const look = await this.#look();
    if (look.role === 'master') return diagnose(look);
    this.deps.leaveServer('this Redis server is not the primary');
    return null;
  }

  async #look(): Promise<Look & { role: string }> {
    const { sale, journal, watch, histories, recovered } = this.deps;
    const { redis } = sale.scripts;
    // In this order: the cursor may move on meanwhile, and the journal is never behind it.
    const postgres = await watch.beat();
    const [text, epoch, position, pending] = await Promise.all([
      engine(() => redis.call('INFO', 'replication') as Promise<string>),
      engine(() => redis.get(keys.epoch)),
      journal.position(),
      recovered.hasPending(),
    ]);
    const info = parseInfo(text);
    const firstBegins = position.firstId && (await histories.beginningOf(generationOf(position.firstId)));
    const seemsBehind = isBehind(postgres.cursor, position, firstBegins);
    return {
      role: info.get('role') ?? '',
      server: info.get('master_replid') ?? '',
      epoch: epoch === null ? null : decodeEpoch(epoch),
      journal: position,
      postgres,
      cursorAfter: seemsBehind ? await this.deps.cursor.read() : postgres.cursor,
      firstBegins,
      recovered: pending,
    };
  }

  /** This server was in service and another one is now. What only its journal has is saved; then the other one is looked for. */
  async #standAside(): Promise<boolean> {
    const { watch, histories, processId, leaveServer, log } = this.deps;
    const look = await this.#look();
    const latest = look.postgres.current;
    if (!latest || !look.epoch) return false;
    await this.#collectJournal(look);
    this.#supersededSince ??= performance.now();
    if (await histories.isServed(latest.generation, processId, TAKE_OVER_MS)) this.#supersededSince = performance.now();
    if (performance.now() - this.#supersededSince < TAKE_OVER_MS) {
      leaveServer('another Redis server continues the journal');
      return false;
    }
    log.warn({ generation: latest.generation }, 'the Redis server of the latest history is gone; this one takes over');
    await this.#lock.hold((assertHeld) => this.#recover(assertHeld, true));
    await watch.beat();
    return false;
  }

  /**
   * Begins a new history.
   * @param takeOver also from a server that has been superseded
   */
  async #recover(assertHeld: () => void, takeOver: boolean): Promise<void> {
    const { deps } = this;
    const began = performance.now();
    const look = await this.#look();
    const diagnosis: Diagnosis = takeOver
      ? { kind: 'recover', reason: 'the server of the latest history is gone', intact: false, behind: false }
      : diagnose(look);
    // Another worker may have been first.
    if (look.role !== 'master' || diagnosis.kind !== 'recover') return;
    const generation = await this.#nextGeneration(look);
    const token = tokenOf(deps.processId, generation);
    const epoch: Epoch = { generation, server: look.server };
    // A server that is in use is taken out of service first, so that what it has is final.
    // Not while Postgres is behind: a recovery that fails then must leave Redis as it is.
    const inUse = look.epoch?.server === look.server && !diagnosis.behind;
    if (inUse) await deps.fill.begin(token);
    await this.#collectJournal(look);
    const { afterId, lastId, drainable } = await this.#begin(epoch, diagnosis, assertHeld);
    await this.#untilReported(generation);
    assertHeld();
    // A Postgres that was set back is repaired first, by an operator; the entries wait for that.
    const missing = !diagnosis.behind && (await deps.recovered.hasPending());
    // An epoch of an older version is replaced by a fill without content.
    const replaceable = look.epoch !== null && look.epoch.generation > 0;
    if (diagnosis.intact && !missing && !inUse && replaceable) {
      const { kind } = await deps.fill.beginHistory(look.epoch, epoch, lastId);
      if (kind !== 'begun')
        throw new LockLost('entries were appended meanwhile, or another worker has replaced the epoch');
      this.#report('verified', diagnosis.reason, generation, began, {});
    } else {
      if (!isFirstStart(diagnosis)) {
        deps.log.warn({ reason: diagnosis.reason }, 'Redis is being recovered; until then every call gets 503');
      }
      if (!inUse) await this.#takeOutOfService(token, look.epoch, lastId);
      // Before the first history entries were not numbered.
      if (drainable) await deps.drain(afterId, look.postgres.latest !== null);
      const applied = missing
        ? await applyRecovered(deps, [...(await deps.histories.opened()), { generation, afterId }])
        : null;
      const all = await deps.campaigns.toRestore();
      const concerned = diagnosis.intact ? all.filter(({ no }) => applied?.campaigns.has(no)) : all;
      if (!diagnosis.intact) await deps.fill.resetJournal(token);
      await this.#restore(concerned, token, assertHeld);
      await deps.fill.end(token, epoch);
      this.#report('refilled', diagnosis.reason, generation, began, {
        campaigns: concerned.length,
        recovered: applied?.applied ?? 0,
        rejected: applied?.rejected ?? 0,
      });
    }
    await deps.histories.open(generation);
    await deps.watch.beat();
  }

  /** Later than every history that anybody has seen: also than those that a Postgres that was set back has forgotten. */
  async #nextGeneration({ postgres, epoch, journal }: Look): Promise<number> {
    const known = [
      postgres.latest?.generation,
      epoch?.generation,
      generationOf(postgres.cursor),
      generationOf(journal.lastId),
    ];
    const highest = Math.max(...known.map((generation) => generation ?? 0));
    return Math.max(highest + 1, Math.floor(await this.deps.nowMs()));
  }

  /** Registers the history, under the lock on the cursor: from here on no worker persists an older one. */
  async #begin(
    epoch: Epoch,
    { reason, intact, behind }: Extract<Diagnosis, { kind: 'recover' }>,
    assertHeld: () => void,
  ): Promise<{ afterId: string; lastId: string; drainable: boolean }> {
    const { database, cursor, histories, journal } = this.deps;
    return database.transaction(async (client) => {
      const committed = await cursor.lock(client);
      const { firstId, lastId } = await journal.position();
      const follows =
        firstId !== null && isNextOrCommitted(firstId, committed) && compareJournalIds(lastId, committed) > 0;
      const drainable = !behind && follows;
      // Behind a gap, which only a Postgres that was set back has, the journal still counts.
      const afterId = drainable || (intact && compareJournalIds(lastId, committed) > 0) ? lastId : committed;
      assertHeld();
      if (!(await histories.begin(client, { ...epoch, afterId }, reason))) {
        throw new LockLost('another worker has begun a later history');
      }
      return { afterId, lastId, drainable: drainable && compareJournalIds(lastId, JOURNAL_START) > 0 };
    });
  }

  /**
   * A server changes its id while it runs when its first replica comes, and processes append until they notice that. What
   * they appended after the history was registered would be in neither, so the recovery begins anew.
   */
  async #takeOutOfService(token: string, before: Epoch | null, lastId: string): Promise<void> {
    const { fill, journal } = this.deps;
    await fill.begin(token);
    if (before === null || (await journal.lastId()) === lastId) return;
    await fill.end(token, before);
    throw new LockLost('entries were appended meanwhile');
  }

  /** Waits for the processes that are alive: each saves what the new history lacks of its promises, and reports that. */
  async #untilReported(generation: number): Promise<void> {
    const { histories, processId, watch } = this.deps;
    while (watch.savedGeneration < generation) await watch.beat();
    const began = performance.now();
    for (;;) {
      const { processes, unsaved } = await histories.awaited(generation, processId, watch.aliveMs);
      const limit = unsaved > 0 ? COLLECT_SAVING_MS : COLLECT_MS;
      if (processes === 0 || performance.now() - began > limit) return;
      await new Promise((resolve) => setTimeout(resolve, LOOK_FOR_REPORTS_MS));
    }
  }

  /**
   * Saves what only this server's journal has: entries that it acknowledged after a later history had left it behind.
   * Their processes may be gone.
   */
  async #collectJournal({ epoch, server, journal, postgres }: Look): Promise<void> {
    const { histories, recovered, processId, log } = this.deps;
    if (!epoch || epoch.generation === 0 || !postgres.latest || epoch.generation >= postgres.latest.generation) return;
    const place = `${server} ${postgres.latest.generation} ${journal.lastId}`;
    if (this.#collectedFrom === place) return;
    const later = await histories.since(epoch.generation);
    const contained = earliest([postgres.latest.afterId, ...later.map(({ afterId }) => afterId)]);
    let saved = 0;
    for (let after = contained; ; ) {
      const read = await this.deps.journal.read(after, READ_ENTRIES);
      const entries = read.filter(({ journalId }) => generationOf(journalId) === epoch.generation);
      await recovered.save(processId, entries);
      saved += entries.length;
      const last = read.at(-1);
      if (!last) break;
      after = last.journalId;
    }
    this.#collectedFrom = place;
    if (saved > 0) {
      log.warn({ entries: saved }, 'entries that only a superseded Redis server has were saved from its journal');
    }
  }

  async #restore(campaigns: readonly StoredCampaign[], token: string, assertHeld: () => void): Promise<void> {
    const now = await this.deps.nowMs();
    for (const { productId } of campaigns) {
      assertHeld();
      // Read again: the drain may have changed its status and its total.
      const newest = await this.deps.campaigns.find(productId);
      if (newest) await restoreCampaign(this.deps, newest, now, token);
    }
  }

  #report(kind: string, reason: string, generation: number, began: number, fields: Record<string, number>): void {
    const seconds = Math.round(performance.now() - began) / 1000;
    this.deps.metrics.recoveries.inc({ kind });
    const message =
      kind === 'verified' ? 'Redis was verified and is in service' : 'Redis was refilled and is in service';
    const level = reason === FIRST_START ? 'info' : 'warn';
    this.deps.log[level]({ reason, generation, ...fields, seconds }, message);
  }

  #reportBehind(behind: boolean): void {
    if (behind && !this.#behindReported) {
      this.deps.log.error(
        {},
        'Postgres lacks journal entries that it had committed: it was set back. The sale goes on. ' +
          'Run: npm run reconcile -- --after-restore --dry-run',
      );
    }
    this.#behindReported = behind;
  }

  async #run(): Promise<void> {
    while (!this.#stopping) {
      let served = false;
      let failed = false;
      try {
        served = await this.ensureInService();
      } catch (error) {
        failed = !(error instanceof EngineUnavailable);
        // What engines report while they are away is not repeated here every half second.
        if (error instanceof LockLost) this.deps.log.warn({ reason: error.message }, 'a recovery was given up');
        else if (!(error instanceof EngineUnavailable))
          this.deps.log.error({ err: error }, 'Redis could not be recovered; trying again');
      }
      await this.#pause(served || failed ? untilNext(LOOK_EVERY_MS) : LOOK_SOON_MS);
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

function isFirstStart({ reason }: Extract<Diagnosis, { kind: 'recover' }>): boolean {
  return reason === FIRST_START;
}

function isNextOrCommitted(firstId: string, cursor: string): boolean {
  return (
    compareJournalIds(firstId, cursor) <= 0 ||
    firstId === nextId(cursor) ||
    generationOf(firstId) > generationOf(cursor)
  );
}

function tokenOf(processId: string, generation: number): string {
  return `${processId}-${generation}`;
}

async function engine<Value>(call: () => Promise<Value>): Promise<Value> {
  try {
    return await call();
  } catch (error) {
    throw new EngineUnavailable('redis', error instanceof Error ? error.message : String(error), { cause: error });
  }
}
