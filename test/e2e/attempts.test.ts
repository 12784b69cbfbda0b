import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { LIMITS } from '../../shared/config/limits.js';
import { MAX_CODES } from '../../shared/domain/stacking.js';
import { newAttemptId, RedemptionAttempts } from '../../shared/postgres/redemption-attempts.js';
import { send } from '../harness/clients.js';
import { createTestDatabase, startTestRedis } from '../harness/engines.js';
import { metricsText } from '../harness/metrics.js';
import { connectDatabase } from '../harness/persistence.js';
import { serviceEnv, startApiProcess, startWorkerProcess } from '../harness/service.js';
import { forEachAtMost } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

/** Attempts in real processes: the worker deletes old ones, and the API counts those that it could not write. */
const redis = await startTestRedis();
const database = await createTestDatabase();
const env = serviceEnv(redis.url, database.url, { ATTEMPTS_KEEP_DAYS: '2' });

test('a worker deletes attempts after ATTEMPTS_KEEP_DAYS', async () => {
  const attempt = (user: string, id: string, atMs: number) => ({
    action: 'validate' as const,
    outcome: 'code_not_found',
    campaignId: null,
    code: null,
    codeExists: false,
    userId: user,
    deviceFp: null,
    network: null,
    reservationId: null,
    id,
    atMs,
  });
  const oldMs = Date.now() - 3 * 86_400_000;
  const threeDaysAgo = oldMs.toString(16).padStart(12, '0');
  const oldId = `${threeDaysAgo.slice(0, 8)}-${threeDaysAgo.slice(8)}-7000-8000-000000000001`;
  await new RedemptionAttempts(connectDatabase(database.url)).insert([
    attempt('old', oldId, oldMs),
    attempt('new', newAttemptId(), Date.now()),
  ]);
  await startWorkerProcess(env);
  const left = async () => (await database.client.query('select user_id from redemption_attempts')).rows;
  await until('the old one is gone', async () => (await left()).length === 1);
  expect(await left()).toEqual([{ user_id: 'new' }]);
});

test('an API reports how many attempts it has written and dropped, and stops cleanly', async () => {
  const { process: api, url } = await startApiProcess(env);
  const metrics = await (await fetch(`${url}/metrics`)).text();
  expect(metrics).toMatch(/^doorbuster_attempts_written_total 0$/m);
  expect(metrics).toMatch(/^# TYPE doorbuster_attempts_dropped_total counter$/m);
  await api.stop();
  expect(api.child.exitCode).toBe(0);
});

test('every refusal of a code is found in the log by its request id, also one beyond the rows of its network', async () => {
  // Beyond the limit of unknown codes attempts have no rows in any case.
  const api = await startApiProcess({ ...env, UNKNOWN_CODES_PER_MINUTE: '1000000' });
  const validate = (json: object, id: string = randomUUID()) =>
    send(`${api.url}/coupons/validate`, { method: 'POST', headers: { 'x-request-id': id }, json });
  const ask = (i: number, user: string) => validate({ code: `NEVER-ISSUED-${i}`, user_id: user }, `asked-${i}-end`);
  const statuses: number[] = [];
  for (let i = 0; i < 12; i += 1) statuses.push((await ask(i, 'eve')).status);
  expect(statuses.filter((status) => status === 429).length).toBeGreaterThan(0);
  // Each code of a request has a row.
  const requests = Array.from({ length: LIMITS.attempts.perNetworkMinute.rows / MAX_CODES }, (_, i) => i);
  await forEachAtMost(4, requests, async (i) => {
    const codes = Array.from({ length: MAX_CODES }, (_, n) => `NEVER-ISSUED-${i}-${n}`);
    await validate({ codes, user_id: `user-${i}`, cart: { subtotal: 100, currency: 'USD' } });
  });
  const last = statuses.length;
  await ask(last, 'user-at-the-end');
  expect(await metricsText(api.url)).toMatch(/^doorbuster_attempts_dropped_total\{reason="limited"\} [1-9]/m);
  const isLogged = (i: number) => api.process.log.some((line) => line.includes(`asked-${i}-end`));
  for (const i of [...statuses.keys(), last]) await until(`refusal ${i} is in the log`, () => isLogged(i));
  await api.process.stop();
});
