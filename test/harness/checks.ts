import { expect } from '@jest/globals';
import type { Operator } from './clients.js';
import type { Service } from './service.js';
import { until } from './until.js';

/** Words that say what is behind the answer. */
const INTERNALS = /redis|postgres|\blua\b|\bsql\b|node_modules|\.[jt]s:\d+|\\n\s+at |ECONN|syntax error/i;

type AnswerLike = { status: number; headers: Headers; body: Record<string, unknown>; text: string };

/**
 * Expects a problem document (RFC 9457) with every member, this status and this code, and nothing internal.
 */
export function expectProblem(answer: AnswerLike, status: number, code: string): void {
  const { body, text } = answer;
  expect({ status: answer.status, code: body.code, text }).toEqual({ status, code, text });
  expectProblemForm(answer);
}

/** As `expectProblem`, for any refusal of the client's input. */
export function expectRefusal(answer: AnswerLike): void {
  expect(`${answer.status} ${answer.text}`).toMatch(/^4\d\d /);
  expectProblemForm(answer);
}

function expectProblemForm({ status, headers, body, text }: AnswerLike): void {
  expect(headers.get('content-type')).toMatch(/^application\/problem\+json/);
  expect(body).toMatchObject({
    type: expect.stringMatching(/^(https?:|urn:|about:)/),
    title: expect.stringMatching(/./),
    status,
    detail: expect.stringMatching(/./),
    instance: expect.stringMatching(/./),
    code: expect.stringMatching(/^[a-z_]+$/),
  });
  expect(text).not.toMatch(INTERNALS);
}

/** The pointers of a validation problem. */
export function pointersOf(answer: { body: Record<string, unknown> }): string[] {
  return ((answer.body.errors ?? []) as { pointer: string }[]).map(({ pointer }) => pointer);
}

/**
 * Checks what may differ from one moment to the next, the advice on waiting.
 * @returns the other fields of a place in line
 */
export function withoutAdvice(data: Record<string, unknown>): Record<string, unknown> {
  const { estimated_wait_seconds, poll_after_seconds, ...facts } = data;
  if (estimated_wait_seconds !== null) expect(estimated_wait_seconds).toBeGreaterThanOrEqual(0);
  expect(Number.isInteger(poll_after_seconds) && Number(poll_after_seconds) >= 1).toBe(true);
  return facts;
}

type Units = { total: number; free: number; held: number; redeemed: number; burned: number; waiting: number };

/** The counters are exactly these (those left out are 0) and add up. */
export async function expectStock(operator: Operator, product: string, units: Partial<Units>): Promise<void> {
  const stats = await operator.stats(product);
  const expected = { free: 0, held: 0, redeemed: 0, burned: 0, waiting: 0, ...units };
  expect(stats).toMatchObject(expected);
  expect(Number(stats.free) + Number(stats.held) + Number(stats.redeemed) + Number(stats.burned)).toBe(stats.total);
}

/** Every one of these reservations gets a row of its own in Postgres. */
export async function expectInPostgres(service: Service, reservations: readonly string[]): Promise<void> {
  await until(`${reservations.length} reservations are in Postgres`, async () => {
    const { rows } = await service.database.client.query<{ count: number }>(
      'select count(*)::int as count from redemptions where redemption_id = any($1::uuid[])',
      [reservations],
    );
    return rows[0]?.count === new Set(reservations).size && rows[0].count === reservations.length;
  });
}

/** How many redemptions of a product have each status in Postgres. */
export async function countRows(service: Service, product: string): Promise<Record<string, number>> {
  const { rows } = await service.database.client.query<{ status: string; count: number }>(
    `select r.status, count(*)::int as count from redemptions r join campaigns using (campaign_id)
     where product_id = $1 group by r.status`,
    [product],
  );
  return Object.fromEntries(rows.map(({ status, count }) => [status, count]));
}

/** Waits for Postgres to have exactly these rows of a product, and says what it had instead. */
export async function expectRows(service: Service, product: string, expected: Record<string, number>): Promise<void> {
  const text = JSON.stringify(Object.entries(expected).sort());
  await until(
    `Postgres has ${text}`,
    async () => JSON.stringify(Object.entries(await countRows(service, product)).sort()) === text,
  );
}
