import type { CampaignNow } from './overview.js';
import { count } from './words.js';

/** A number on a page: its label, its class and its text. */
export type Shown<Of> = readonly [string, string, (of: Of) => string];

/** The numbers that every view of a campaign shows, in the words of a sale. */
export const COUNTS: readonly Shown<CampaignNow>[] = [
  ['Units', 'total', ({ total }) => count(total)],
  ['Free', 'free', ({ free }) => count(free)],
  ['To be paid', 'held', ({ held }) => count(held)],
  ['Paid', 'redeemed', ({ redeemed }) => count(redeemed)],
  ['Burned', 'burned', ({ burned }) => count(burned)],
  ['Waiting', 'waiting', ({ waiting }) => count(waiting)],
];
export const DRIFT: Shown<CampaignNow> = ['Drift', 'drift', ({ drift }) => count(drift)];
