/** Names in scripts of the keys of a campaign and its records (`saleKeys` in keys.ts). */
export const RECORD_KEYS = ['campaign', 'people', 'reservations', 'deadlines', 'line', 'presence'] as const;

/** The same with the used codes and the journal: the keys that a claim may change. */
export const SALE_KEYS = [...RECORD_KEYS, 'codes', 'journal'] as const;

/** Names of the keys of every script that may promote the head of the line. */
export const MOVING_KEYS = [...SALE_KEYS, 'news', 'epoch'] as const;
