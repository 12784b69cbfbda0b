import { readConfigOrExit } from '../shared/config/config.js';
import { LIMITS } from '../shared/config/limits.js';
import { createLog } from '../shared/observability/log.js';
import { exitOnUncaught, stopOnSignals } from '../shared/observability/shutdown.js';
import { startApi } from './composition.js';

/** `npm run start:api`: HTTP and WebSockets. Any number may run. */
const config = readConfigOrExit();
const log = createLog('api', config.logLevel);
exitOnUncaught(log);
try {
  stopOnSignals(await startApi(config, log), log, LIMITS.stopMs);
} catch (error) {
  const { code } = error as NodeJS.ErrnoException;
  const reason =
    code === 'EADDRINUSE'
      ? `port ${config.port} on ${config.host} is taken; set PORT to another`
      : ((error as Error).message ?? String(error));
  process.stderr.write(`the API could not start: ${reason}\n`);
  process.exit(1);
}
