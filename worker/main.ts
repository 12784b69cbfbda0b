import { readConfigOrExit } from '../shared/config/config.js';
import { configureHeap } from '../shared/config/heap.js';
import { LIMITS } from '../shared/config/limits.js';
import { openLog } from '../shared/observability/log.js';
import { exitOnUncaught, stopOnSignals } from '../shared/observability/shutdown.js';
import { startWorker } from './composition.js';

/**
 * `npm run start:worker`: persists the journal, expires reservations, promotes waiting users and runs schedules. Any
 * number of workers may run.
 */
configureHeap(50);
const config = readConfigOrExit();
const log = await openLog('worker', config);
exitOnUncaught(log);
try {
  stopOnSignals(await startWorker(config, log), log, LIMITS.shutdown.stopMs);
} catch (error) {
  process.stderr.write(`the worker could not start: ${(error as Error).message}\n`);
  process.exit(1);
}
