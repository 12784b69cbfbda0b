import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { projectRoot } from '../../shared/config/project-root.js';
import { atEnd } from './cleanup.js';
import { createTestDatabase } from './engines.js';

/** These are about the setup of one server, hence the same servers in every run of the suite. */
export const database = await createTestDatabase();
export const production = { NODE_ENV: 'production', SHOPPER_IDENTITY: 'gateway' };

/** A process decides whether it starts within seconds. One that starts would run until the test times out. */
const REFUSES_WITHIN_MS = 60_000;

/** Starts a process that must refuse to start. @returns its exit code, null = it did not refuse; its standard error */
export function refusal(
  name: 'api' | 'worker',
  env: NodeJS.ProcessEnv,
): Promise<{ code: number | null; output: string }> {
  const child = spawn(process.execPath, [join(projectRoot(), 'dist', name, 'main.js')], {
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
    timeout: REFUSES_WITHIN_MS,
    killSignal: 'SIGKILL',
  });
  atEnd(`the ${name}`, () => void child.kill('SIGKILL'));
  let output = '';
  child.stderr.on('data', (chunk) => {
    output += chunk;
  });
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, output })));
}
