import { flag, rebuilding, reply, text } from '../../redis/reply-fields.js';
import { defineScript, type OutcomeOf } from '../../redis/script-contract.js';
import { RECORD_KEYS } from './sale-keys.js';

export const archiveScript = defineScript({
  name: 'archive',
  keys: [...RECORD_KEYS, 'holders', 'journal', 'epoch', 'payments'],
  args: ['committed', 'limit:int', 'grace_ms:int', 'rest_ms:int', 'redeemed:int?', 'burned:int?', 'rows:int?'],
  replies: {
    archived: reply({ forgotten: text }),
    unchanged: reply({ forgotten: text }),
    ready: () => ({}),
    differs: () => ({}),
    not_closed: () => ({}),
    held: () => ({}),
    early: () => ({}),
    unsettled: () => ({}),
    busy: () => ({}),
    not_found: () => ({}),
    rebuilding,
  },
});
export type ArchiveOutcome = OutcomeOf<typeof archiveScript>;

/** Maximum number of reservations that one call restores: about 10 ms of Redis. */
export const MAX_RESTORED = 10_000;

export const restoreUserScript = defineScript({
  name: 'restore_user',
  keys: ['campaign', 'people', 'reservations', 'epoch', 'payments'],
  args: ['archived', 'user', 'person'],
  each: ['reservation_id', 'record', 'references'],
  replies: { recalled: () => ({}), late: () => ({}), not_found: () => ({}), rebuilding },
});
export type RestoreUserOutcome = OutcomeOf<typeof restoreUserScript>;

export const evictResponseScript = defineScript({
  name: 'evict_response',
  keys: ['campaign', 'idempotency', 'epoch'],
  args: ['up_to'],
  replies: {
    forgotten: reply({ removed: flag }),
    not_archived: () => ({}),
    not_found: () => ({}),
    rebuilding,
  },
});
export type EvictResponseOutcome = OutcomeOf<typeof evictResponseScript>;
