import { Recent } from '../../shared/observability/recent.js';
import type { OutboxCursors } from '../../shared/postgres/outbox-cursors.js';
import type { Database } from '../../shared/postgres/pool.js';
import { isFullQueue, type QueueState } from '../../shared/queues/queues.js';
import { readEpoch } from '../../shared/redis/epoch.js';
import type { Shard } from '../../shared/shards/shard.js';

export type Check = { ok: boolean; detail: string };
/** `degraded`: what does not work although the process is ready, by the names of checks and queues. */
export type Readiness = { ready: boolean; checks: Record<string, Check>; degraded: string[] };

/** Age of the oldest journal entry that indicates a problem of the worker or Postgres. The sale continues. */
const JOURNAL_LAG_WARN_SECONDS = 10;
const CHECK_EVERY_MS = 1_000;

export type ReadinessDeps = {
  shards: readonly Pick<Shard, 'index' | 'scripts' | 'gate' | 'journal' | 'clock' | 'watch'>[];
  scriptNames: readonly string[];
  database: Database;
  journalLimitEntries: number;
  /** Why the replica that this process reads is not used, null = it is; null = it reads none. */
  replica: { readonly trouble: string | null } | null;
  /** The position of Kafka; null = there is no Kafka. */
  kafka: Pick<OutboxCursors, 'find'> | null;
  /** Whether this installation serves its region, and the other regions; null = it is the only one. */
  regions: (() => { own: Check; others: Record<string, Check> }) | null;
  queueStates: Pick<Recent<QueueState[]>, 'get'>;
  /** A queue with as many jobs takes no more. */
  queueJobs: number;
  /** What this process has switched off because it is overloaded. */
  switchedOff: () => readonly string[];
  /** Products of campaigns whose links to pay cannot be signed, so that their shoppers get none. */
  unsigned: () => readonly string[];
};

/**
 * Checks what this process needs to serve requests: Redis with the scripts, and room in the journal. It is ready while
 * it can serve the campaigns of one shard, because a load balancer has no better process for those of the others. An
 * outage of Postgres or Kafka, a full queue and a lagging journal are reported. They do not make the process unready,
 * because the sale continues.
 */
export class ReadinessCheck {
  draining = false;
  /** Checks Redis and Postgres at most once a second, because /readyz needs no key. */
  readonly #engines = new Recent(() => this.#askEngines(), CHECK_EVERY_MS);
  readonly #shards: readonly ShardReadiness[];

  constructor(readonly deps: ReadinessDeps) {
    this.#shards = deps.shards.map((shard) => new ShardReadiness(shard, deps));
  }

  async run(): Promise<Readiness> {
    const { shards, others, full } = await this.#engines.get();
    const draining = { ok: !this.draining, detail: this.draining ? 'stopping' : 'no' };
    const now = shards.map((checks, i) => ({
      ...checks,
      redis: this.#shards[i]?.withGate(checks.redis) ?? checks.redis,
    }));
    const off = this.deps.switchedOff();
    const load = { ok: off.length === 0, detail: off.length === 0 ? 'everything is on' : `off: ${off.join(', ')}` };
    const unsigned = this.deps.unsigned().length;
    const payLinks = unsigned > 0 && {
      pay_links: { ok: false, detail: `PAY_LINK_KEYS is not set, and ${unsigned} campaigns have {signature}` },
    };
    const { trouble } = this.deps.replica ?? { trouble: null };
    const replica = this.deps.replica && {
      replica: { ok: trouble === null, detail: trouble ? 'away or behind, so the primary is read' : 'follows' },
    };
    const regions = this.deps.regions?.();
    // A region that cannot be called does not make this one unready, because it serves its own codes.
    const ofRegions = regions && { region: regions.own, ...regions.others };
    const ready = now.some(isServing) && draining.ok && regions?.own.ok !== false;
    const [only] = now;
    const ofShards = only && now.length === 1 ? only : severalShards(now);
    const checks = { ...ofShards, ...others, ...replica, load, ...payLinks, ...ofRegions, draining };
    const failing = Object.entries(checks).filter(([name, { ok }]) => !ok && name !== 'queues');
    return { ready, checks, degraded: [...failing.map(([name]) => name), ...full.map((queue) => `queue ${queue}`)] };
  }

