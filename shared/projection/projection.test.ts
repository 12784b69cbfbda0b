import { expect, test } from '@jest/globals';
import type { EntryOf, JournalEntry } from '../contracts/journal.js';
import { projectEntries } from './projection.js';

let sequence = 0;
const base = () => {
  sequence += 1;
  return { journalId: `1-${sequence}`, no: 7, atMs: 1_000 + sequence };
};
const reserved = (reservation: string, more: Partial<EntryOf<'reserved'>> = {}): EntryOf<'reserved'> => ({
  ...base(),
  kind: 'reserved',
  reservation,
  user: 'ann',
  order: 'cart-1',
  qty: 2,
  slot: 1,
  dueMs: 9_000,
  lineNo: 0,
  state: 'reserved',
  code: null,
  terms: 1,
  key: 'key-1',
  answer: 'answer-1',
  device: 'phone',
  trace: 'trace-1',
  stacking: null,
  metadata: null,
  ...more,
});
const queued = (lineNo: number, more: Partial<EntryOf<'queued'>> = {}): EntryOf<'queued'> => ({
  ...base(),
  kind: 'queued',
  reservation: `r${lineNo}`,
  user: 'bob',
  order: '',
  qty: 1,
  lineNo,
  code: null,
  key: 'k',
  answer: 'a',
  device: '',
  trace: '',
  stacking: null,
  metadata: null,
  ...more,
});
const redeemed = (reservation: string, more: Partial<EntryOf<'redeemed'>> = {}): EntryOf<'redeemed'> => ({
  ...base(),
  kind: 'redeemed',
  reservation,
  slot: 1,
  reacquired: false,
  payment: 'pay-1',
  trace: '',
  ...more,
});
const ended = (kind: 'released' | 'expired' | 'voided', reservation: string, reason = ''): JournalEntry => ({
  ...base(),
  kind,
  reservation,
  reason,
  trace: '',
});
const refunded = (reservation: string, burned = false): JournalEntry => ({
  ...base(),
  kind: 'refunded',
  reservation,
  burned,
  trace: '',
});
const left = (lineNo: number): JournalEntry => ({
  ...base(),
  kind: 'left',
  ending: 'left',
  reason: '',
  user: 'bob',
  lineNo,
  trace: '',
});
const restocked = (before: number, delta: number, no = 7): JournalEntry => ({
  ...base(),
  no,
  kind: 'restocked',
  before,
  delta,
  total: before + delta,
  actor: 'olga',
  request: 'q',
});
const nothing = {
  no: 7,
  status: null,
  slot: null,
  burned: null,
  reacquired: null,
  redeemedMs: null,
  releasedMs: null,
  refundedMs: null,
  reason: null,
  payment: null,
  extendedToMs: null,
  kept: null,
};

test('nothing leaves nothing', () => {
  expect(projectEntries([])).toEqual({
    newRedemptions: [],
    redemptionChanges: [],
    newTickets: [],
    ticketChanges: [],
    revokedPlaces: [],
    statuses: new Map(),
    begun: new Map(),
    closedLines: new Map(),
    added: new Map(),
    addedTo: [],
    sealed: [],
    movedOut: [],
    movedIn: [],
    answers: [],
    furtherPayments: [],
    audit: [],
    history: [],
  });
});

test('a place that an operator ended is in the audit log, and its user is notified', () => {
  const by = (lineNo: number, note: string) =>
    ({ ...left(lineNo), removed: { by: 'olga', request: 'q1', note } }) as EntryOf<'left'>;
  const [first, second] = [by(1, 'a bot'), by(2, '')];
  const { audit, revokedPlaces, ticketChanges } = projectEntries([first, second, left(3)]);
  const entry = { actor: 'olga', action: 'line.remove', no: 7, before: null, request: 'q1' };
  expect(audit).toEqual([
    { ...entry, atMs: first.atMs, after: { user_id: first.user, reason: 'a bot' } },
    { ...entry, atMs: second.atMs, after: { user_id: second.user } },
  ]);
  expect(revokedPlaces.map(({ lineNo }) => lineNo)).toEqual([1, 2]);
  expect(ticketChanges.map(({ status }) => status)).toEqual(['left', 'left', 'left']);
});

test('a place that the service ended alone is told apart from one that its user left, and from the end of a line', () => {
  const ended = (lineNo: number, more: Pick<EntryOf<'left'>, 'ending' | 'reason'>) =>
    ({ ...left(lineNo), ...more }) as JournalEntry;
  const { revokedPlaces, ticketChanges } = projectEntries([
    ended(1, { ending: 'left', reason: '' }),
    ended(2, { ending: 'left', reason: 'absent' }),
    ended(3, { ending: 'closed', reason: 'unservable' }),
    ended(4, { ending: 'closed', reason: '' }),
    ended(5, { ending: 'closed', reason: 'limit_reached' }),
    ended(6, { ending: 'closed', reason: 'not_waiting' }),
  ]);
  expect(ticketChanges).toHaveLength(6);
  expect(revokedPlaces).toEqual([
    { no: 7, lineNo: 2 },
    { no: 7, lineNo: 3 },
  ]);
});

