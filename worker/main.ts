import { readConfigOrExit } from '../shared/config/config.js';
import { LIMITS } from '../shared/config/limits.js';
import { createLog } from '../shared/observability/log.js';
import { exitOnUncaught, stopOnSignals } from '../shared/observability/shutdown.js';
import { shapeProblemsAtStart } from '../shared/redis/require-shape.js';
import { startWorker } from './composition.js';

/** `npm run start:worker`: journal to Postgres, deadlines, promotions, schedules. Any number may run. */
const config = readConfigOrExit();
const log = createLog('worker', config.logLevel);
exitOnUncaught(log);
const problems = await shapeProblemsAtStart(config.redisUrl, config.production);
if (problems.length > 0) {
  process.stderr.write(`${problems.join('\n')}\n`);
  process.exit(1);
}
stopOnSignals(await startWorker(config, log), log, LIMITS.stopMs);