  async #askEngines() {
    const [shards, full, postgres, kafka] = await Promise.all([
      Promise.all(this.#shards.map((shard) => shard.ask())),
      this.#fullQueues(),
      check(async () => void (await this.deps.database.query('select 1')), 'answers'),
      this.#kafka(),
    ]);
    const queues =
      full.length === 0 ? { ok: true, detail: 'take jobs' } : { ok: false, detail: `full: ${full.join(', ')}` };
    return { shards, full, others: { postgres, queues, ...kafka } };
  }

  /** Names of the queues that take no more jobs. While the queues cannot be read, the check of Redis has the reason. */
  async #fullQueues(): Promise<string[]> {
    const states = await this.deps.queueStates.get().catch((): QueueState[] => []);
    return states.filter((state) => isFullQueue(state, this.deps.queueJobs)).map(({ queue }) => queue);
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
}

type ShardChecks = { redis: Check; scripts: Check; journal: Check };

const isServing = ({ redis, scripts, journal }: ShardChecks): boolean => redis.ok && scripts.ok && journal.ok;

/** One check for each shard, with the first problem of it, and one for all. */
function severalShards(all: readonly ShardChecks[]): Record<string, Check> {
  const serving = all.filter(isServing).length;
  const each = all.map((checks, index): [string, Check] => {
    const problem = Object.entries(checks).find(([, { ok }]) => !ok);
    const detail = problem ? `${problem[0]}: ${problem[1].detail}` : checks.journal.detail;
    return [`shard_${index}`, { ok: problem === undefined, detail }];
  });
  return {
    redis: { ok: serving > 0, detail: `${serving} of ${all.length} shards serve their campaigns` },
    ...Object.fromEntries(each),
  };
}

/** The checks of one shard. */
class ShardReadiness {
  constructor(
    readonly shard: ReadinessDeps['shards'][number],
    readonly deps: Pick<ReadinessDeps, 'scriptNames' | 'journalLimitEntries'>,
  ) {}

  async ask(): Promise<ShardChecks> {
    const { scripts, gate } = this.shard;
    const [redis, loaded, journal] = await Promise.all([
      check(async () => {
        // Detects a Redis that was emptied without closing its connections, if no call has detected it before.
        if ((await readEpoch(scripts.redis)) === null) gate.distrust('Redis is empty or being filled');
      }, 'answers'),
      check(() => scripts.load(this.deps.scriptNames), 'loaded'),
      this.#journal(),
    ]);
    return { redis, scripts: loaded, journal };
  }

  /** Reads the gate on every call, because the gate closes at once when Redis becomes unavailable. */
  withGate(redis: Check): Check {
    const { gate } = this.shard;
    if (!redis.ok || gate.isOpen) return redis;
    return { ok: false, detail: gate.reason || 'not verified by a worker yet' };
  }

  async #journal(): Promise<Check> {
    const { journal, clock, watch } = this.shard;
    try {
      const { entries, oldestMs } = await journal.backlog();
      const lag = oldestMs === null ? 0 : Math.max(0, Math.round((clock.nowMs() - oldestMs) / 1000));
      const late = lag > JOURNAL_LAG_WARN_SECONDS ? '; the worker or Postgres is behind' : '';
      const gap = watch.isSetBack ? '; Postgres was set back: run npm run reconcile -- --after-restore' : '';
      return {
        ok: entries < this.deps.journalLimitEntries,
        detail: `${entries} entries, the oldest ${lag} s old${late}${gap}`,
      };
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
