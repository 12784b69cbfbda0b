import { expect, test } from '@jest/globals';
import { Calls } from './calls.js';

test('each response tells its headers and when it was requested, also a refusal', async () => {
  const told: [string | null, number][] = [];
  const began = Date.now();
  const answers = [Response.json({ data: {} }), Response.json({ code: 'sold_out' }, { status: 409 })];
  for (const [i, answer] of answers.entries()) answer.headers.set('Date', `time ${i}`);
  const calls = new Calls({
    baseUrl: '',
    fetch: async () => answers[told.length] as Response,
    timeoutMs: 10_000,
    answered: (headers, askedAtMs) => told.push([headers.get('Date'), askedAtMs]),
  });
  await calls.once({ method: 'GET', path: '/' });
  await expect(calls.once({ method: 'GET', path: '/' })).rejects.toMatchObject({ code: 'sold_out' });
  expect(told.map(([date]) => date)).toEqual(['time 0', 'time 1']);
  for (const [, askedAtMs] of told) {
    expect(askedAtMs).toBeGreaterThanOrEqual(began);
    expect(askedAtMs).toBeLessThanOrEqual(Date.now());
  }
});
