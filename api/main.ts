import cluster from 'node:cluster';
import { readConfigOrExit } from '../shared/config/config.js';
import { LIMITS } from '../shared/config/limits.js';
import { createLog } from '../shared/observability/log.js';
import { exitOnUncaught, stopOnSignals } from '../shared/observability/shutdown.js';
import { shapeProblemsAtStart } from '../shared/redis/require-shape.js';
import { startApi } from './composition.js';
import { startApiProcesses } from './processes.js';

/** `npm run start:api`: HTTP and WebSockets. Any number may run, on one port (API_PROCESSES) or on several machines. */
const config = readConfigOrExit();
const log = createLog('api', config.logLevel);
exitOnUncaught(log);
if (config.madeSecrets.length > 0) {
  log.warn(
    { names: config.madeSecrets },
    'secrets were not given and hold for this process alone; give them to know them',
  );
}
const problems = await shapeProblemsAtStart(config.redisUrl, config.production);
if (problems.length > 0) {
  process.stderr.write(`${problems.join('\n')}\n`);
  process.exit(1);
}
try {
  const several = config.apiProcesses > 1 && cluster.isPrimary;
  const running = several ? startApiProcesses(config.apiProcesses, log) : await startApi(config, log);
  // The primary waits for its processes, which have the same deadline.
  stopOnSignals(running, log, several ? LIMITS.stopMs + 1_000 : LIMITS.stopMs);
} catch (error) {
  const { code, message } = error as NodeJS.ErrnoException;
  const taken = `port ${config.port} on ${config.host} is taken; set PORT to another`;
  process.stderr.write(`the API could not start: ${code === 'EADDRINUSE' ? taken : message}\n`);
  process.exit(1);
}
