#!/usr/bin/env node
// `npx artillery …` in this repository: the Artillery of loadtest/package.json, since the newest one does not run on
// Node 20. Without ADMIN_KEY and SERVICE_KEY, a target on this machine gets the keys of the `npm start` in DATA_DIR.
import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { requireNode } from '../scripts/node-version.mjs';
import { createTerminal } from '../scripts/terminal.mjs';

const FOLDER = dirname(fileURLToPath(import.meta.url));
const TARGET = /^(?:--target|-t)(?:=(?<url>.*))?$/;

const terminal = createTerminal();
try {
  requireNode();
  const { bringArtillery } = await import('./artillery.mjs');
  await bringArtillery(terminal);
  process.exitCode = await run(process.argv.slice(2));
} catch (error) {
  terminal.explain(error);
  process.exitCode = 2;
}

/** @param {readonly string[]} args @returns {Promise<number>} the exit code */
async function run(args) {
  const env = { ARTILLERY_DISABLE_TELEMETRY: 'true', ...(await ownKeys(args)), ...process.env };
  const artillery = spawn(process.execPath, [join(FOLDER, 'node_modules/artillery/bin/run'), ...args], {
    stdio: 'inherit',
    env,
  });
  // The terminal sends SIGINT to Artillery as well, which prints its summary and ends.
  process.on('SIGINT', () => {});
  process.on('SIGTERM', () => artillery.kill('SIGTERM'));
  return new Promise((end, reject) => {
    artillery.on('error', reject);
    artillery.on('exit', (code, signal) => end(code ?? 128 + constants.signals[signal ?? 'SIGKILL']));
  });
}

/**
 * The keys of the own service. Only the files of this repository get them, and only for a target on this machine, so
 * that no key is sent to another server.
 * @param {readonly string[]} args
 */
async function ownKeys(args) {
  const { isLoopback } = await import('./options.mjs');
  const { dataDirOf, secretsIn } = await import('../scripts/own-service.mjs');
  const { secretOf } = await import('../scripts/welcome.mjs');
  const targets = args.flatMap((arg, at) => {
    const found = TARGET.exec(arg);
    return found ? [found.groups?.url ?? args[at + 1] ?? ''] : [];
  });
  const isNear = targets.every((target) => URL.canParse(target) && isLoopback(new URL(target).hostname));
  const isOurs = args.some((arg) => dirname(resolve(arg)) === join(FOLDER, 'artillery'));
  if (!isNear || !isOurs || args.includes('--overrides')) return {};
  const secrets = secretsIn(dataDirOf(dirname(FOLDER), process.env));
  return Object.fromEntries(
    [
      ['ADMIN_KEY', secretOf(secrets.ADMIN_API_KEYS ?? '')],
      ['SERVICE_KEY', secretOf(secrets.SERVICE_API_KEYS ?? '')],
    ].filter(([, key]) => key !== ''),
  );
}
