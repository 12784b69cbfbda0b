import { expect, test } from '@jest/globals';
import { expectProblem } from '../harness/checks.js';
import { send } from '../harness/clients.js';
import { createTestDatabase, startTestRedis } from '../harness/engines.js';
import { type ServiceProcess, serviceEnv, startWorkerProcess } from '../harness/service.js';
import { until } from '../harness/until.js';

// What an orchestrator asks a worker.

const redis = await startTestRedis();
const database = await createTestDatabase();
const env = serviceEnv(redis.url, database.url, { WORKER_PORT: '0' });

const addressOf = (worker: ServiceProcess) => String(/"ops_url":"([^"]+)"/.exec(worker.log.join('\n'))?.[1]);

test('a worker is alive, and ready when Redis and Postgres are there', async () => {
  const worker = await startWorkerProcess(env);
  const url = addressOf(worker);
  expect(await send(`${url}/livez`)).toMatchObject({ status: 200, data: { status: 'alive' } });
  const ready = await until('it is ready', async () => {
    const answer = await send(`${url}/readyz`);
    return answer.status === 200 ? answer : null;
  });
  expect(ready.data).toEqual({
    status: 'ready',
    checks: {
      redis: { ok: true, detail: 'answers' },
      postgres: { ok: true, detail: 'answers' },
      draining: { ok: true, detail: 'no' },
    },
  });
  expectProblem(await send(`${url}/metrics`), 404, 'not_found');
  expect((await send(`${url}/livez`, { method: 'POST' })).headers.get('allow')).toBe('GET, HEAD');
  await worker.stop();
  await expect(fetch(`${url}/livez`)).rejects.toThrow();
});

test('a worker without Postgres is alive and not ready, and says why', async () => {
  const away = { ...env, DATABASE_URL: 'postgres://nobody:wrong@127.0.0.1:9/none' };
  const worker = await startWorkerProcess(away);
  const url = addressOf(worker);
  expect((await send(`${url}/livez`)).status).toBe(200);
  const answer = await send(`${url}/readyz`);
  expect([answer.status, answer.data.status]).toEqual([503, 'not_ready']);
  expect(answer.data.checks).toMatchObject({ postgres: { ok: false, detail: 'does not answer' } });
  await worker.kill();
});

test('a port that is taken ends the start with the name of the setting', async () => {
  const worker = await startWorkerProcess(env);
  const port = new URL(addressOf(worker)).port;
  await expect(startWorkerProcess({ ...env, WORKER_PORT: port })).rejects.toThrow(
    `port ${port} on 127.0.0.1 is taken; set WORKER_PORT to another`,
  );
  await worker.stop();
});

test('a worker without the setting has no listener', async () => {
  const { WORKER_PORT: _, ...without } = env;
  const worker = await startWorkerProcess(without);
  expect(worker.log.join('\n')).not.toContain('ops_url');
  await worker.stop();
});