test('bucket 0 speaks for a divided campaign, and each bucket for its line and its units', () => {
  const at = { no: 7, atMs: 5 };
  const status = {
    kind: 'status',
    action: 'close',
    before: 'open',
    status: 'closed',
    actor: 'ann',
    request: 'r',
  } as const;
  const folded = projectEntries([
    { ...at, journalId: '1-1', bucket: 3, ...status },
    { ...at, journalId: '1-2', bucket: 3, kind: 'sealed' },
    { ...at, journalId: '1-3', bucket: 3, kind: 'moved_out', to: 4, units: 2, out: 9, codes: [4, 8] },
    { ...at, journalId: '1-4', bucket: 3, kind: 'moved_in', from: 5, units: 1, out: 8 },
  ]);
  expect([folded.statuses.size, folded.audit]).toEqual([0, []]);
  expect(folded.closedLines.get(7)).toMatchObject({ bucket: 3 });
  expect(folded.sealed).toEqual([{ ...at, bucket: 3 }]);
  expect(folded.movedOut).toEqual([{ ...at, from: 3, to: 4, units: 2, out: 9, codes: [4, 8] }]);
  expect(folded.movedIn).toEqual([{ ...at, from: 5, to: 3, units: 1, out: 8, codes: [] }]);
});

test('a new reservation is one row', () => {
  const entry = reserved('r1');
  const { newRedemptions, redemptionChanges } = projectEntries([entry]);
  // The row has all fields of the entry, except those of the journal.
  const { kind: _kind, journalId: _journalId, state: _state, ...said } = entry;
  expect(newRedemptions).toEqual([{ ...said, ...nothing, slot: 1, status: 'reserved' }]);
  expect(redemptionChanges).toEqual([]);
});

test('an extended reservation has its new deadline, in a new row and in a change', () => {
  const extended: JournalEntry = { ...base(), kind: 'extended', reservation: 'r1', dueMs: 19_000, trace: '' };
  expect(projectEntries([reserved('r1'), extended])).toMatchObject({
    newRedemptions: [{ extendedToMs: 19_000, status: 'reserved' }],
    redemptionChanges: [],
  });
  expect(projectEntries([extended]).redemptionChanges).toEqual([
    { ...nothing, reservation: 'r1', extendedToMs: 19_000 },
  ]);
});

test('a reduced reservation has the units that are left, in a new row and in a change', () => {
  const reduced = (qty: number, released: number, refunded: number): EntryOf<'reduced'> => ({
    ...{ ...base(), kind: 'reduced', reservation: 'r1', before: 9, qty, ending: 'released', released, refunded },
    ...{ burned: refunded, reason: '', trace: '' },
  });
  const last = reduced(4, 3, 2);
  const kept = { qty: 4, released: 3, refunded: 2, burned: 2, atMs: last.atMs };
  expect(projectEntries([reserved('r1', { qty: 9 }), reduced(6, 3, 0), redeemed('r1'), last])).toMatchObject({
    newRedemptions: [{ qty: 4, kept, status: 'redeemed' }],
    redemptionChanges: [],
  });
  expect(projectEntries([reduced(6, 3, 0), last]).redemptionChanges).toEqual([{ ...nothing, reservation: 'r1', kept }]);
});

test('what needs no payment is redeemed when it is reserved', () => {
  const entry = reserved('r1', { state: 'redeemed', dueMs: 0 });
  expect(projectEntries([entry]).newRedemptions).toMatchObject([{ status: 'redeemed', redeemedMs: entry.atMs }]);
});

test('a reservation that was made, paid and refunded within a batch is one row as it is in the end', () => {
  const [made, paid, returned] = [reserved('r1'), redeemed('r1'), refunded('r1', true)];
  const { newRedemptions, redemptionChanges } = projectEntries([made, paid, returned]);
  expect(newRedemptions).toMatchObject([
    {
      reservation: 'r1',
      status: 'refunded',
      burned: true,
      redeemedMs: paid.atMs,
      refundedMs: returned.atMs,
      payment: 'pay-1',
      key: 'key-1',
    },
  ]);
  expect(redemptionChanges).toEqual([]);
});

