import type { HistoryWatch } from '../../shared/history/history-watch.js';
import type { OutboxCursors } from '../../shared/postgres/outbox-cursors.js';
import type { Database } from '../../shared/postgres/pool.js';
import { readEpoch } from '../../shared/redis/epoch.js';
import type { RedisGate } from '../../shared/redis/gate.js';
import type { Journal } from '../../shared/redis/journal.js';
import { compareJournalIds, generationOf, nextId } from '../../shared/redis/journal-ids.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';
import type { ScriptRunner } from '../../shared/redis/script-runner.js';
import { Recent } from './recent.js';

export type Check = { ok: boolean; detail: string };
export type Readiness = { ready: boolean; checks: Record<string, Check> };

/** Age of the oldest journal entry that indicates a problem of the worker or Postgres. The sale continues. */
const JOURNAL_LAG_WARN_SECONDS = 10;
const CHECK_EVERY_MS = 1_000;

export type ReadinessDeps = {
  scripts: ScriptRunner;
  scriptNames: readonly string[];
  gate: RedisGate;
  database: Database;
  journal: Journal;
  clock: RedisClock;
  history: HistoryWatch;
  journalLimitEntries: number;
  /** The position of Kafka; null = there is no Kafka. */
  kafka: Pick<OutboxCursors, 'find'> | null;
};

/**
 * Checks what this process needs to serve requests: Redis with the scripts, and room in the journal. An outage of
 * Postgres or Kafka and a lagging journal are reported, but they do not make the process unready, because the sale
 * continues.
 */
export class ReadinessCheck {
  draining = false;
  /** Checks Redis and Postgres at most once a second, because /readyz needs no key. */
  readonly #engines = new Recent(() => this.#askEngines(), CHECK_EVERY_MS);

  constructor(readonly deps: ReadinessDeps) {}

  async run(): Promise<Readiness> {
    const { redis, ...others } = await this.#engines.get();
    const draining = { ok: !this.draining, detail: this.draining ? 'stopping' : 'no' };
    const checks = { redis: this.#withGate(redis), ...others, draining };
    const { scripts, journal } = others;
    return { ready: checks.redis.ok && scripts.ok && journal.ok && draining.ok, checks };
  }

  async #askEngines() {
    const [redis, scripts, postgres, journal, kafka] = await Promise.all([
      check(async () => {
        // Detects a Redis that was emptied without closing its connections, if no call has detected it before.
        if ((await readEpoch(this.deps.scripts.redis)) === null)
          this.deps.gate.distrust('Redis is empty or being filled');
      }, 'answers'),
      check(() => this.deps.scripts.load(this.deps.scriptNames), 'loaded'),
      check(async () => void (await this.deps.database.query('select 1')), 'answers'),
      this.#journal(),
      this.#kafka(),
    ]);
    return { redis, scripts, postgres, journal, ...kafka };
  }

  /** What the worker that sends to Kafka has recorded. The reason is in its log, because this call needs no key. */
  async #kafka(): Promise<{ kafka?: Check }> {
    const { kafka } = this.deps;
    if (!kafka) return {};
    try {
      const cursor = await kafka.find('kafka');
      if (!cursor) return { kafka: { ok: false, detail: 'no worker has sent to it yet' } };
      const { failingSince } = cursor;
      if (!failingSince) return { kafka: { ok: true, detail: 'receives events' } };
      const since = failingSince.toISOString();
      return { kafka: { ok: false, detail: `receives nothing since ${since}; events are kept for it` } };
    } catch {
      return { kafka: { ok: false, detail: 'its position could not be read' } };
    }
  }

  /** Reads the gate on every call, because the gate closes at once when Redis becomes unavailable. */
  #withGate(redis: Check): Check {
    if (!redis.ok || this.deps.gate.isOpen) return redis;
    return { ok: false, detail: this.deps.gate.reason || 'not verified by a worker yet' };
  }

  async #journal(): Promise<Check> {
    try {
      const { entries, oldestMs } = await this.deps.journal.backlog();
      const lag = oldestMs === null ? 0 : Math.max(0, Math.round((this.deps.clock.nowMs() - oldestMs) / 1000));
      const late = lag > JOURNAL_LAG_WARN_SECONDS ? '; the worker or Postgres is behind' : '';
      const gap = (await this.#hasGap()) ? '; Postgres was set back: run npm run reconcile -- --after-restore' : '';
      return {
        ok: entries < this.deps.journalLimitEntries,
        detail: `${entries} entries, the oldest ${lag} s old${late}${gap}`,
      };
    } catch {
      return { ok: false, detail: 'could not be read' };
    }
  }

  /** Whether Postgres lacks entries that are no longer in the journal. The sale continues without them. */
  async #hasGap(): Promise<boolean> {
    const { state } = this.deps.history;
    if (!state?.latest) return false;
    const { firstId, lastId } = await this.deps.journal.position();
    if (compareJournalIds(lastId, state.cursor) <= 0 || lastId === state.latest.afterId) return false;
    // Reads the cursor again, so that entries persisted since the first read do not count as missing.
    const { cursor } = await this.deps.history.beat();
    if (firstId === null) return compareJournalIds(lastId, cursor) > 0;
    return compareJournalIds(firstId, nextId(cursor)) > 0 && generationOf(firstId) === generationOf(cursor);
  }
}

async function check(run: () => Promise<void>, good: string): Promise<Check> {
  try {
    await run();
    return { ok: true, detail: good };
  } catch {
    return { ok: false, detail: 'does not answer' };
  }
}
