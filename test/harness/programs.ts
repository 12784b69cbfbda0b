import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { it } from '@jest/globals';
import { atEnd } from './cleanup.js';

/** Debian keeps servers in /usr/sbin, which is not on every user's PATH. */
const PATH = `${process.env.PATH}:/usr/local/sbin:/usr/sbin:/sbin`;
const env = (extra: NodeJS.ProcessEnv = {}) => ({ ...process.env, ...extra, PATH });

const named = new Set<string>();

/** `it`, or `it.skip` with a line that names what is missing: these programs are no part of the project. */
export function itWith(...programs: string[]): typeof it | typeof it.skip {
  const missing = programs.filter((program) => {
    const found = spawnSync('sh', ['-c', `command -v "${program}"`], { env: env(), stdio: 'ignore' });
    return found.status !== 0;
  });
  if (missing.length === 0) return it;
  const line = `tests are skipped, because this is not installed: ${missing.join(', ')}\n`;
  if (!named.has(line)) process.stderr.write(line);
  named.add(line);
  return it.skip;
}

/** No program of the tests takes longer, on a busy machine either. */
const RUN_LIMIT_MS = 120_000;

/** Runs a program to its end. `status` is null when it did not end in time. */
export async function runProgram(program: string, args: readonly string[], extra: NodeJS.ProcessEnv = {}) {
  const child = spawn(program, args, { env: env(extra), stdio: ['ignore', 'pipe', 'pipe'], timeout: RUN_LIMIT_MS });
  const [stdout, stderr, [status]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { status: status as number | null, stdout, stderr };
}

/** Starts a server in a folder; ended with the test file. `output` is what it printed so far. */
export function startProgram(program: string, args: readonly string[], cwd: string, extra: NodeJS.ProcessEnv = {}) {
  const child = spawn(program, args, { cwd, env: env(extra), stdio: ['ignore', 'pipe', 'pipe'] });
  const exited = once(child, 'exit');
  let output = '';
  const read = (chunk: Buffer) => {
    output += String(chunk);
  };
  child.stdout.on('data', read);
  child.stderr.on('data', read);
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    await exited;
  };
  atEnd(program, stop);
  return { child, output: () => output, stop };
}
