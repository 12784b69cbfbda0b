import { CAMPAIGN_STATUSES } from '../../domain/campaign.js';
import { acknowledged, count, fenced, oneOf, rebuilding, text } from '../../redis/reply-fields.js';
import { defineScript, type OutcomeOf, type WithoutEntries } from '../../redis/script-contract.js';
import { SALE_KEYS } from './sale-keys.js';

export const loadCampaignScript = defineScript({
  name: 'load_campaign',
  keys: ['campaign', 'directory', 'displaced', 'filler', 'epoch'],
  args: [
    'no',
    'product_id',
    'terms',
    'starts_at',
    'details',
    'status',
    'codes',
    'total:int',
    'held:int',
    'redeemed:int',
    'burned:int',
    'waiting',
    'last_line_no',
    'archived',
    'promised',
    'token',
    'stage',
    'moved_out',
    'arrived',
    'gave',
    'own_codes',
  ],
  replies: { loaded: () => ({}), known: (f) => ({ version: count(f, 0) }), fenced, rebuilding },
});
export type LoadCampaignOutcome = OutcomeOf<typeof loadCampaignScript>;

export const updateTermsScript = defineScript({
  name: 'update_terms',
  keys: ['campaign', 'epoch'],
  args: ['version:int', 'terms', 'starts_at', 'details', 'per_user_limit:int', 'velocity'],
  replies: {
    amended: () => ({}),
    known: (f) => ({ version: count(f, 0) }),
    refused: (f) => ({ perUserLimit: count(f, 0) }),
    not_found: () => ({}),
    rebuilding,
  },
});
export type UpdateTermsOutcome = OutcomeOf<typeof updateTermsScript>;

/**
 * Actions on the status of a campaign. Operators use the first four, the schedule `start` and `finish`, publishing
 * `publish`.
 */
export type StatusAction = 'open' | 'pause' | 'resume' | 'close' | 'start' | 'finish' | 'publish';

export const setStatusScript = defineScript({
  name: 'set_status',
  keys: ['campaign', 'line', 'presence', 'journal', 'news', 'epoch'],
  args: ['action', 'actor', 'request_id', 'reason'],
  replies: {
    changed: (f) => ({
      before: oneOf(f, 0, CAMPAIGN_STATUSES),
      after: oneOf(f, 1, CAMPAIGN_STATUSES),
      ...acknowledged(f, 3),
      journalId: text(f, 2),
    }),
    unchanged: (f) => ({ status: oneOf(f, 0, CAMPAIGN_STATUSES) }),
    refused: (f) => ({ status: oneOf(f, 0, CAMPAIGN_STATUSES) }),
    not_found: () => ({}),
    rebuilding,
  },
});
export type SetStatusOutcome = WithoutEntries<OutcomeOf<typeof setStatusScript>>;

export const restockScript = defineScript({
  name: 'restock',
  keys: [...SALE_KEYS, 'news', 'idempotency', 'epoch'],
  args: [
    'delta:int',
    'limit:int',
    'key',
    'key_ttl_ms',
    'actor',
    'request_id',
    'max_total:int',
    'back:flag',
    'final:flag',
  ],
  replies: {
    restocked: (f) => {
      const { durable, entries } = acknowledged(f, 2);
      // A repetition has the entry of the first call, which may be of an older history than the next commit.
      return { total: count(f, 0), durable, entries, journalId: entries.length > 0 ? text(f, 1) : '' };
    },
    key_reused: () => ({}),
    insufficient: (f) => ({ free: count(f, 0) }),
    too_many: (f) => ({ maxTotal: count(f, 0) }),
    unlimited: () => ({}),
    closed: () => ({}),
    not_found: () => ({}),
    rebuilding,
  },
});
export type RestockOutcome = WithoutEntries<OutcomeOf<typeof restockScript>>;

export const addCodesScript = defineScript({
  name: 'add_codes',
  keys: ['campaign', 'codes', 'epoch'],
  args: ['codes:int', 'buckets:int'],
  replies: { added: () => ({}), not_found: () => ({}), rebuilding },
});
export type AddCodesOutcome = OutcomeOf<typeof addCodesScript>;
