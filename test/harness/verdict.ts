import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { expect } from '@jest/globals';
import type pg from 'pg';
import { compareEngines } from '../../commands/ledger/compare-engines.js';
import { readEngineUrls } from '../../shared/config/config.js';
import { projectRoot } from '../../shared/config/project-root.js';
import { isClean } from '../../shared/contracts/verdict.js';
import type { Crowd } from './crowd.js';
import { expectMinutesOfRows } from './minutes.js';
import { until } from './until.js';
import { promised } from './violation.js';

type Ledger = { code: number; verdict: Record<string, any>; stderr: string };

/**
 * Compares as `npm run ledger` does, but in this process: a process for each of the many comparisons would take most of
 * the time of some files.
 */
export async function ledger(env: NodeJS.ProcessEnv, product: string): Promise<Ledger> {
  let stderr = '';
  const warn = (reason: string) => {
    stderr += `${reason}\n`;
  };
  try {
    const verdict = await compareEngines(readEngineUrls(env), product, warn);
    return { code: isClean(verdict) ? 0 : 1, verdict, stderr };
  } catch (error) {
    stderr += error instanceof Error ? error.message : String(error);
    return { code: 2, verdict: { stderr }, stderr };
  }
}

/** Runs the ledger as an operator would. */
export function ledgerCommand(env: NodeJS.ProcessEnv, product: string, ...options: string[]): Promise<Ledger> {
  return new Promise((resolve) => {
    const main = join(projectRoot(), 'dist/commands/ledger.js');
    execFile(process.execPath, [main, product, ...options], { env, maxBuffer: 1 << 24 }, (error, stdout, stderr) => {
      const code = error ? Number(error.code) : 0;
      resolve({ code, verdict: stdout ? JSON.parse(stdout) : { stderr }, stderr });
    });
  });
}

/** Waits until Postgres has all entries of a campaign and the ledger finds no difference. */
export function untilWhole(env: NodeJS.ProcessEnv, product: string): Promise<true> {
  return until('Postgres has everything', async () => {
    const { code, verdict } = await ledger(env, product);
    return code === 0 && verdict.in_flight === 0;
  });
}

/** The verdict once Postgres has all entries, for tests that read the rows as well: the ledger waits for nothing. */
export async function verdictAtRest(env: NodeJS.ProcessEnv, product: string): Promise<Record<string, any>> {
  let last: Ledger | null = null;
  try {
    return await until('the journal is persisted', async () => {
      last = await ledger(env, product);
      return last.verdict.in_flight === 0 && last.verdict;
    });
  } catch (error) {
    throw new Error(`the last verdict: ${JSON.stringify(last)}`, { cause: error });
  }
}

/**
 * Checks what must hold after every fault: the ledger finds no difference, every promise that the crowd got has its row
 * with the same ids, the minutes of the sale are what its rows say, no two users got the same place, and every request
 * got a response.
 */
export async function expectNothingLost(
  crowd: Crowd,
  env: NodeJS.ProcessEnv,
  client: pg.Client,
  product: string,
): Promise<void> {
  const verdict = await verdictAtRest(env, product);
  const { rows } = await client.query<{ redemption_id: string; user_id: string; order_id: string; status: string }>(
    'select redemption_id, user_id, order_id, r.status from redemptions r join campaigns using (campaign_id) where product_id = $1',
    [product],
  );
  const byId = new Map(rows.map((row) => [row.redemption_id, row]));
  const missing = crowd.completed.filter(({ user, body }) => {
    const row = byId.get(body.data.reservation_id);
    return !row || row.user_id !== user || row.order_id !== body.data.order_id || row.status === 'voided';
  });
  const tickets = await client.query<{ user_id: string; line_no: string }>(
    'select user_id, line_no from waiting_tickets join campaigns using (campaign_id) where product_id = $1',
    [product],
  );
  const waiting = new Set(tickets.rows.map(({ user_id }) => user_id));
  promised(() => {
    expect(verdict).toMatchObject({ lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] });
    expect(missing).toEqual([]);
    expect(crowd.queued.filter(({ user }) => !waiting.has(user))).toEqual([]);
    expect(new Set(tickets.rows.map(({ line_no }) => line_no)).size).toBe(tickets.rows.length);
  });
  await expectMinutesOfRows(client);
  expect(crowd.unexpected).toEqual([]);
  expect({ silent: crowd.silent, withoutRetryAfter: crowd.refusedWithoutRetryAfter }).toEqual({
    silent: 0,
    withoutRetryAfter: 0,
  });
}
