// `npm start`: runs all of Doorbuster on this machine, from a bare clone, until Ctrl-C.
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { requireNode } from './node-version.mjs';
import { Interrupted } from './problem.mjs';
import { createTerminal } from './terminal.mjs';

const USAGE = `npm start: installs what is missing, builds what is stale, starts Postgres, Redis, API and worker, and stops
them again on Ctrl-C. It takes no arguments.

  PORT, HOST            where the API listens (8102, 127.0.0.1)
  DATA_DIR              where data, secrets and logs are kept (.data)
  REDIS_URL             use this Redis instead of a private one
  DATABASE_URL          use this Postgres instead of a private one
  DEMO=0                do not make the demo campaigns

The rest of the environment is described in .env.example.`;

process.exit(await main(process.argv.slice(2)));

/**
 * @param {string[]} args
 * @returns {Promise<number>} the exit code
 */
async function main(args) {
  const terminal = createTerminal();
  const [first] = args;
  if (first === '--help' || first === '-h') {
    terminal.print(USAGE);
    return 0;
  }
  if (first !== undefined) {
    terminal.print(`npm start takes no arguments, but got ${first}.\n\n${USAGE}`);
    return 2;
  }
  try {
    requireNode();
  } catch (error) {
    terminal.explain(error);
    return 1;
  }
  // Imported here, because these modules need a newer Node than the message about an old one.
  const { onStopRequest } = await import('./stop-requests.mjs');
  const { Launcher } = await import('./launcher.mjs');
  const launcher = new Launcher(dirname(dirname(fileURLToPath(import.meta.url))), terminal);

  return new Promise((resolve) => {
    const end = (/** @type {number} */ code) => {
      const cannotStop = (/** @type {unknown} */ error) => terminal.explain(error);
      void launcher
        .stop()
        .catch(cannotStop)
        .then(() => resolve(code));
    };
    const fail = (/** @type {unknown} */ error) => {
      if (error instanceof Interrupted || launcher.isStopping) return;
      terminal.explain(error);
      const exitCode = error instanceof Error && 'exitCode' in error ? Number(error.exitCode) : 1;
      end(exitCode);
    };
    onStopRequest({ stop: () => (launcher.isStopping ? launcher.hurry() : end(0)), hurry: () => launcher.hurry() });
    process.on('uncaughtException', fail);
    process.on('unhandledRejection', fail);
    launcher.start(process.env).catch(fail);
  });
}
