import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { projectRoot } from '../../shared/config/project-root.js';
import { atEnd } from './cleanup.js';

export const CLIENT_ID = 'doorbuster';
export const CLIENT_SECRET = 'client-secret-of-the-tests';

/** Starts a real OpenID Connect provider, as a process. @returns the issuer, and how to end it */
export async function startIssuer(redirectUrl: string): Promise<{ issuer: string; stop: () => Promise<void> }> {
  const program = join(projectRoot(), 'test/harness/oidc-provider.mjs');
  const child = spawn(process.execPath, [program, CLIENT_ID, CLIENT_SECRET, redirectUrl], {
    // It warns about its keys and its memory, which are right for a test.
    stdio: ['ignore', 'pipe', 'ignore'],
    env: { PATH: process.env.PATH },
  });
  const exited = once(child, 'exit');
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    await exited;
  };
  atEnd('the issuer', stop);
  const lines = createInterface({ input: child.stdout });
  for await (const line of lines) if (line.startsWith('http://')) return { issuer: line, stop };
  throw new Error('the issuer ended before it was ready');
}
