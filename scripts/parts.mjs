// API and worker of `npm start`: one program each, with its log in a file, ready when /readyz returns 200.
import { join } from 'node:path';
import { inShort } from './log-watch.mjs';
import { closeLog, openLog, tailOf } from './logfile.mjs';
import { Problem } from './problem.mjs';
import { launch } from './processes.mjs';
import { pause } from './waiting.mjs';

const READY_LIMIT_MS = 60_000;
const ASK_LIMIT_MS = 2_000;
const ASK_EVERY_MS = 100;

/** @typedef {{ title: string, root: string, entry: string, env: NodeJS.ProcessEnv, logPath: string }} ServiceOptions */
/** @typedef {import('./processes.mjs').Running & { title: string, tail: () => string, logPath: string }} Service */

/**
 * @param {ServiceOptions} options
 * @returns {Promise<Service>}
 */
export async function startService({ title, root, entry, env, logPath }) {
  const { descriptor, start } = openLog(logPath);
  try {
    const running = await launch(process.execPath, [join(root, entry)], {
      cwd: root,
      env,
      stdio: ['ignore', descriptor, descriptor],
    });
    return { ...running, title, logPath, tail: () => tailOf(logPath, { start }) };
  } finally {
    closeLog(descriptor);
  }
}

/**
 * Returns when the server is ready; fails when it takes too long or one of the services ends meanwhile.
 * @param {string} address of the API
 * @param {Service[]} services
 * @param {(note: string) => void} say
 * @returns {Promise<void>}
 */
export async function waitUntilReady(address, services, say) {
  const end = Date.now() + READY_LIMIT_MS;
  let answer = 'no answer';
  while (Date.now() < end) {
    const ended = services.find((service) => service.exit() !== undefined);
    if (ended !== undefined) {
      const { code, signal } = ended.exit() ?? {};
      throw new Problem(`The ${ended.title} ended while starting, with ${signal ?? `code ${code}`}.`, {
        details: ended.tail(),
        remedy: `Its log: ${ended.logPath}`,
      });
    }
    answer = await readiness(address);
    if (answer === 'ready') return;
    say(lastTrouble(services) ?? answer);
    await pause(ASK_EVERY_MS);
  }
  throw new Problem(`The server was not ready after ${READY_LIMIT_MS / 1000} s: ${answer}`, {
    details: services.map((service) => service.tail()).join('\n'),
    remedy: `The logs: ${services.map((service) => service.logPath).join(', ')}`,
  });
}

/**
 * Returns the errors of the services, which explain why they are not ready.
 * @param {Service[]} services
 */
function lastTrouble(services) {
  const complaints = services.flatMap(({ title, tail }) => {
    const line = tail()
      .split('\n')
      .map(inShort)
      .findLast((text) => text !== undefined);
    return line === undefined ? [] : [`${title}: ${line}`];
  });
  return complaints[0];
}

/** @param {string} address */
async function readiness(address) {
  try {
    const response = await fetch(`${address}/readyz`, { signal: AbortSignal.timeout(ASK_LIMIT_MS) });
    const text = await response.text();
    return response.status === 200 ? 'ready' : `not ready: ${failedChecks(text) ?? text}`;
  } catch {
    return 'no answer yet';
  }
}

/**
 * Returns what the failed checks of /readyz say, those of a shard first, because they say more than their sum does.
 * @param {string} text of the response
 * @returns {string | undefined}
 */
function failedChecks(text) {
  try {
    const checks = Object.entries(JSON.parse(text).data.checks).filter(([, { ok }]) => !ok);
    const [shards, others] = [true, false].map((of) => checks.filter(([name]) => name.startsWith('shard_') === of));
    return (
      [...(shards ?? []), ...(others ?? [])].map(([name, { detail }]) => `${name}: ${detail}`).join('; ') || undefined
    );
  } catch {
    return undefined;
  }
}
