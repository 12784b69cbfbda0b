import { CAMPAIGN_STATUSES } from '../../domain/campaign.js';
import { count, journaled, oneOf, rebuilding, reply } from '../../redis/reply-fields.js';
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
    sealed: reply({ closed: count }, journaled),
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
  replies: { drawn: reply({ last: count }), not_found: () => ({}), rebuilding },
});

export const moveOutScript = defineScript({
  name: 'move_out',
  keys: CHANGED_KEYS,
  args: ['to', 'units:int', 'codes:int', 'arrived:int'],
  replies: {
    moved: reply({ outNo: count }, journaled),
    short: reply({ free: count }),
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
    moved: journaled,
    unknown_codes: reply({ highest: count }),
    undivided: () => ({}),
    not_found: () => ({}),
    rebuilding,
  },
});
export type MoveInOutcome = WithoutEntries<OutcomeOf<typeof moveInScript>>;

/** `qty` 0: the user cannot be served. */
const waitingHead = reply({ lineNo: count, qty: count });
const codes = reply({ unused: count, own: count, known: count });

export const bucketHeadsScript = defineScript({
  name: 'bucket_heads',
  keys: ['campaign', 'people', 'line', 'codes', 'epoch'],
  args: ['limit:int'],
  replies: {
    heads: reply(
      {
        ...{ stage: oneOf(BUCKET_STAGES), status: oneOf(CAMPAIGN_STATUSES) },
        ...{ total: count, free: count, held: count, waiting: count },
      },
      (fields, from) => ({
        // Of a pool. `unused`: codes that the bucket can give, exact up to 2,000. `own`: used ones included. `known`:
        // those of the campaign that this bucket knows of.
        codes: fields[from] === '' ? null : codes(fields, from),
        heads: Array.from({ length: (fields.length - from - codes.names.length) / waitingHead.names.length }, (_, i) =>
          waitingHead(fields, from + codes.names.length + i * waitingHead.names.length),
        ),
      }),
    ),
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
    places: reply({ waiting: count, lastLineNo: count }, (fields, from) => ({
      numbers: fields.slice(from).map(Number),
    })),
    not_found: () => ({}),
    rebuilding,
  },
});
