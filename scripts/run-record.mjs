// Keeps run.json in the data directory for the next start: the engines' ports, so that bookmarks and open consoles
// still work, and the processes, so that those of a killed start can be ended before new ones open the data.
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { identityOf, isRunning } from './process-identity.mjs';
import { sendSignal } from './processes.mjs';
import { until } from './waiting.mjs';

/** In the order in which they are ended. */
const NAMES = /** @type {const} */ (['api', 'worker', 'redis', 'pgbouncer', 'postgres']);
const END_LIMIT_MS = 20_000;

/** @typedef {(typeof NAMES)[number]} ProcessName */
/** @typedef {{ pid: number, identity: string }} Recorded */
/**
 * @typedef {{ ports: { redis?: number, postgres?: number }, address?: string,
 *   processes: Partial<Record<ProcessName, Recorded>> }} RunRecord  address: of the API
 */

/**
 * @param {string} dataDir
 * @returns {RunRecord}
 */
export function readRunRecord(dataDir) {
  try {
    const { ports = {}, processes = {}, address } = JSON.parse(readFileSync(pathIn(dataDir), 'utf8'));
    return { ports, processes, address };
  } catch {
    return { ports: {}, processes: {} };
  }
}

/**
 * @param {string} dataDir
 * @param {ProcessName} name
 * @param {{ pid: number, port?: number, address?: string }} started
 * @returns {void}
 */
export function recordProcess(dataDir, name, { pid, port, address }) {
  const record = readRunRecord(dataDir);
  record.processes[name] = { pid, identity: identityOf(pid) ?? '' };
  if (port !== undefined && (name === 'redis' || name === 'postgres')) record.ports[name] = port;
  if (address !== undefined) record.address = address;
  write(dataDir, record);
}

/**
 * Removes the processes after a clean stop; the ports stay.
 * @param {string} dataDir
 * @returns {void}
 */
export function forgetProcesses(dataDir) {
  write(dataDir, { ...readRunRecord(dataDir), processes: {} });
}

/**
 * Ends the processes of a killed start, in order, and returns their number.
 * @param {string} dataDir
 * @param {(note: string) => void} say
 * @returns {Promise<number>}
 */
export async function endLeftovers(dataDir, say) {
  const { processes } = readRunRecord(dataDir);
  let ended = 0;
  for (const name of NAMES) {
    const left = processes[name];
    if (left === undefined || !isRunning(left)) continue;
    ended += 1;
    say(`${name}, process ${left.pid}`);
    sendSignal(left.pid, name === 'postgres' ? 'SIGINT' : 'SIGTERM');
    const gone = await until(() => !isRunning(left), { limitMs: END_LIMIT_MS });
    if (!gone) sendSignal(-left.pid, 'SIGKILL');
    await until(() => !isRunning(left), { limitMs: END_LIMIT_MS });
  }
  forgetProcesses(dataDir);
  return ended;
}

/**
 * @param {string} dataDir
 * @param {RunRecord} record
 */
function write(dataDir, record) {
  const draft = `${pathIn(dataDir)}.${process.pid}`;
  writeFileSync(draft, `${JSON.stringify(record, null, 2)}\n`);
  renameSync(draft, pathIn(dataDir));
}

/** @param {string} dataDir */
function pathIn(dataDir) {
  return join(dataDir, 'run.json');
}
