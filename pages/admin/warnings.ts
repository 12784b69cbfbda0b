import type { Terms } from './term-fields.js';
import { count, duration } from './words.js';

/**
 * What is probably not meant in a campaign, in words for its operator.
 * @param codes issued so far
 * @param redeemed units that were paid so far; with any, the sale shows that the time to pay is enough
 */
export function warningsOf(terms: Terms, codes: number, now: Date, redeemed = 0): string[] {
  const { type, total_limit, starts_at, ends_at, hold_seconds, waiting_room, audience, code, status } = terms;
  const total = total_limit as number | null;
  const room = waiting_room as Terms;
  const warnings = [...((terms.warnings as string[] | undefined) ?? [])];
  if (status === 'closed') return warnings;
  if (total === 0) warnings.push('The campaign has no units. Restock it before it opens.');
  if (type !== 'shared' && codes === 0)
    warnings.push(`0 codes, ${total === null ? 'unlimited' : count(total)} units: generate or import codes.`);
  else if (type !== 'shared' && total !== null && codes < total)
    warnings.push(`${count(codes)} codes, ${count(total)} units: units without a code cannot be taken.`);
  if (total === null && !code && type === 'shared' && audience === null)
    warnings.push('The stock is unlimited and anyone may take a unit.');
  if (ends_at !== null && Date.parse(String(ends_at)) <= now.getTime()) warnings.push('The end is in the past.');
  if (ends_at !== null && Date.parse(String(ends_at)) - Date.parse(String(starts_at)) < 60_000)
    warnings.push('The sale lasts less than a minute.');
  if (status === 'draft' && Date.parse(String(starts_at)) <= now.getTime())
    warnings.push('The start is not in the future: the sale begins as soon as the campaign is published.');
  if (room.enabled && hold_seconds === 0)
    warnings.push('The campaign has a line, but nothing is to be paid, so units come back only by refunds.');
  if (redeemed === 0 && Number(hold_seconds) > 0 && Number(hold_seconds) < 60)
    warnings.push(`Users have ${duration(Number(hold_seconds) * 1000)} to pay, which few of them manage.`);
  return warnings;
}
