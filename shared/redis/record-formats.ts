import { defineRecord, type RecordFormat } from './record-format.js';

/**
 * Formats of every record that both scripts and TypeScript write or read. This is their only definition: the loader
 * generates `pack_<name>{…}` and `--#parse <name>` of scripts from it (script-source.ts).
 *
 * Records survive an update, and processes of two versions share them during an update. So a change of a format needs
 * another number (shared/domain/format.ts).
 */

/** state: see reservation-record.ts; line_no: 0 = reserved without waiting; reduced: see `Reduced` there */
export const RESERVATION = defineRecord('reservation', [
  'state',
  'user',
  'qty:int',
  'slot:int',
  'due:int',
  'line_no:int',
  'order_id',
  'code:int?',
  'reduced:rare',
]);

/** state: queued, held (see the reservation), left; slots: taken slots of the user's allowance */
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

/** First part of an idempotency record, which identifies the request. The response follows it. */
export const FINGERPRINT = defineRecord('fingerprint', ['no:int', 'qty:int', 'user', 'request:tail']);
/** Request of a redemption by code; that of a checkout is "". */
export const REDEMPTION = defineRecord('redemption', ['code:int', 'order', 'answer:tail'], { begin: 'R|' });

/** Response of an idempotency record: a unit. */
export const COMPLETED = defineRecord(
  'completed',
  ['reservation_id', 'order_id', 'due:int', 'ticket_key', 'durability', 'code:int?', 'terms:int'],
  { begin: 'C|' },
);
/** Response of an idempotency record: a place. */
export const QUEUED = defineRecord(
  'queued',
  ['position:int', 'queue_size:int', 'ticket_key', 'pace:int?', 'presence_ms:int', 'place_id'],
  { begin: 'Q|' },
);

/** First line of a packed journal entry: the values that its promises share. */
export const PROMISES_HEADER = defineRecord(
  'promises_header',
  ['at:int', 'due:int', 'terms:int', 'ticket_key', 'durability'],
  { separator: '\t' },
);
const PROMISED = ['reservation', 'user', 'order', 'qty:int'] as const;
const TRACED = ['device', 'trace', 'stacking', 'metadata:rare'] as const;
/**
 * A unit. order: "" = derived from the reservation id. metadata: JSON. Its response is derived from the other fields.
 */
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
/** A response that no other entry contains. */
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
