import type { Config } from '../shared/config/config.js';
import { LIMITS } from '../shared/config/limits.js';
import { inspectRedis } from '../shared/datastores/connect.js';
import { Lifecycle } from '../shared/observability/lifecycle.js';
import type { Log } from '../shared/observability/log.js';
import { postMetrics } from '../shared/observability/post-metrics.js';
import type { Stoppable } from '../shared/observability/shutdown.js';
import { MetricsStore } from '../shared/redis/metrics-store.js';
import { archiveModule } from './archive/archive.module.js';
import { codesModule } from './codes/codes.module.js';
import { connect } from './core.js';
import { addJobRetries, addJobWorkers, addSweeps } from './job-workers.js';
import { probesModule } from './ops/ops.module.js';
import { persistModule, relayModule } from './persist/persist.module.js';
import { createHomeSweeps, createProcessors, createShardSweeps } from './processors.js';
import { publishOutboxModule } from './publish-outbox/publish-outbox.module.js';
import { pushModule } from './push/push.module.js';
import { reconcileModule } from './reconcile/reconcile.module.js';
import { recoveryModule } from './recovery/recovery.module.js';
import { roundsModule } from './rounds/rounds.module.js';
import { SweepTurns } from './sweeps/sweep-turns.js';

/**
 * Connects the modules of the worker and starts them in the order of this function. They stop in the reverse order:
 * sweeps, the relay and the recovery first, then jobs, then the publisher and the datastores.
 */
export async function startWorker(config: Config, log: Log): Promise<Stoppable> {
  await inspectRedis(config, log);
  const life = new Lifecycle(log);
  const core = await connect(config, log, life);
  const { name, metrics, clock, shards, queues } = core;
  const probes = probesModule(core);
  const events = publishOutboxModule(core);
  const persists = persistModule(core, { publish: (written) => events.publisher.committed(written) });
  const refilling = recoveryModule(core, persists);
  const reconcile = reconcileModule(core, refilling);
  const codes = codesModule(core);
  const archive = archiveModule(core);
  addJobWorkers(core, createProcessors(core, { reconcile, events, codes }));
  relayModule(core, persists);
  roundsModule(
    core,
    shards.all.map(({ commands }) => new SweepTurns(commands)),
  );
  const sweepsDeps = { reconcile, events, codes, archive, refilling };
  for (const shard of shards.all) addSweeps(core, shard, createShardSweeps(core, shard, sweepsDeps));
  addSweeps(core, shards.home, createHomeSweeps(core, sweepsDeps));
  const notify = pushModule(core);
  if (notify) addSweeps(core, shards.home, { push: { everyMs: LIMITS.pushEveryMs, run: notify } });
  addJobRetries(core);
  life.add(
    'posted metrics',
    postMetrics(name, metrics, new MetricsStore(shards.home.commands), () => clock.nowMs()),
  );
  probes.addDraining();
  await life.start();
  // Repairs differences that a crash may have left. If this job is lost, the `reconcile` sweep repairs them later.
  queues
    .add('reconcile', `start-${name}`, {})
    .catch((error: Error) => log.warn({ reason: error.message }, 'the reconciliation at the start was not queued'));
  log.info({ name }, 'the worker is running');
  return life;
}
