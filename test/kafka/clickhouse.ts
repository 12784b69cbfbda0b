import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { projectRoot } from '../../shared/config/project-root.js';
import { atEnd } from '../harness/cleanup.js';

/** Starts the engine of ClickHouse behind HTTP. @returns its URL */
export async function startClickHouse(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'doorbuster-clickhouse-'));
  const program = join(projectRoot(), 'test/kafka/clickhouse-server.py');
  const child = spawn('python3', [program, directory], {
    env: { ...process.env, PYTHONPATH: process.env.DOORBUSTER_TEST_CHDB },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  atEnd('ClickHouse', async () => {
    child.kill('SIGKILL');
    await exited;
    await rm(directory, { recursive: true, force: true });
  });
  const [port] = await Promise.race([
    once(createInterface({ input: child.stdout }), 'line'),
    exited.then(() => {
      throw new Error('the engine of ClickHouse did not start');
    }),
  ]);
  return `http://127.0.0.1:${port}`;
}
