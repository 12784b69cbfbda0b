// Artillery: installed on first use, run as a program of its own. Its users report to the tally over ipc.mjs.
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installPackages, isInstalled } from '../scripts/install.mjs';
import { Problem } from '../scripts/problem.mjs';
import { launch } from '../scripts/processes.mjs';
import { listen } from './ipc.mjs';

/** It has nothing left to lose then. */
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
  // Install scripts are off; should anybody turn them on, this one would fetch browsers.
  process.env.PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD = '1';
  await terminal.step(
    'installing Artillery',
    () => installPackages(FOLDER),
    () => 'Artillery installed',
  );
}

/**
 * An Artillery script as it is run: the scenario's own, with the target, the processor and what goes for all of them.
 * @param {import('./scenario.js').ArtilleryScript} script
 * @param {string} target
 */
export function wholeScript(script, target) {
  return {
    config: {
      target,
      processor: PROCESSOR,
      // Longer than any answer may take; who is not answered by then counts as not answered.
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
 * @param {object} facts what the processor has to know besides
 * @returns {Promise<void>} when the last user is done
 */
export async function runArtillery(script, tally, facts) {
  const folder = mkdtempSync(join(tmpdir(), 'doorbuster-loadtest-'));
  // Also when we are interrupted: there is a key in it.
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
        DOORBUSTER_LOADTEST_FACTS: join(folder, 'facts.json'),
        // One process: what its users share is in its memory, and there are two cores as a rule.
        WORKERS: '1',
        ARTILLERY_DISABLE_TELEMETRY: 'true',
      },
    });
    closeSync(log);
    const people = script.config.phases.reduce((sum, { arrivalCount }) => sum + arrivalCount, 0);
    const everybodyLeft = new Promise((resolve) => {
      tally.onDeparture = () => tally.departures >= people && resolve('over');
    });
    const over = await Promise.race([everybodyLeft, artillery.exited]);
    // When the last user has left, Artillery goes on summing up for ten seconds; the sums are ours.
    await artillery.stop(STOP_LIMIT_MS);
    if (over === 'over') return;
    if (over.code === 0) {
      // A step that throws ends its user without a word.
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
