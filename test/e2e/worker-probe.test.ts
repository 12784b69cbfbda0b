import { expect, test } from '@jest/globals';
import { expectProblem } from '../harness/checks.js';
import { send } from '../harness/clients.js';
import { createTestDatabase, startTestRedis, startTestServer } from '../harness/engines.js';
import { type ServiceProcess, serviceEnv, startWorkerProcess } from '../harness/service.js';
import { until } from '../harness/until.js';

// What an orchestrator asks a worker.

const redis = await startTestRedis();
const database = await createTestDatabase();
const env = serviceEnv(redis.url, database.url, { WORKER_PORT: '0' });

async function startWorker(environment: NodeJS.ProcessEnv) {
  const worker = await startWorkerProcess(environment);
  return { worker, url: addressOf(worker) };
}

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
    degraded: [],
  });
  const refused = await send(`${url}/admin`, { headers: { 'x-request-id': 'asked-by-a-test' } });
  expectProblem(refused, 404, 'not_found');
  expect([refused.headers.get('x-request-id'), refused.body.instance]).toEqual([
    'asked-by-a-test',
    'urn:doorbuster:request:asked-by-a-test',
  ]);
  await until('the log has it', () => worker.log.join('\n').includes('asked-by-a-test'));
  expect((await send(`${url}/livez`)).headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
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

test('a worker without Redis is alive and not ready, whether it was there before or not', async () => {
  const never = await startWorker({ ...env, REDIS_URL: 'redis://127.0.0.1:9' });
  const own = await startTestServer();
  const lost = await startWorker({ ...env, REDIS_URL: own.url });
  await until('it is ready', async () => (await send(`${lost.url}/readyz`)).status === 200);
  await own.stop();
  for (const { url } of [never, lost]) {
    const answer = await until('it is not ready', async () => {
      const now = await send(`${url}/readyz`);
      return now.status === 503 ? now : null;
    });
    expect(answer.data).toMatchObject({
      status: 'not_ready',
      checks: { redis: { ok: false }, postgres: { ok: true } },
    });
    expect(await send(`${url}/livez`)).toMatchObject({ status: 200, data: { status: 'alive' } });
    expect((await fetch(`${url}/metrics`)).status).toBe(200);
  }
  await Promise.all([never.worker.kill(), lost.worker.kill()]);
});

test('a worker exports its own metrics, and those of its process', async () => {
  const [one, another] = [await startWorker(env), await startWorker(env)];
  const response = await fetch(`${one.url}/metrics`);
  expect(response.status).toBe(200);
  expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
  const text = await response.text();
  expect(text).toMatch(/^doorbuster_build_info\{component="worker",version="[^"]+",node="v[^"]+"\} 1$/m);
  expect(text).toMatch(/^doorbuster_process_resident_memory_bytes [1-9]/m);
  for (const name of ['persisted_entries_total', 'webhook_deliveries_total', 'job_failures_total'])
    expect(text).toContain(`# TYPE doorbuster_${name} counter`);
  // No series twice, which Prometheus would reject.
  const series = text.split('\n').filter((line) => line && !line.startsWith('#'));
  expect(new Set(series.map((line) => line.slice(0, line.lastIndexOf(' ')))).size).toBe(series.length);
  expect(text.match(/^doorbuster_build_info/gm)).toHaveLength(1);
  expect((await fetch(`${one.url}/metrics`, { method: 'HEAD' })).headers.get('content-length')).not.toBe(null);
  await Promise.all([one.worker.stop(), another.worker.stop()]);
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