test('merges changes of an existing reservation into one; other fields stay as they were', () => {
  const [expired, late] = [
    ended('expired', 'r1', 'deadline'),
    redeemed('r1', { slot: 3, reacquired: true, payment: '' }),
  ];
  expect(projectEntries([expired, late]).redemptionChanges).toEqual([
    {
      ...nothing,
      reservation: 'r1',
      status: 'redeemed',
      slot: 3,
      reacquired: true,
      redeemedMs: late.atMs,
      releasedMs: expired.atMs,
      reason: 'deadline',
    },
  ]);
  expect(projectEntries([redeemed('r1')]).redemptionChanges).toMatchObject([
    { status: 'redeemed', reacquired: null, burned: null },
  ]);
});

for (const kind of ['released', 'expired', 'voided'] as const) {
  test(`${kind} is written with its time and reason`, () => {
    const entry = ended(kind, 'r1', 'because');
    const change = { status: kind, releasedMs: entry.atMs, reason: 'because' };
    expect(projectEntries([entry]).redemptionChanges).toEqual([{ ...nothing, reservation: 'r1', ...change }]);
    expect(projectEntries([reserved('r1'), ended(kind, 'r1')]).newRedemptions).toMatchObject([
      { status: kind, reason: null },
    ]);
  });
}

test('a ticket is joined, promoted or left, whether or not Postgres has it already', () => {
  const [first, second, third] = [queued(1), queued(2), queued(3)];
  const [promotion, farewell] = [reserved('r1', { lineNo: 1 }), left(2)];
  expect(projectEntries([first, second, third, promotion, farewell]).newTickets).toMatchObject([
    { lineNo: 1, status: 'promoted', endedMs: promotion.atMs },
    { lineNo: 2, status: 'left', endedMs: farewell.atMs },
    { lineNo: 3, status: 'waiting', endedMs: null },
  ]);
  const [laterPromotion, laterFarewell] = [reserved('r8', { lineNo: 8 }), left(9)];
  const { newTickets, ticketChanges } = projectEntries([laterPromotion, laterFarewell]);
  expect(newTickets).toEqual([]);
  expect(ticketChanges).toEqual([
    { no: 7, lineNo: 8, status: 'promoted', endedMs: laterPromotion.atMs },
    { no: 7, lineNo: 9, status: 'left', endedMs: laterFarewell.atMs },
  ]);
});

test('places in the lines of two campaigns are not mixed up', () => {
  const { newTickets, ticketChanges } = projectEntries([queued(1), { ...left(1), no: 8 }]);
  expect(newTickets).toMatchObject([{ no: 7, lineNo: 1, status: 'waiting' }]);
  expect(ticketChanges).toMatchObject([{ no: 8, lineNo: 1, status: 'left' }]);
});

test('of several totals and statuses the last counts, and all are in the audit log', () => {
  const pause: JournalEntry = {
    ...base(),
    kind: 'status',
    action: 'pause',
    before: 'open',
    status: 'paused',
    actor: 'olga',
    request: 'q1',
    reason: 'a storm',
  };
  const resume: JournalEntry = {
    ...base(),
    kind: 'status',
    action: 'resume',
    before: 'paused',
    status: 'open',
    actor: 'olga',
    request: '',
  };
  const { added, statuses, audit } = projectEntries([
    restocked(10, 5),
    pause,
    restocked(15, -7),
    resume,
    restocked(1, 1, 8),
  ]);
  expect([...added]).toEqual([
    [7, -2],
    [8, 1],
  ]);
  expect([...statuses]).toEqual([[7, 'open']]);
  expect(audit).toMatchObject([
    {
      no: 7,
      action: 'campaign.restock',
      actor: 'olga',
      before: { total_limit: 10 },
      after: { total_limit: 15 },
      request: 'q',
    },
    {
      no: 7,
      action: 'campaign.pause',
      before: { status: 'open' },
      after: { status: 'paused', reason: 'a storm' },
      request: 'q1',
      atMs: pause.atMs,
    },
    { no: 7, action: 'campaign.restock', before: { total_limit: 15 }, after: { total_limit: 8 } },
    { no: 7, action: 'campaign.resume', before: { status: 'paused' }, after: { status: 'open' }, request: '' },
    { no: 8, action: 'campaign.restock' },
  ]);
});

test('leaves the entries as they are', () => {
  const entries = [reserved('r1'), redeemed('r1'), queued(1), left(1)];
  const copy = structuredClone(entries);
  const first = projectEntries(entries);
  expect(entries).toEqual(copy);
  expect(projectEntries(entries)).toEqual(first);
});

test('a promotion takes part in its order as its place did, when the place is in the same batch', () => {
  const place = queued(1, { stacking: 'exclusive', metadata: '{"cart":"1"}' });
  const { newRedemptions } = projectEntries([
    place,
    reserved('r1', { lineNo: 1 }),
    reserved('r2', { stacking: 'combines' }),
  ]);
  expect(newRedemptions.map(({ stacking }) => stacking)).toEqual(['exclusive', 'combines']);
  expect(newRedemptions.map(({ metadata }) => metadata)).toEqual(['{"cart":"1"}', null]);
});
