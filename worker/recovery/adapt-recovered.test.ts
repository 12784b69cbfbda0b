import { describe, expect, it } from '@jest/globals';
import type { RawEntry } from '../../shared/contracts/journal.js';
import type { RedemptionStatus } from '../../shared/domain/reservation.js';
import { encodeIdempotencyRecord, encodeStoredRequest } from '../../shared/redis/idempotency-record.js';
import { unreduced } from '../../shared/sale/reservation-record.js';
import { adaptEntries } from './adapt-recovered.js';
import { addHolds, decodeRecovered, KnownRows } from './known-rows.js';

const NO = 7;
const RESERVATION = '01a1fc6d-483b-7a4a-9e25-913b00000007';
const OTHER = '01a1fc6d-483b-7a4a-9e25-913c00000007';
const THIRD = '01a1fc6d-483b-7a4a-9e25-913d00000007';

function nothingKnown(): KnownRows {
  const rows = new KnownRows();
  rows.campaigns.set(NO, { lastLineNo: 3, closed: false });
  return rows;
}

function known(status: RedemptionStatus, changedMs: number, dueMs: number, qty = 1, reacquired = false): KnownRows {
  const rows = nothingKnown();
  const row = { no: NO, status, qty, reacquired, changedMs, dueMs };
  rows.reservations.set(RESERVATION, { ...row, burned: false, reduced: unreduced, extended: false });
  return rows;
}

let number = 0;
function raw(fields: Record<string, string>): RawEntry {
  number += 1;
  return { journalId: `100-${number}`, fields: { no: String(NO), ...fields } };
}

const reserved = (reservation: string, at: number, due: number, line = 0) =>
  raw({
    kind: 'reserved',
    reservation,
    user: 'ann',
    order: 'o-1',
    qty: '1',
    slot: '1',
    at: String(at),
    due: String(due),
    line: String(line),
    state: 'reserved',
    code: '',
    terms: '1',
    key: 'key-12345',
    answer: 'answer',
    device: '',
    trace: '',
  });
const redeemed = (at: number, record?: string) =>
  raw({
    kind: 'redeemed',
    reservation: RESERVATION,
    at: String(at),
    slot: '1',
    reacquired: '0',
    payment: 'pay-1',
    trace: '',
    ...(record ? { record } : {}),
  });
const released = (at: number, record?: string) =>
  raw({
    ...{ kind: 'released', reservation: RESERVATION, at: String(at), reason: '', trace: '' },
    ...(record ? { record } : {}),
  });
const extended = (at: number, due: number, record?: string) =>
  raw({
    kind: 'extended',
    reservation: RESERVATION,
    at: String(at),
    due: String(due),
    trace: '',
    ...(record ? { record } : {}),
  });
const reduced = (ending: string, qty: number, record?: string) =>
  raw({
    kind: 'reduced',
    reservation: RESERVATION,
    at: '8000',
    before: '3',
    qty: String(qty),
    ending,
    released: String(ending === 'released' ? 3 - qty : 0),
    refunded: String(ending === 'released' ? 0 : 3 - qty),
    burned: '0',
    reason: '',
    trace: '',
    ...(record ? { record } : {}),
  });
const queued = (line: number) =>
  raw({
    kind: 'queued',
    reservation: OTHER,
    user: 'bob',
    order: '',
    qty: '1',
    line: String(line),
    code: '',
    at: '1000',
    key: 'key-67890',
    answer: 'answer',
    device: '',
    trace: '',
  });

function adapt(raws: RawEntry[], rows: KnownRows) {
  const { entries, rejected } = adaptEntries(raws, raws.map(decodeRecovered), rows);
  return { kinds: entries.map(({ kind }) => kind), entries, reasons: rejected.map(({ reason }) => reason) };
}

