import { describe, expect, it } from '@jest/globals';
import { ContractError } from '../errors/faults.js';
import { defineRecord, luaPack, luaParse, packRecord, parseRecord, recordIn } from './record-format.js';
import {
  ANSWERED_PROMISE,
  COMPLETED,
  FINGERPRINT,
  HOLDER,
  PERSON,
  PROMISES_HEADER,
  QUEUED,
  QUEUED_PROMISE,
  RECORD_FORMATS,
  REDEMPTION,
  RESERVATION,
  RESERVED_PROMISE,
} from './record-formats.js';
import { expandRecords } from './script-records.js';

const id = '01890000-0000-7000-8000-000000000001';

/** Records as Redis and Postgres store them. A changed format could not read them any more. */
const STORED: [unknown, string][] = [
  [
    packRecord(RESERVATION, {
      state: 'reserved',
      user: 'ann',
      qty: 2,
      slot: 1,
      due: 99,
      line_no: 7,
      order_id: 'ord_1',
      code: null,
      reduced: '',
    }),
    'reserved|ann|2|1|99|7|ord_1|',
  ],
  [
    packRecord(RESERVATION, {
      state: 'redeemed',
      user: 'ann',
      qty: 2,
      slot: 1,
      due: 99,
      line_no: 7,
      order_id: 'ord_1',
      code: 5,
      reduced: '1,2,2',
    }),
    'redeemed|ann|2|1|99|7|ord_1|5|1,2,2',
  ],
  [
    packRecord(PERSON, {
      state: 'held',
      slots: [1, 3],
      line_no: 0,
      qty: 1,
      reservation_id: id,
      order_id: '',
      code: 5,
    }),
    `held|1,3|0|1|${id}||5`,
  ],
  [packRecord(HOLDER, { line_no: 4, device: 'dev-1' }), '4|dev-1'],
  [
    packRecord(FINGERPRINT, { no: 3, qty: 1, user: 'ann', request: 'R|8|cart|Q|1|1|t||0|' }),
    '3|1|ann|R|8|cart|Q|1|1|t||0|',
  ],
  [packRecord(REDEMPTION, { code: 8, order: 'cart', answer: '' }), 'R|8|cart|'],
  [
    packRecord(COMPLETED, {
      reservation_id: id,
      order_id: 'ord_1',
      due: 99,
      ticket_key: 't1',
      durability: '0',
      code: 8,
      terms: 2,
    }),
    `C|${id}|ord_1|99|t1|0|8|2`,
  ],
  [
    packRecord(QUEUED, {
      position: 1,
      queue_size: 2,
      ticket_key: 't1',
      pace: null,
      presence_ms: 9000,
      place_id: id,
    }),
    `Q|1|2|t1||9000|${id}`,
  ],
  [packRecord(PROMISES_HEADER, { at: 1, due: 2, terms: 3, ticket_key: 't1', durability: '1' }), '1\t2\t3\tt1\t1'],
  [
    packRecord(RESERVED_PROMISE, {
      reservation: id,
      user: 'ann',
      order: '',
      qty: 1,
      slot: 1,
      code: null,
      key: 'k',
      request: '',
      device: 'dev-1',
      trace: '',
      stacking: 'combines',
      metadata: '',
    }),
    `reserved\t${id}\tann\t\t1\t1\t\tk\t\tdev-1\t\tcombines`,
  ],
  [
    packRecord(QUEUED_PROMISE, {
      reservation: id,
      user: 'ann',
      order: 'cart',
      qty: 1,
      line_no: 6,
      code: 5,
      key: 'k',
      answer: 'a',
      device: '',
      trace: 't',
      stacking: '',
      metadata: '{"a":"b"}',
    }),
    `queued\t${id}\tann\tcart\t1\t6\t5\tk\ta\t\tt\t\t{"a":"b"}`,
  ],
  [packRecord(ANSWERED_PROMISE, { key: 'k', answer: 'a' }), 'answered\tk\ta'],
];

describe('the formats of records', () => {
  it('are those of the records that Redis and Postgres have', () => {
    for (const [packed, text] of STORED) expect(packed).toBe(text);
    // Only TypeScript writes redemptions. A reservation is here with and without its rare field.
    expect(STORED).toHaveLength(RECORD_FORMATS.size + 2);
  });

  it('are read as they were written', () => {
    expect(parseRecord(PERSON, `held|1,3|0|1|${id}||5`)).toEqual({
      state: 'held',
      slots: [1, 3],
      line_no: 0,
      qty: 1,
      reservation_id: id,
      order_id: '',
      code: 5,
    });
    expect(parseRecord(FINGERPRINT, '3|1|ann|R|8|cart|C|x')).toEqual({
      no: 3,
      qty: 1,
      user: 'ann',
      request: 'R|8|cart|C|x',
    });
  });

  it('refuse a record with another number of fields or another beginning', () => {
    for (const text of ['held|1', 'held||0|1|r|o||', 'nonsense']) {
      expect(recordIn(PERSON, text)).toBeNull();
      expect(() => parseRecord(PERSON, text)).toThrow(ContractError);
    }
    expect(recordIn(COMPLETED, `Q|${id}|o|1|t|0||1`)).toBeNull();
    expect(recordIn(QUEUED, 'Q|1|2')).toBeNull();
  });
});

describe('records in scripts', () => {
  const sample = defineRecord('sample', ['state', 'qty:int', 'slots:ints', 'rest:tail'], { begin: 'S|' });

  it('are written by name, as a concatenation in the order of the format', () => {
    const given = new Map([
      ['rest', 'r.rest'],
      ['slots', "'1'"],
      ['qty', '(a or b)'],
      ['state', 'state'],
    ]);
    expect(luaPack(sample, given)).toBe("'S|' .. state .. '|' .. (a or b) .. '|' .. '1' .. '|' .. r.rest");
    expect(() => luaPack(sample, new Map([['stat', 'x']]))).toThrow(
      'lacks, or does not know: state, qty, slots, rest, stat',
    );
  });

  it('are read into a table by the names of the format', () => {
    expect(luaParse(sample)).toBe(
      'local function parse_sample(text) local state, qty, slots, rest = ' +
        "string.match(text, '^S|([^|]*)|(%d+)|([%d,]*)|(.*)$') if not state then return nil end " +
        'return { state = state, qty = tonumber(qty), slots = slots, rest = rest } end',
    );
  });

  it('keep the number of lines, and leave everything else as it is', () => {
    const script = `local key = f(x)
--#parse holder
return pack_holder{ device = r.device or g(1, 2),
  line_no = n } .. key`;
    expect(expandRecords(script)).toBe(`local key = f(x)
${luaParse(HOLDER)}
return n .. '|' .. (r.device or g(1, 2))
 .. key`);
    expect(() => expandRecords('pack_holder{ device = 1 }')).toThrow('pack_holder lacks');
    expect(() => expandRecords('pack_nothing{ a = 1 }')).toThrow('no record is called nothing');
  });
});
