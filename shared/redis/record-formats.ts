import { defineRecord, type RecordFormat } from './record-format.js';

/**
 * Every record that both scripts and TypeScript write or read. This is their only definition: the loader makes
 * `pack_<name>{…}` and `--#parse <name>` of scripts from it (script-source.ts).
 *
 * Records outlive an update, and processes of two versions share them while it runs. A new field goes to the end, is counted
 * beyond `least`, and is written once every process reads it.
 */

/** state: see reservation-record.ts; line_no: 0 = given without waiting */
export const RESERVATION = defineRecord('reservation', [
  'state',
  'user',
  'qty:int',
  'slot:int',
  'due:int',
  'line_no:int',
  'order_id',
  'code:int?',
]);

/** state: queued, held (see the reservation), left; slots: which of the user's allowances are taken */
export const PERSON = defineRecord('person', [
  'state',
  'slots:ints',
  'line_no:int',
  'qty:int',
  'reservation_id',
  'order_id',
  'code:int?',
]);

/** The device that took a place in line. */
export const HOLDER = defineRecord('holder', ['line_no:int', 'device']);

/** Begins an idempotency record: what makes a request the same when it is repeated. The answer follows the request. */
export const FINGERPRINT = defineRecord('fingerprint', ['no:int', 'qty:int', 'user', 'request:tail']);
/** The request of a redemption by code. That of a checkout is "". */
export const REDEMPTION = defineRecord('redemption', ['code:int', 'order', 'answer:tail'], { begin: 'R|' });

/** Ends an idempotency record: a unit. */
export const COMPLETED = defineRecord(
  'completed',
  ['reservation_id', 'order_id', 'due:int', 'ticket_key', 'durability', 'code:int?', 'terms:int'],
  { begin: 'C|' },
);
/** Ends an idempotency record: a place. Versions before November 2026 left out the end. */
export const QUEUED = defineRecord(
  'queued',
  ['position:int', 'queue_size:int', 'ticket_key', 'pace:int?', 'presence_ms:int', 'place_id'],
  { begin: 'Q|', least: 3 },
);

/** First line of a packed journal entry: what its promises have in common. */
export const PROMISES_HEADER = defineRecord(
  'promises_header',
  ['at:int', 'due:int', 'terms:int', 'ticket_key', 'durability'],
  { separator: '\t' },
);
const PROMISED = ['reservation', 'user', 'order', 'qty:int'] as const;
const TRACED = ['device', 'trace', 'stacking'] as const;
/** A unit. order: "" = made from the reservation id; its answer follows from the rest. */
export const RESERVED_PROMISE = defineRecord(
  'reserved_promise',
  [...PROMISED, 'slot:int', 'code:int?', 'key', 'request', ...TRACED],
  { begin: 'reserved\t', separator: '\t' },
);
/** A place in line. */
export const QUEUED_PROMISE = defineRecord(
  'queued_promise',
  [...PROMISED, 'line_no:int', 'code:int?', 'key', 'answer', ...TRACED],
  { begin: 'queued\t', separator: '\t' },
);
/** An answer that no other entry carries. */
export const ANSWERED_PROMISE = defineRecord('answered_promise', ['key', 'answer'], {
  begin: 'answered\t',
  separator: '\t',
});

/** Name in scripts → format. */
export const RECORD_FORMATS: ReadonlyMap<string, RecordFormat> = new Map(
  [
    RESERVATION,
    PERSON,
    HOLDER,
    FINGERPRINT,
    COMPLETED,
    QUEUED,
    PROMISES_HEADER,
    RESERVED_PROMISE,
    QUEUED_PROMISE,
    ANSWERED_PROMISE,
  ].map((format: RecordFormat) => [format.name, format]),
);