describe('adaptEntries', () => {
  it('adds an entry that Postgres lacks, and leaves out one that it has', () => {
    expect(adapt([reserved(RESERVATION, 1_000, 9_000)], nothingKnown()).kinds).toEqual(['reserved']);
    expect(adapt([reserved(RESERVATION, 1_000, 9_000)], known('redeemed', 2_000, 9_000)).kinds).toEqual(['answered']);
  });

  it('applies a payment to a reservation that Postgres has as reserved', () => {
    expect(adapt([redeemed(2_000)], known('reserved', 1_000, 9_000)).kinds).toEqual(['redeemed']);
  });

  it('expires a reservation at its deadline, not after it', () => {
    const kindsAt = (at: number) => adapt([reserved(OTHER, at, 20_000)], known('reserved', 1_000, 9_000)).kinds;
    expect([kindsAt(8_999), kindsAt(9_000)]).toEqual([['reserved'], ['expired', 'reserved']]);
  });

  it('applies a change of the millisecond in which the row last changed', () => {
    expect(adapt([released(1_000)], known('reserved', 1_000, 9_000))).toMatchObject({
      kinds: ['released'],
      reasons: [],
    });
    expect(adapt([redeemed(1_000)], known('reserved', 1_001, 9_000)).kinds).toEqual([]);
  });

  it('brings a reservation with its payment when Postgres has neither', () => {
    const record = 'redeemed|ann|1|1|9000|4|order-1|';
    const { kinds, entries } = adapt([redeemed(2_000, record)], nothingKnown());
    expect(kinds).toEqual(['reserved', 'redeemed']);
    expect(entries[0]).toMatchObject({ user: 'ann', order: 'order-1', lineNo: 4, dueMs: 9_000, state: 'reserved' });
  });

  it('keeps what a reservation gave back before a change, when the entries of that are lost', () => {
    const record = 'released|ann|1|1|9000|0|order-1||2,0,0';
    const givenBack = { kind: 'reduced', ending: 'released', before: 3, qty: 1, released: 2, refunded: 0, burned: 0 };
    const made = adapt([released(8_000, record)], nothingKnown()).entries;
    expect(made).toMatchObject([{ kind: 'reserved', qty: 1 }, givenBack, { kind: 'released' }]);
    const held = adapt([released(8_000, record)], known('reserved', 1_000, 9_000, 3)).entries;
    expect(held).toMatchObject([givenBack, { kind: 'released' }]);
    const paid = adapt([redeemed(8_000, 'redeemed|ann|1|1|9000|0|order-1||2,0,0')], known('reserved', 1_000, 9_000, 3));
    expect(paid.entries).toMatchObject([givenBack, { kind: 'redeemed' }]);
    expect(adapt([redeemed(8_000, record)], known('reserved', 1_000, 9_000, 1)).kinds).toEqual(['redeemed']);
  });

  it('extends a reservation, so that a later payment finds it', () => {
    const held = () => known('reserved', 1_000, 9_000);
    expect(adapt([extended(8_000, 19_000), redeemed(10_000)], held()).kinds).toEqual(['extended', 'redeemed']);
    expect(adapt([redeemed(10_000)], held()).kinds).toEqual(['expired', 'redeemed']);
    const row = known('reserved', 1_000, 19_000);
    // The repair of a Postgres that was set back has written the later deadline, and not that it was extended.
    expect(adapt([extended(8_000, 19_000)], row).kinds).toEqual(['extended']);
    expect(row.reservations.get(RESERVATION)?.extended).toBe(true);
    expect(adapt([extended(8_000, 19_000)], row).kinds).toEqual([]);
    expect(adapt([extended(8_000, 19_000)], known('released', 8_500, 9_000)).kinds).toEqual([]);
    const { entries } = adapt([extended(8_000, 19_000, 'reserved|ann|1|1|19000|0|order-1|')], nothingKnown());
    expect(entries).toMatchObject([
      { kind: 'reserved', dueMs: 19_000 },
      { kind: 'extended', dueMs: 19_000 },
    ]);
    expect(adapt([extended(8_000, 19_000)], nothingKnown()).reasons).toEqual(['Postgres has no such reservation']);
  });

  it('gives back units that Postgres has, once, unless the reservation has ended', () => {
    const held = known('reserved', 1_000, 9_000, 3);
    const twice = [reduced('released', 2), reduced('released', 1), reduced('released', 2)];
    expect(adapt(twice, held).entries).toMatchObject([{ qty: 2 }, { qty: 1 }]);
    expect(adapt([reduced('released', 2)], known('reserved', 1_000, 9_000, 2)).kinds).toEqual([]);
    expect(adapt([reduced('released', 2)], known('released', 8_500, 9_000, 3)).kinds).toEqual([]);
    expect(adapt([reduced('refunded', 2)], known('redeemed', 2_000, 9_000, 3)).kinds).toEqual(['reduced']);
    expect(adapt([reduced('released', 2)], nothingKnown()).reasons).toEqual(['Postgres has no such reservation']);
  });

  it('brings a reservation, and its payment, with the units that it gave back', () => {
    const released = adapt([reduced('released', 2, 'reserved|ann|2|1|9000|0|order-1||1,0,0')], nothingKnown());
    expect(released.entries).toMatchObject([{ kind: 'reserved', qty: 2 }, { kind: 'reduced' }]);
    const refunded = adapt([reduced('refunded', 2, 'redeemed|ann|2|1|9000|0|order-1||0,1,0')], nothingKnown());
    expect(refunded.entries).toMatchObject([{ kind: 'reserved', qty: 2 }, { kind: 'redeemed' }, { kind: 'reduced' }]);
  });

  it('brings the payment of a reservation that Postgres has without it, when a part of it was refunded', () => {
    const refund = reduced('refunded', 2, 'redeemed|ann|2|1|9000|0|order-1||0,1,0');
    const held = known('reserved', 1_000, 9_000, 3);
    expect(adapt([refund, refund], held).entries).toMatchObject([
      { kind: 'redeemed', reacquired: false, slot: 1 },
      { kind: 'reduced', qty: 2 },
    ]);
    for (const ended of ['released', 'expired'] as const) {
      const late = reduced('refunded', 2, 'reacquired|ann|2|2|9000|0|order-1||0,1,0');
      expect(adapt([late], known(ended, 5_000, 4_000, 3)).entries).toMatchObject([
        { kind: 'redeemed', reacquired: true, slot: 2 },
        { kind: 'reduced', qty: 2 },
      ]);
    }
  });

  it('rejects a refund of a row that has ended otherwise', () => {
    const refund = reduced('refunded', 2, 'redeemed|ann|2|1|9000|0|order-1||0,1,0');
    for (const ended of ['refunded', 'voided'] as const) {
      const { kinds, reasons } = adapt([refund], known(ended, 8_500, 9_000, 3));
      expect({ kinds, reasons }).toEqual({ kinds: [], reasons: [expect.stringContaining(ended)] });
    }
    expect(adapt([refund], known('refunded', 8_500, 9_000, 2))).toMatchObject({ kinds: [], reasons: [] });
    expect(adapt([reduced('refunded', 2)], known('expired', 5_000, 4_000, 3)).reasons).toHaveLength(1);
  });

  it('rejects a change of an unknown reservation', () => {
    expect(adapt([redeemed(2_000)], nothingKnown()).reasons).toEqual(['Postgres has no such reservation']);
  });

  it('rejects a change that is older than the last change of the row, and one of a voided row', () => {
    expect(adapt([released(2_000)], known('redeemed', 3_000, 9_000)).reasons).toHaveLength(1);
    expect(adapt([released(4_000)], known('voided', 3_000, 9_000)).reasons).toEqual(['the reservation is voided']);
  });

  it('leaves out a change that has been applied already', () => {
    expect(adapt([redeemed(2_000)], known('redeemed', 2_000, 9_000))).toMatchObject({ kinds: [], reasons: [] });
  });

  it('expires reservations that were overdue before a later entry, so that it can use their units', () => {
    const rows = known('reserved', 1_000, 2_000);
    const { kinds, entries } = adapt([reserved(OTHER, 2_500, 9_000)], rows);
    expect(kinds).toEqual(['expired', 'reserved']);
    expect(entries[0]).toMatchObject({ reservation: RESERVATION, atMs: 2_000, reason: 'deadline' });
  });

  it('does not expire a reservation that was paid in time, or whose deadline is later', () => {
    expect(adapt([redeemed(1_500), reserved(OTHER, 2_500, 9_000)], known('reserved', 1_000, 2_000)).kinds).toEqual([
      'redeemed',
      'reserved',
    ]);
    expect(adapt([reserved(OTHER, 2_500, 9_000)], known('reserved', 1_000, 2_501)).kinds).toEqual(['reserved']);
  });

  it('expires a recovered reservation that a later recovered entry has outlived', () => {
    const { kinds } = adapt([reserved(RESERVATION, 1_000, 2_000), reserved(OTHER, 2_500, 9_000)], nothingKnown());
    expect(kinds).toEqual(['reserved', 'expired', 'reserved']);
  });

  it('expires a reservation at the first entry after its deadline, also when earlier entries come before it', () => {
    const entries = [reserved(OTHER, 1_500, 9_000), reserved(THIRD, 2_500, 9_000)];
    expect(adapt(entries, known('reserved', 1_000, 2_000)).kinds).toEqual(['reserved', 'expired', 'reserved']);
  });

  it('keeps a place in line, and moves it to the end when its number was given to another user since', () => {
    expect(adapt([queued(4)], nothingKnown()).entries[0]).toMatchObject({ kind: 'queued', lineNo: 4 });
    const rows = nothingKnown();
    rows.tickets.push({ no: NO, lineNo: 3, reservation: RESERVATION, user: 'ann', status: 'waiting' });
    expect(adapt([queued(3)], rows).entries[0]).toMatchObject({ kind: 'queued', lineNo: 4 });
  });

  it('recovers a place and a reservation once, and the response of each', () => {
    const [place, claim] = [queued(4), reserved(RESERVATION, 1_000, 9_000)];
    expect(adapt([place, place, claim, claim], nothingKnown()).entries).toMatchObject([
      { kind: 'queued', key: 'key-67890' },
      { kind: 'answered', key: 'key-67890', answer: 'answer' },
      { kind: 'reserved', key: 'key-12345' },
      { kind: 'answered', key: 'key-12345', answer: 'answer' },
    ]);
  });

  it('ends a recovered place of a campaign that is closed', () => {
    const rows = nothingKnown();
    rows.campaigns.set(NO, { lastLineNo: 3, closed: true });
    expect(adapt([queued(4)], rows).kinds).toEqual(['queued', 'left']);
  });

  it('rejects leaving a place that Postgres does not have', () => {
    const left = raw({ kind: 'left', user: 'bob', line: '9', ending: 'left', reason: '', at: '1000', trace: '' });
    expect(adapt([left], nothingKnown()).reasons).toEqual(['Postgres has no place in line with this number']);
  });

  describe('a promise that was acknowledged again', () => {
    const completed = encodeStoredRequest(
      NO,
      1,
      'ann',
      '',
      encodeIdempotencyRecord({
        ...{ kind: 'completed', reservationId: RESERVATION, orderId: 'order-1', dueMs: 9_000, ticketKey: 't' },
        ...{ durability: 'journaled', code: null, terms: 3 },
      }),
    );
    const placed = (reservationId: string | null) =>
      encodeStoredRequest(
        NO,
        1,
        'bob',
        '',
        encodeIdempotencyRecord({
          ...{ kind: 'queued', position: 1, queueSize: 1, ticketKey: null, paceMs: null, presenceMs: 0, reservationId },
        }),
      );
    const fact = (record: string, payments: string[] = [], at = 8_000, key = '') =>
      raw({
        ...{ kind: 'acknowledged', of: 'reservation', at: String(at), reservation: RESERVATION, user: '', record },
        ...{ stacking: '', payments: JSON.stringify(payments), key, answer: key === '' ? '' : completed },
      });
    const place = (state: string, waiting: boolean, key = 'key-2') =>
      raw({
        ...{ kind: 'acknowledged', of: 'place', at: '8000', reservation: OTHER, user: 'bob', stacking: '', key },
        ...{ record: `${state}||4|1|${OTHER}||`, waiting: waiting ? '1' : '0', answer: key && placed(OTHER) },
      });
    const of = (state: string, rest = '9000|0|order-1|', qty = 1) => `${state}|ann|${qty}|1|${rest}`;

    it('brings the reservation with its key, response and payments', () => {
      const { entries, kinds } = adapt([fact(of('redeemed'), ['pay-1', 'pay-2'], 9_500, 'key-1')], nothingKnown());
      expect(kinds).toEqual(['reserved', 'redeemed', 'paid_again']);
      expect(entries).toMatchObject([
        { user: 'ann', key: 'key-1', answer: completed, terms: 3, state: 'reserved', atMs: 8_999 },
        { payment: 'pay-1', reacquired: false, atMs: 8_999 },
        { payment: 'pay-2', first: 'pay-1' },
      ]);
    });

    it('adds only what the row lacks, and the response if another entry does not bring it', () => {
      const reserved = () => known('reserved', 1_000, 9_000);
      expect(adapt([fact(of('reserved'))], reserved()).kinds).toEqual([]);
      expect(adapt([fact(of('reserved', '19000|0|order-1|'))], reserved()).kinds).toEqual(['extended']);
      expect(adapt([fact(of('released'))], reserved()).kinds).toEqual(['released']);
      expect(adapt([fact(of('expired'), [], 9_500)], reserved()).kinds).toEqual(['expired']);
      expect(adapt([fact(of('refunded'), ['p'])], reserved()).kinds).toEqual(['redeemed', 'refunded']);
      expect(adapt([fact(of('burned'))], known('redeemed', 2_000, 9_000)).entries).toMatchObject([{ burned: true }]);
      expect(adapt([fact(of('redeemed'))], known('redeemed', 2_000, 9_000)).kinds).toEqual([]);
      expect(adapt([fact(of('reserved'), [], 8_000, 'key-1')], reserved()).kinds).toEqual(['answered']);
    });

    it('takes a payment in time before the end of the reservation', () => {
      expect(adapt([fact(of('redeemed'), [], 9_500)], known('reserved', 1_000, 9_000)).kinds).toEqual(['redeemed']);
      const late = adapt([fact(of('reacquired'), [], 9_500)], known('expired', 9_000, 9_000));
      expect(late.entries).toMatchObject([{ kind: 'redeemed', reacquired: true, atMs: 9_500 }]);
    });

    it('leaves a row that follows from the fact, and a voided one', () => {
      const left = { kinds: [], reasons: [] };
      for (const [state, status] of [
        ['reserved', 'redeemed'],
        ['reserved', 'expired'],
        ['redeemed', 'refunded'],
        ['redeemed', 'voided'],
        ['released', 'voided'],
      ] as const)
        expect(adapt([fact(of(state))], known(status, 8_500, 9_000))).toMatchObject(left);
      for (const state of ['released', 'expired'])
        expect(adapt([fact(of(state))], known('redeemed', 9_500, 9_000, 1, true))).toMatchObject(left);
    });

    it('rejects a fact that its row contradicts', () => {
      for (const [state, status] of [
        ['redeemed', 'released'],
        ['redeemed', 'expired'],
        ['reacquired', 'expired'],
        ['refunded', 'expired'],
        ['refunded', 'redeemed'],
        ['burned', 'redeemed'],
        ['released', 'redeemed'],
        ['expired', 'redeemed'],
        ['released', 'refunded'],
      ] as const)
        expect(adapt([fact(of(state))], known(status, 9_500, 9_000))).toMatchObject({
          kinds: [],
          reasons: [`it was acknowledged as ${state}, and the reservation is ${status}`],
        });
      const partly = fact(of('redeemed', '9000|0|order-1||0,1,0', 2));
      expect(adapt([partly], known('redeemed', 8_500, 9_000, 3)).reasons).toEqual([
        'it was acknowledged with the quantity 2, and the reservation has 3',
      ]);
      for (const changedMs of [7_500, 8_500])
        expect(adapt([partly], known('refunded', changedMs, 9_000, 3)).reasons).toHaveLength(1);
      expect(adapt([partly], known('refunded', 8_500, 9_000, 2)).reasons).toEqual([]);
    });

    it('rejects that a user left who has been promoted since', () => {
      const rows = nothingKnown();
      rows.tickets.push({ no: NO, lineNo: 4, reservation: OTHER, user: 'bob', status: 'promoted' });
      expect(adapt([place('left', false)], rows).reasons).toEqual(['the place in line has been promoted']);
      expect(adapt([place('queued', true)], rows).reasons).toEqual([]);
    });

    it('marks a new row as extended, once, if Redis had marked the reservation', () => {
      const { journalId, fields } = fact(of('reserved', '19000|0|order-1|'));
      const marked: RawEntry = { journalId, fields: { ...fields, extended: '1' } };
      expect(adapt([marked, marked], nothingKnown()).kinds).toEqual(['reserved', 'extended']);
      expect(adapt([extended(8_000, 19_000), marked], known('reserved', 1_000, 9_000)).kinds).toEqual(['extended']);
      expect(adapt([fact(of('reserved', '9000|0|order-1|'))], nothingKnown()).kinds).toEqual(['reserved']);
    });

    it('keeps the reference of a payment when the row was paid again since', () => {
      const { entries } = adapt([fact(of('redeemed'), ['pay-1'])], known('redeemed', 8_500, 9_000));
      expect(entries).toMatchObject([{ kind: 'paid_again', payment: 'pay-1' }]);
    });

    it('reserves a unit again for a payment that was acknowledged as late', () => {
      for (const rows of [known('reserved', 1_000, 9_000), nothingKnown()])
        expect(adapt([fact(of('reacquired'), [], 9_500)], rows).entries.at(-1)).toMatchObject({
          kind: 'redeemed',
          reacquired: true,
          atMs: 9_500,
        });
    });

    it('voids a reservation that Redis had voided, unless it has ended or was paid since', () => {
      const voided = fact(of('voided'));
      expect(adapt([voided], nothingKnown()).kinds).toEqual(['reserved', 'voided']);
      // Its key may belong to another reservation by now.
      const [row] = adapt([fact(of('voided'), [], 8_000, 'key-1')], nothingKnown()).entries;
      expect(row).toMatchObject({ kind: 'reserved', key: '', answer: '' });
      expect(adapt([voided], known('reserved', 1_000, 9_000)).kinds).toEqual(['voided']);
      expect(adapt([voided], known('redeemed', 2_000, 9_000)).kinds).toEqual(['voided']);
      expect(adapt([voided], known('redeemed', 8_500, 9_000))).toMatchObject({ kinds: [], reasons: [] });
      expect(adapt([voided], known('released', 2_000, 9_000)).kinds).toEqual([]);
    });

    it('expires no reservation before the fact that it was paid in time, or extended', () => {
      const later = reserved(OTHER, 9_400, 19_000);
      const held = () => known('reserved', 1_000, 9_000);
      for (const state of ['redeemed', 'burned']) {
        const { kinds, entries } = adapt([later, fact(of(state), [], 9_500)], held());
        expect(kinds.slice(0, 2)).toEqual(['reserved', 'redeemed']);
        expect(entries[1]).toMatchObject({ reacquired: false, atMs: 8_999 });
      }
      const longer = fact(of('reserved', '19000|0|order-1|'), [], 9_500);
      expect(adapt([later, longer], held()).kinds).toEqual(['reserved', 'extended']);
      // The unit of the others was free when the later entry was made.
      for (const state of ['reserved', 'reacquired', 'refunded', 'released'])
        expect(adapt([later, fact(of(state), [], 9_500)], held()).kinds.slice(0, 2)).toEqual(['expired', 'reserved']);
    });

    it('expires no reservation before such a fact in a later chunk', () => {
      const rows = known('reserved', 1_000, 9_000);
      addHolds(rows.heldUntil, [decodeRecovered(fact(of('redeemed'), [], 9_500))]);
      expect(adapt([reserved(OTHER, 9_400, 19_000)], rows).kinds).toEqual(['reserved']);
    });

    it('keeps the key of a claim whose row a fact without a key has made', () => {
      const { entries } = adapt([fact(of('redeemed')), reserved(RESERVATION, 1_000, 9_000)], nothingKnown());
      expect(entries.at(-1)).toMatchObject({ kind: 'answered', key: 'key-12345', answer: 'answer' });
      const places = adapt([place('queued', true, ''), queued(4)], nothingKnown());
      expect(places.entries).toMatchObject([
        { kind: 'queued', key: '' },
        { kind: 'answered', key: 'key-67890' },
      ]);
    });

    it('gives back the units that were given back', () => {
      const partly = of('redeemed', '9000|0|order-1||0,1,0', 2);
      expect(adapt([fact(partly)], nothingKnown()).entries).toMatchObject([
        { kind: 'reserved', qty: 2 },
        { kind: 'redeemed' },
        { kind: 'reduced', before: 3, qty: 2, ending: 'refunded', refunded: 1 },
      ]);
      expect(adapt([fact(partly)], known('redeemed', 2_000, 9_000, 3)).kinds).toEqual(['reduced']);
      expect(adapt([fact(partly)], known('redeemed', 2_000, 9_000, 2)).kinds).toEqual([]);
      // Each way of giving back has an entry of its own, so that its event has its units.
      const both = of('redeemed', '9000|0|order-1||1,2,1', 1);
      expect(adapt([fact(both)], nothingKnown()).entries.slice(1)).toMatchObject([
        { kind: 'reduced', before: 4, qty: 3, ending: 'released', released: 1, refunded: 0 },
        { kind: 'redeemed' },
        { kind: 'reduced', before: 3, qty: 2, ending: 'refunded', refunded: 1, burned: 0 },
        { kind: 'reduced', before: 2, qty: 1, ending: 'burned', refunded: 2, burned: 1 },
      ]);
    });

    it('brings a place once, with each key, and ends it when its user has left', () => {
      const twice = adapt([place('queued', true), place('queued', true, 'key-3')], nothingKnown());
      expect(twice.entries).toMatchObject([
        { kind: 'queued', lineNo: 4, key: 'key-2', reservation: OTHER },
        { kind: 'answered', key: 'key-3' },
      ]);
      expect(adapt([place('left', false)], nothingKnown()).entries).toMatchObject([
        { kind: 'queued' },
        { kind: 'left', lineNo: 4, ending: 'left' },
      ]);
      expect(adapt([place('queued', false)], nothingKnown()).entries.at(-1)).toMatchObject({ ending: 'closed' });
    });

    it('brings no response of a voided reservation, because its key may belong to another one by now', () => {
      const answered = raw({ kind: 'answered', at: '1000', key: 'key-1', answer: completed });
      const left = { kinds: [], reasons: [] };
      for (const one of [fact(of('reserved'), [], 8_000, 'key-1'), reserved(RESERVATION, 1_000, 9_000), answered])
        expect(adapt([one], known('voided', 8_500, 9_000))).toMatchObject(left);
    });

    it('does not recover a response without its place or reservation', () => {
      const answered = (answer: string) => raw({ kind: 'answered', at: '1000', key: 'key-4', answer });
      for (const answer of [placed(OTHER), placed(null), completed]) {
        expect(adapt([answered(answer)], nothingKnown())).toMatchObject({
          kinds: [],
          reasons: ['Postgres has no such place or reservation'],
        });
      }
      for (const answer of [placed(OTHER), placed(null)])
        expect(adapt([queued(4), answered(answer)], nothingKnown()).kinds).toEqual(['queued', 'answered']);
      expect(adapt([answered(completed)], known('reserved', 500, 9_000)).kinds).toEqual(['answered']);
      expect(adapt([answered('restock|1|2')], nothingKnown()).kinds).toEqual(['answered']);
    });
  });
});
