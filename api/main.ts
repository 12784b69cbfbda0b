import { readConfigOrExit } from '../shared/config/config.js';
import { identityNotes } from '../shared/config/identity.js';
import { openLog } from '../shared/observability/log.js';
import { exitOnUncaught, stopOnSignals } from '../shared/observability/shutdown.js';
import { start, stopLimitMs } from './composition.js';

/** `npm run start:api`: HTTP and WebSockets. Any number may run, on one port (API_PROCESSES) or on several machines. */
const config = readConfigOrExit();
const log = await openLog('api', config);
exitOnUncaught(log);
if (config.madeSecrets.length > 0) {
  log.warn(
    { names: config.madeSecrets },
    'secrets were not given and hold for this process alone; give them to know them',
  );
}
const { meaning, warnings } = identityNotes(config.identity);
log.info({ identity: config.identity.mode, meaning }, 'shoppers are identified');
for (const warning of warnings) log.warn({ identity: config.identity.mode }, warning);
try {
  stopOnSignals(await start(config, log), log, stopLimitMs(config));
} catch (error) {
  const { code, message } = error as NodeJS.ErrnoException;
  const isOps = (error as { port?: number }).port === config.opsPort;
  const [port, name] = isOps ? [config.opsPort, 'OPS_PORT'] : [config.port, 'PORT'];
  const taken = `port ${port} on ${config.host} is taken; set ${name} to another`;
  process.stderr.write(`the API could not start: ${code === 'EADDRINUSE' ? taken : message}\n`);
  process.exit(1);
}
