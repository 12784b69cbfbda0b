import type { Database } from '../../shared/postgres/pool.js';
import { readEpoch } from '../../shared/redis/epoch.js';
import type { RedisGate } from '../../shared/redis/gate.js';
import type { Journal } from '../../shared/redis/journal.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';
import type { ScriptRunner } from '../../shared/redis/script-runner.js';

export type Check = { ok: boolean; detail: string };
export type Readiness = { ready: boolean; checks: Record<string, Check> };

/** A journal older than this says that the worker or Postgres is in trouble; the sale goes on, on-call should look. */
const JOURNAL_LAG_WARN_SECONDS = 10;

/**
 * What this process needs to serve: Redis with our scripts, and room in the journal. Postgres away and a journal that lags
 * are told but do not take the process out of service, since the sale goes on without them.
 */
export class ReadinessCheck {
  draining = false;

  constructor(
    readonly scripts: ScriptRunner,
    readonly gate: RedisGate,
    readonly scriptNames: readonly string[],
    readonly database: Database,
    readonly journal: Journal,
    readonly clock: RedisClock,
    readonly journalLimitEntries: number,
  ) {}

  async run(): Promise<Readiness> {
    const [redis, scripts, postgres, journal] = await Promise.all([
      this.#redis(),
      check(() => this.scripts.load(this.scriptNames), 'loaded'),
      check(async () => void (await this.database.query('select 1')), 'answers'),
      this.#journal(),
    ]);
    const draining = { ok: !this.draining, detail: this.draining ? 'stopping' : 'no' };
    return {
      ready: redis.ok && scripts.ok && journal.ok && draining.ok,
      checks: { redis, scripts, postgres, journal, draining },
    };
  }

  async #redis(): Promise<Check> {
    const answers = await check(async () => {
      // A Redis that was emptied without losing its connections is found here at the latest.
      if ((await readEpoch(this.scripts.redis)) === null) this.gate.distrust('it has no epoch');
    }, 'answers');
    if (!answers.ok || this.gate.isOpen) return answers;
    return { ok: false, detail: 'is being rebuilt from Postgres; a worker does it' };
  }

  async #journal(): Promise<Check> {
    try {
      const { entries, oldestMs } = await this.journal.backlog();
      const lag = oldestMs === null ? 0 : Math.max(0, Math.round((this.clock.nowMs() - oldestMs) / 1000));
      const late = lag > JOURNAL_LAG_WARN_SECONDS ? '; the worker or Postgres is behind' : '';
      return { ok: entries < this.journalLimitEntries, detail: `${entries} entries, the oldest ${lag} s old${late}` };
    } catch {
      return { ok: false, detail: 'could not be read' };
    }
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
