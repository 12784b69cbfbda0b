import { parseArgs } from 'node:util';
import { readConfigOrExit } from '../shared/config/config.js';
import { configureHeap } from '../shared/config/heap.js';
import { identityNotes } from '../shared/config/identity.js';
import { openLog } from '../shared/observability/log.js';
import { exitOnUncaught, stopOnSignals } from '../shared/observability/shutdown.js';
import { start, stopLimitMs } from './composition.js';

const USAGE = `npm run start:api -- [--role all|read|write]

Starts an API: HTTP and WebSockets. Any number may run, on one port (API_PROCESSES) or on several machines.

  --role   what it serves, as API_ROLE (docs/deployment.md)
  --help   shows this text

The other settings are environment variables: docs/configuration.md.
`;

/** `npm run start:api` */
// A flood is in memory until the next full collection.
configureHeap(20);
const config = readConfigOrExit(given(process.argv.slice(2)), ({ apiRole, apiWriteUrl }) =>
  apiRole === 'read' && apiWriteUrl === null ? 'API_WRITE_URL is missing: API_ROLE=read needs it' : null,
);
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

/** The settings of the command line, which go before those of the environment. */
function given(args: readonly string[]): Record<string, string> {
  try {
    const options = { role: { type: 'string' }, help: { type: 'boolean' } } as const;
    const { role, help } = parseArgs({ args: [...args], options }).values;
    if (help) {
      process.stdout.write(USAGE);
      process.exit(0);
    }
    if (role === '') throw new Error('--role has no value');
    return role === undefined ? {} : { API_ROLE: role };
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n\n${USAGE}`);
    process.exit(1);
  }
}
