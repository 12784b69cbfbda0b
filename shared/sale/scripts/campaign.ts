import { CAMPAIGN_STATUSES } from '../../domain/campaign.js';
import { acknowledged, count, fenced, field, oneOf, rebuilding, reply, text } from '../../redis/reply-fields.js';
import { defineScript, type OutcomeOf, type WithoutEntries } from '../../redis/script-contract.js';
import { SALE_KEYS } from './sale-keys.js';

const status = oneOf(CAMPAIGN_STATUSES);

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
    'former',
  ],
  replies: { loaded: () => ({}), known: reply({ version: count }), fenced, rebuilding },
});
export type LoadCampaignOutcome = OutcomeOf<typeof loadCampaignScript>;

export const updateTermsScript = defineScript({
  name: 'update_terms',
  keys: ['campaign', 'epoch'],
  args: ['version:int', 'terms', 'starts_at', 'details', 'per_user_limit:int', 'velocity'],
  replies: {
    amended: () => ({}),
    known: reply({ version: count }),
    refused: reply({ perUserLimit: count }),
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
    changed: reply({ before: status, after: status, journalId: text }, acknowledged),
    unchanged: reply({ status }),
    refused: reply({ status }),
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
    // A repetition has the entry of the first call, which may be of an older history than the next commit. It appends
    // none, so its `journalId` is "".
    restocked: reply({ total: count }, (fields, from) => {
      const { durable, entries } = acknowledged(fields, from + 1);
      return { durable, entries, journalId: entries.length > 0 ? field(fields, from, text) : '' };
    }),
    key_reused: () => ({}),
    insufficient: reply({ free: count }),
    too_many: reply({ maxTotal: count }),
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
