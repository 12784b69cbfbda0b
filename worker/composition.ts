import type { Config } from '../shared/config/config.js';
import { inspectEngines } from '../shared/datastores/connect.js';
import { Lifecycle } from '../shared/observability/lifecycle.js';
import type { Log } from '../shared/observability/log.js';
import { postMetrics } from '../shared/observability/post-metrics.js';
import type { Stoppable } from '../shared/observability/shutdown.js';
import { MetricsStore } from '../shared/redis/metrics-store.js';
import { archiveModule } from './archive/archive.module.js';
import { codesModule } from './codes/codes.module.js';
import { connect } from './core.js';
import { deadlinesModule, expireModule } from './expire/expire.module.js';
import { probesModule } from './ops/ops.module.js';
import { drainModule, feederModule, persistModule } from './persist/persist.module.js';
import { createProcessors, createSweeps } from './processors.js';
import { publishOutboxModule } from './publish-outbox/publish-outbox.module.js';
import { pushModule } from './push/push.module.js';
import { addQueueUpkeep } from './queue-upkeep.js';
import { addQueueWorkers, failureReporter } from './queue-workers.js';
import { reconcileModule } from './reconcile/reconcile.module.js';
import { recoveryModule } from './recovery/recovery.module.js';
import { RoundTurns } from './rounds/round-turns.js';
import { roundsModule } from './rounds/rounds.module.js';
import { Sweeps } from './sweeps/sweeps.js';

/**
 * Connects the modules of the worker and starts them in the order of this function. They stop in the reverse order:
 * what adds jobs first, then jobs, then the publisher and the datastores.
 */
export async function startWorker(config: Config, log: Log): Promise<Stoppable> {
  await inspectEngines(config, log);
  const life = new Lifecycle(log);
  const core = await connect(config, log, life);
  const { name, metrics, clock, shards } = core;
  const probes = probesModule(core);
  const events = publishOutboxModule(core);
  const persists = persistModule(core, { publish: (written) => events.publisher.committed(written) });
  const refilling = recoveryModule(core, persists);
  const reconcile = reconcileModule(core, refilling);
  const codes = codesModule(core);
  const archive = archiveModule(core);
  const sweeps = new Sweeps(
    createSweeps(core, { reconcile, events, codes, archive, refilling, push: pushModule(core) }),
  );
  const onFailed = failureReporter(core);
  const [persisting, expiring] = [drainModule(core, persists), expireModule(core)];
  const processors = createProcessors(core, { persisting, expiring, reconcile, events, codes, sweeps });
  const onFull = addQueueUpkeep(core, { sweeps, onFailed });
  addQueueWorkers(core, processors, {
    failed: onFailed,
    error: core.onQueueError,
    full: onFull,
  });
  feederModule(core, persisting, onFailed);
  deadlinesModule(core, expiring, onFailed);
  roundsModule(
    core,
    shards.all.map(({ commands }) => new RoundTurns(commands)),
  );
  life.add(
    'posted metrics',
    postMetrics(name, metrics, new MetricsStore(shards.home.commands), () => clock.nowMs()),
  );
  probes.addDraining();
  await life.start();
  log.info({ name }, 'the worker is running');
  return life;
}
