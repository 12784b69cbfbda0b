import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from '../../shared/postgres/pool.js';
import { isFullQueue, type JobQueues } from '../../shared/queues/queues.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';
import type { Shard } from '../../shared/shards/shard.js';

export type Check = { ok: boolean; detail: string };
/** `degraded`: what does not work, by the names of checks, and queues that take no more jobs. */
export type WorkerReadiness = {
  ready: boolean;
  checks: Record<'redis' | 'postgres' | 'draining', Check>;
  degraded: string[];
};

/** The queues of a shard that is away do not respond until it is back. */
const QUEUES_WAIT_MS = 1_000;

export type WorkerReadinessDeps = {
  shards: readonly Pick<Shard, 'commands' | 'gate'>[];
  database: Pick<Database, 'query'>;
  queues: Pick<JobQueues, 'states'>;
  clock: Pick<RedisClock, 'nowMs'>;
  /** A queue with as many jobs takes no more. */
  queueJobs: number;
};

/**
 * Checks what a worker needs: Postgres, and a shard of Redis that is in service. Without either it keeps running and
 * goes on when they are back, so a probe of liveness must not use this.
 */
export class WorkerReadinessCheck {
  draining = false;

  constructor(readonly deps: WorkerReadinessDeps) {}

  async run(): Promise<WorkerReadiness> {
    const [redis, postgres, full] = await Promise.all([this.#redis(), this.#postgres(), this.#fullQueues()]);
    const draining = { ok: !this.draining, detail: this.draining ? 'stopping' : 'no' };
    const checks = { redis, postgres, draining };
    const failing = Object.entries(checks).filter(([, { ok }]) => !ok);
    return { ready: failing.length === 0, checks, degraded: [...failing.map(([name]) => name), ...full] };
  }

  /** Full queues do not make a worker unready, because it works them off. */
  async #fullQueues(): Promise<string[]> {
    const { queues, queueJobs, clock } = this.deps;
    const states = await Promise.race([
      queues.states(clock.nowMs()).catch(() => []),
      sleep(QUEUES_WAIT_MS, [], { ref: false }),
    ]);
    return states.filter((state) => isFullQueue(state, queueJobs)).map(({ queue }) => `queue ${queue}`);
  }

  async #redis(): Promise<Check> {
    const { shards } = this.deps;
    const replies = await Promise.allSettled(shards.map(({ commands }) => commands.ping()));
    const answering = shards.filter((_shard, i) => replies[i]?.status === 'fulfilled');
    if (answering.length === 0) return { ok: false, detail: 'does not answer' };
    const serving = answering.filter(({ gate }) => gate.isOpen).length;
    if (shards.length > 1) return { ok: serving > 0, detail: `${serving} of ${shards.length} shards are in service` };
    const [only] = answering;
    if (serving > 0) return { ok: true, detail: 'answers' };
    return { ok: false, detail: only?.gate.reason || 'not verified yet' };
  }

  async #postgres(): Promise<Check> {
    try {
      await this.deps.database.query('select 1');
      return { ok: true, detail: 'answers' };
    } catch {
      return { ok: false, detail: 'does not answer' };
    }
  }
}
