import type { CampaignNow } from './overview.js';
import { count } from './words.js';

/** A smaller change needs no second look, whatever its share of the stock is. */
const SMALL_UNITS = 10;
const LARGE_SHARE = 0.2;

type Now = Pick<CampaignNow, 'total' | 'waiting'>;

/** Whether a change has to be typed twice: above 20 % of the stock, or more than the users who wait. */
export function isLargeRestock(delta: number, { total, waiting }: Now): boolean {
  if (delta <= SMALL_UNITS) return false;
  return delta > (total ?? 0) * LARGE_SHARE || (waiting > 0 && delta > waiting);
}

/** What a change of the stock causes. */
export function restockText(delta: number, { total, waiting }: Now): string {
  if (!Number.isInteger(delta) || delta === 0) return '';
  const after = `The stock becomes ${count((total ?? 0) + delta)} units.`;
  if (delta < 0) return `${after} ${count(-delta)} free units are removed.`;
  if (waiting === 0) return `${after} No user is waiting, so the units become free.`;
  if (waiting === 1) return `${after} The waiting user is promoted at once, which cannot be taken back.`;
  const promoted = Math.min(delta, waiting);
  const all = promoted === waiting ? 'All' : `Up to ${count(promoted)} of`;
  return `${after} ${all} ${count(waiting)} waiting users are promoted at once, which cannot be taken back.`;
}
