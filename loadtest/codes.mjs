// Lets a worker generate or import codes for a campaign.
import { until } from '../scripts/waiting.mjs';
import { call, operate } from './target.mjs';

const ISSUE_LIMIT_MS = 110_000;

/**
 * @param {import('./run.mjs').LoadRun} run
 * @param {string} product
 * @param {{ count: number } | { lines: readonly string[] }} what how many to make, or `code,user_id` to import
 * @returns {Promise<string[]>} in the order in which they were issued
 */
export async function issueCodes({ target }, product, what) {
  const path = `/admin/campaigns/${product}/codes`;
  const { id } = await operate(target, 'POST', path, 'lines' in what ? what.lines.join('\n') : what);
  const done = await until(async () => (await operate(target, 'GET', `${path}/jobs/${id}`)).status === 'done', {
    limitMs: ISSUE_LIMIT_MS,
    everyMs: 250,
  });
  if (!done) throw new Error(`the codes of ${product} were not there after ${ISSUE_LIMIT_MS / 1000} s`);
  const { body } = await call(target, 'admin', 'GET', path);
  const [, ...lines] = body.text.trim().split('\n');
  return lines.map((/** @type {string} */ line) => line.split(',')[0]?.trim());
}
