/** Names of a campaign and its records, in the order of `recordKeys` (keys.ts). */
export const RECORD_KEYS = ['campaign', 'people', 'reservations', 'deadlines', 'line', 'presence'] as const;

/** Names of a campaign's keys, in the order of `claimKeys` (keys.ts), and of the journal: what a claim may change. */
export const SALE_KEYS = [...RECORD_KEYS, 'codes', 'journal'] as const;

/** Of every script that may hand a unit to the next in line. */
export const MOVING_KEYS = [...SALE_KEYS, 'news', 'epoch'] as const;
