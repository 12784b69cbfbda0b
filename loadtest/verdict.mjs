// Compares each campaign by the ledger, and every reservation that was returned to a shopper with its row.
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Problem } from '../scripts/problem.mjs';
import { run } from '../scripts/processes.mjs';
import { until } from '../scripts/waiting.mjs';
import { operate, pageOf } from './target.mjs';

const LEDGER = join(dirname(dirname(fileURLToPath(import.meta.url))), 'dist/commands/ledger.js');
const LEDGER_LIMIT_MS = 120_000;
const SETTLE_LIMIT_MS = 60_000;

/**
 * @typedef {import('./target.mjs').Target} Target
 * @typedef {import('./tally.mjs').Promised} Promised
 * @typedef {Record<'confirmed' | 'persisted' | 'lost' | 'duplicated' | 'over_cap' | 'drift', number>} Ledger
 * @typedef {{ promises: number, missing: number, another: number, voided: number, twice: number }} PromiseCounts
 * @typedef {{ product: string, ledger: Ledger, told: PromiseCounts }} CampaignVerdict
 */

/**
 * @param {Target} target
 * @param {readonly { product: string, promises: readonly Promised[] }[]} campaigns
 * @returns {Promise<CampaignVerdict[]>}
 */
export async function takeVerdicts(target, campaigns) {
  const verdicts = [];
  for (const { product, promises } of campaigns) {
    // The ledger does not wait for what is under way, and the rows are read beside it.
    await until(async () => (await operate(target, 'GET', `/admin/campaigns/${product}/stats`)).journal_backlog === 0, {
      limitMs: SETTLE_LIMIT_MS,
    });
    const ledger = await ledgerOf(target, product);
    verdicts.push({ product, ledger, told: comparePromises(promises, await rowsOf(target, product)) });
  }
  return verdicts;
}

/**
 * Fails at once when the engines at hand are not those of the target; otherwise the ledger would fail only after the
 * load.
 * @param {Target} target
 * @param {string} product that was just created there
 */
export async function requireLedger(target, product) {
  await ledgerOf(target, product);
}

/** @param {Target} target @param {string} product @returns {Promise<Ledger>} */
async function ledgerOf({ url, engines }, product) {
  const { code, output } = await run(process.execPath, [LEDGER, product], {
    env: { PATH: process.env.PATH, ...engines },
    limitMs: LEDGER_LIMIT_MS,
  });
  if (code === 0 || code === 1) return JSON.parse(output);
  throw new Problem(`The ledger could not be compared for ${url}.`, {
    details: output.trim(),
    remedy: 'The engines must be those of the target: see DATA_DIR, REDIS_URL and DATABASE_URL in --help.',
    exitCode: 2,
  });
}

/**
 * @param {Target} target
 * @param {string} product
 * @returns {Promise<Map<string, { user: string, status: string }>>}
 */
async function rowsOf(target, product) {
  const rows = new Map();
  /** @type {string | null} */
  let cursor = null;
  do {
    const query = cursor === null ? '' : `&cursor=${cursor}`;
    const page = await pageOf(target, `/admin/campaigns/${product}/redemptions?limit=1000${query}`);
    for (const { redemption_id, user_id, status } of page.data) rows.set(redemption_id, { user: user_id, status });
    cursor = page.next_cursor;
  } while (cursor !== null);
  return rows;
}

/**
 * @param {readonly Promised[]} promises
 * @param {ReadonlyMap<string, { user: string, status: string }>} rows
 * @returns {PromiseCounts}
 */
export function comparePromises(promises, rows) {
  /** @type {Map<string, string>} */
  const owners = new Map();
  const counts = { promises: promises.length, missing: 0, another: 0, voided: 0, twice: 0 };
  for (const { user, reservation } of promises) {
    const row = rows.get(reservation);
    if (!row) counts.missing += 1;
    else if (row.user !== user) counts.another += 1;
    else if (row.status === 'voided') counts.voided += 1;
    if ((owners.get(reservation) ?? user) !== user) counts.twice += 1;
    owners.set(reservation, user);
  }
  return counts;
}
