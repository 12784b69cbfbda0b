// Artillery: installed on first use, run as a program of its own. Its users report to the tally over ipc.mjs.
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installPackages, isInstalled } from '../scripts/install.mjs';
import { Problem } from '../scripts/problem.mjs';
import { launch } from '../scripts/processes.mjs';
import { listen } from './ipc.mjs';

/** The exit code of Artillery when an expectation of its script failed. */
const EXPECTATION_FAILED = 21;
/** Artillery has written all its results by then. */
const STOP_LIMIT_MS = 1_000;
export const FOLDER = dirname(fileURLToPath(import.meta.url));
const PROCESSOR = join(FOLDER, 'artillery/shopper.mjs');

/** @param {string} [folder] @returns {boolean} */
export function hasArtillery(folder = FOLDER) {
  return isInstalled(folder);
}

/**
 * @param {import('../scripts/terminal.mjs').Terminal} terminal
 * @returns {Promise<void>}
 */
export async function bringArtillery(terminal) {
  if (hasArtillery()) return;
  terminal.print(
    'Artillery drives this scenario. It is got from the registry now, once: 970 packages, 590 MB, a minute or two.',
  );
  // Install scripts are off. This setting keeps one of them from downloading browsers if they are turned on.
  process.env.PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD = '1';
  await terminal.step(
    'installing Artillery',
    () => installPackages(FOLDER),
    () => 'Artillery installed',
  );
}

/**
 * The complete Artillery script: that of the scenario with the target, the processor and the common settings.
 * @param {import('./scenario.js').ArtilleryScript} script
 * @param {string} target
 */
export function wholeScript(script, target) {
  return {
    config: {
      target,
      processor: PROCESSOR,
      // Longer than any response may take; a request without a response by then counts as failed.
      http: { timeout: 15 },
      ...script.config,
    },
    scenarios: script.scenarios.map((scenario) => ({
      beforeScenario: ['arrives'],
      afterScenario: ['departs'],
      beforeRequest: ['sends'],
      afterResponse: ['hears'],
      onError: ['misses'],
      ...scenario,
    })),
  };
}

/**
 * @param {ReturnType<typeof wholeScript>} script
 * @param {import('./tally.mjs').Tally} tally
 * @param {object} facts further facts for the processor
 * @param {Record<string, string>} env what the script reads as `$env`
 * @returns {Promise<void>} when the last user is done
 */
export async function runArtillery(script, tally, facts, env) {
  const folder = mkdtempSync(join(tmpdir(), 'doorbuster-loadtest-'));
  // The folder contains a key, so it is removed after an interruption too.
  const remove = () => rmSync(folder, { recursive: true, force: true });
  process.on('exit', remove);
  const ipc = await listen(tally);
  try {
    writeFileSync(join(folder, 'script.json'), JSON.stringify(script, null, 2), { mode: 0o600 });
    writeFileSync(join(folder, 'facts.json'), JSON.stringify({ ...facts, port: ipc.port }), { mode: 0o600 });
    const args = [join(FOLDER, 'node_modules/artillery/bin/run'), 'run', '--quiet', join(folder, 'script.json')];
    const log = openSync(join(folder, 'log'), 'a');
    const artillery = await launch(process.execPath, args, {
      cwd: folder,
      stdio: ['ignore', log, log],
      env: {
        ...process.env,
        ...env,
        DOORBUSTER_LOADTEST_FACTS: join(folder, 'facts.json'),
        // One process, because its users share memory, and most machines for it have two cores.
        WORKERS: '1',
        ARTILLERY_DISABLE_TELEMETRY: 'true',
      },
    });
    closeSync(log);
    const people = script.config.phases.reduce((sum, { arrivalCount }) => sum + arrivalCount, 0);
    const allLeft = new Promise((resolve) => {
      tally.onDeparture = () => tally.departures >= people && resolve('over');
    });
    const over = await Promise.race([allLeft, artillery.exited]);
    // Artillery computes its own sums for ten seconds after the last user has left. The tally does not need them.
    await artillery.stop(STOP_LIMIT_MS);
    if (over === 'over') return;
    if (over.code === 0 || over.code === EXPECTATION_FAILED) {
      // A step that throws, or that lacks a value of a response, ends its user silently.
      tally.fault(`${people - tally.departures} of ${people} users did not come to the end of their story`);
      return;
    }
    throw new Problem(`Artillery ended with ${over.signal ?? `code ${over.code}`}.`, {
      details: readFileSync(join(folder, 'log'), 'utf8').split('\n').slice(-30).join('\n'),
    });
  } finally {
    await ipc.close();
    remove();
    process.off('exit', remove);
  }
}
