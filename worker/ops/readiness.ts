import type { Database } from '../../shared/postgres/pool.js';
import type { Shard } from '../../shared/shards/shard.js';

export type Check = { ok: boolean; detail: string };
export type WorkerReadiness = { ready: boolean; checks: Record<'redis' | 'postgres' | 'draining', Check> };

export type WorkerReadinessDeps = {
  shards: readonly Pick<Shard, 'commands' | 'gate'>[];
  database: Pick<Database, 'query'>;
};

/**
 * Checks what a worker needs: Postgres, and a shard of Redis that is in service. Without either it keeps running and
 * goes on when they are back, so a probe of liveness must not use this.
 */
export class WorkerReadinessCheck {
  draining = false;

  constructor(readonly deps: WorkerReadinessDeps) {}

  async run(): Promise<WorkerReadiness> {
    const [redis, postgres] = await Promise.all([this.#redis(), this.#postgres()]);
    const draining = { ok: !this.draining, detail: this.draining ? 'stopping' : 'no' };
    const checks = { redis, postgres, draining };
    return { ready: Object.values(checks).every(({ ok }) => ok), checks };
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
