/** Names of a campaign's seven keys, in the order of `campaignKeys` (keys.ts), and of the journal: what a claim may change. */
export const SALE_KEYS = [
  'campaign',
  'people',
  'reservations',
  'deadlines',
  'line',
  'presence',
  'codes',
  'journal',
] as const;

/** Of every script that may hand a unit to the next in line. */
export const MOVING_KEYS = [...SALE_KEYS, 'news', 'epoch'] as const;
