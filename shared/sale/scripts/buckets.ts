import { CAMPAIGN_STATUSES } from '../../domain/campaign.js';
import { count, journaled, oneOf, rebuilding, text } from '../../redis/reply-fields.js';
import { defineScript, type OutcomeOf, type WithoutEntries } from '../../redis/script-contract.js';

/** Maximum number of users in a reply of `bucket_heads`: about 1 ms of Redis. */
export const MAX_HEADS = 1_000;

/** open: sells directly; sealed: its units go to the line only; spent: no unit can be obtained any more. */
const BUCKET_STAGES = ['open', 'sealed', 'spent'] as const;

const CHANGED_KEYS = ['campaign', 'codes', 'journal', 'news', 'epoch'] as const;

export const sealScript = defineScript({
  name: 'seal',
  keys: ['campaign', 'line', 'presence', 'journal', 'news', 'epoch'],
  args: ['stage'],
  replies: {
    sealed: (f) => ({ closed: count(f, 0), ...journaled(f, 1) }),
    undivided: () => ({}),
    not_found: () => ({}),
    rebuilding,
  },
});
export type SealOutcome = WithoutEntries<OutcomeOf<typeof sealScript>>;

export const drawNumbersScript = defineScript({
  name: 'draw_numbers',
  keys: ['campaign', 'epoch'],
  args: ['count:int'],
  batched: true,
  replies: { drawn: (f) => ({ last: count(f, 0) }), not_found: () => ({}), rebuilding },
});

export const moveOutScript = defineScript({
  name: 'move_out',
  keys: CHANGED_KEYS,
  args: ['to', 'units:int', 'codes:int', 'arrived:int'],
  replies: {
    moved: (f) => ({ outNo: count(f, 0), ...journaled(f, 1) }),
    short: (f) => ({ free: count(f, 0) }),
    full: () => ({}),
    undivided: () => ({}),
    not_found: () => ({}),
    rebuilding,
  },
});
export type MoveOutOutcome = WithoutEntries<OutcomeOf<typeof moveOutScript>>;

export const moveInScript = defineScript({
  name: 'move_in',
  keys: CHANGED_KEYS,
  args: ['from', 'out_no:int', 'units:int', 'codes'],
  replies: {
    moved: (f) => journaled(f, 0),
    unknown_codes: (f) => ({ highest: count(f, 0) }),
    undivided: () => ({}),
    not_found: () => ({}),
    rebuilding,
  },
});
export type MoveInOutcome = WithoutEntries<OutcomeOf<typeof moveInScript>>;

/** `qty` 0: the user cannot be served. */
export type WaitingHead = { lineNo: number; qty: number };

export const bucketHeadsScript = defineScript({
  name: 'bucket_heads',
  keys: ['campaign', 'people', 'line', 'codes', 'epoch'],
  args: ['limit:int'],
  replies: {
    heads: (f) => ({
      stage: oneOf(f, 0, BUCKET_STAGES),
      status: oneOf(f, 1, CAMPAIGN_STATUSES),
      total: count(f, 2),
      free: count(f, 3),
      held: count(f, 4),
      waiting: count(f, 5),
      // Of a pool. `unused`: codes that the bucket can give, exact up to 2,000. `own`: used ones included. `known`:
      // those of the campaign that this bucket knows of.
      codes: text(f, 6) === '' ? null : { unused: count(f, 6), own: count(f, 7), known: count(f, 8) },
      heads: Array.from(
        { length: (f.length - 9) / 2 },
        (_, i): WaitingHead => ({ lineNo: count(f, 9 + 2 * i), qty: count(f, 10 + 2 * i) }),
      ),
    }),
    undivided: () => ({}),
    not_found: () => ({}),
    rebuilding,
  },
});
export type BucketHeadsOutcome = OutcomeOf<typeof bucketHeadsScript>;
export type BucketHeads = Omit<Extract<BucketHeadsOutcome, { kind: 'heads' }>, 'kind'>;

export const bucketPlacesScript = defineScript({
  name: 'bucket_places',
  keys: ['campaign', 'line', 'epoch'],
  args: ['exact:int', 'every:int'],
  replies: {
    places: (f) => ({ waiting: count(f, 0), lastLineNo: count(f, 1), numbers: f.slice(2).map(Number) }),
    not_found: () => ({}),
    rebuilding,
  },
});
