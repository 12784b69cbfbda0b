import { randomBytes } from 'node:crypto';
import { afterEach, expect, test } from '@jest/globals';
import type { CampaignNo } from '../../shared/domain/ids.js';
import { readEpoch } from '../../shared/redis/epoch.js';
import { keys } from '../../shared/redis/keys.js';
import type { TestCampaign } from '../harness/campaign.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale } from '../harness/sale.js';

/** Malformed entries in the middle of a batch of good ones. */
const sale = await startSale();
const store = await startPersistence(sale);

afterEach(async () => {
  await sale.expectConsistent();
  await store.sql.query('delete from journal_rejects');
});

/** Appends an entry to the journal that no script would write. */
const append = async (fields: Record<string, string | number>) => {
  const epoch = await readEpoch(sale.redis);
  return sale.redis.xadd(keys.journal, `${epoch?.generation}-*`, ...Object.entries(fields).flat());
};

const strangeReservation = (no: number, changed: Record<string, string | number> = {}) => ({
  kind: 'reserved',
  no,
  reservation: '01890a5d-ac96-774b-bcce-b302099a8057',
  user: 'ann',
  order: 'cart-1',
  qty: 1,
  slot: 1,
  at: 1,
  due: 2,
  line: 0,
  state: 'reserved',
  code: '',
  terms: 1,
  key: '',
  answer: '',
  device: '',
  trace: '',
  ...changed,
});

const UNKNOWN_NO = 987_654 as CampaignNo;
const STRANGE: [string, (campaign: TestCampaign) => Record<string, string | number>, RegExp][] = [
  [
    'of an unknown kind',
    ({ terms }) => ({ kind: 'invented', no: terms.no, at: 1 }),
    /^ContractError: .*unknown kind invented/,
  ],
  [
    'without its fields',
    ({ terms }) => ({ kind: 'reserved', no: terms.no, at: 1 }),
    /^ContractError: .*has no reservation/,
  ],
  ['without even a kind', () => ({ nonsense: 'x' }), /^ContractError: .*unknown kind undefined/],
  [
    'with a number that is none',
    ({ terms }) => strangeReservation(terms.no, { qty: 'many' }),
    /^ContractError: .*qty is not an integer/,
  ],
  [
    'with an order id that is too long for its index',
    ({ terms }) => strangeReservation(terms.no, { order: randomBytes(20_000).toString('hex') }),
    /^54000: /,
  ],
  ['of an unknown campaign', () => strangeReservation(UNKNOWN_NO), /^23502: /],
  [
    'for a reservation that does not exist',
    ({ terms }) => ({
      kind: 'redeemed',
      no: terms.no,
      reservation: '01890a5d-ac96-774b-bcce-b302099a8058',
      at: 1,
      slot: 1,
      reacquired: 0,
      payment: '',
      trace: '',
    }),
    /^UnknownReservations: no row for 01890a5d-ac96-774b-bcce-b302099a8058/,
  ],
  [
    'for a place in the line of an unknown campaign',
    () => ({
      kind: 'queued',
      no: UNKNOWN_NO,
      reservation: '01890a5d-ac96-774b-bcce-b302099a8059',
      user: 'ann',
      order: '',
      qty: 1,
      line: 1,
      code: '',
      at: 1,
      key: '',
      answer: '',
      device: '',
      trace: '',
    }),
    /^23502: /,
  ],
  [
    'of a status for which there is no event',
    ({ terms }) => ({
      kind: 'status',
      no: terms.no,
      action: 'unpublish',
      before: 'scheduled',
      status: 'draft',
      actor: '',
      request: '',
      at: 1,
    }),
    /^ContractError: .*makes a draft/,
  ],
];

for (const [what, fieldsFor, reason] of STRANGE) {
  test(`Persist keeps an entry ${what} in journal_rejects and saves those around it`, async () => {
    const campaign = await store.openCampaign();
    const ids = [await campaign.take('ann'), await campaign.take('bob')];
    const fields = fieldsFor(campaign);
    const journalId = await append(fields);
    ids.push(await campaign.take('cid'), await campaign.take('dan'));
    await store.persist();
    expect(await store.isCaughtUp()).toBe(true);
    const saved = ['reserved', 'reserved', null];
    expect(await store.bothSides(campaign, ids)).toEqual([saved, saved, saved, saved]);
    const asText = Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, String(value)]));
    expect(await store.rejects()).toEqual([
      { journal_id: journalId, fields: asText, reason: expect.stringMatching(reason) },
    ]);
    expect(store.log.lines.filter(({ fields }) => fields.journal_id === journalId)).toMatchObject([{ level: 'error' }]);
  });
}

test('Persist keeps a second place in the line of one user in journal_rejects', async () => {
  const campaign = await store.openCampaign({ totalLimit: 0 });
  await store.sql.query(
    `insert into waiting_tickets (campaign_id, line_no, user_id, qty, status, reservation_id, joined_at)
     values ($1, 77, 'bob', 1, 'waiting', gen_random_uuid(), now())`,
    [campaign.terms.id],
  );
  for (const user of ['ann', 'bob', 'cid']) await campaign.join(user);
  await store.persist();
  expect(await store.isCaughtUp()).toBe(true);
  expect((await store.tickets(campaign)).map(({ line_no, user_id }) => [line_no, user_id])).toEqual([
    [1, 'ann'],
    [3, 'cid'],
    [77, 'bob'],
  ]);
  expect(await store.rejects()).toMatchObject([
    { fields: { kind: 'queued', user: 'bob' }, reason: expect.stringContaining('waiting_tickets_one_per_user') },
  ]);
});

test('Persist saves what is good of a batch in which every other entry is bad', async () => {
  const campaign = await store.openCampaign();
  const ids: string[] = [];
  for (const user of ['ann', 'bob', 'cid', 'dan', 'eve']) {
    await append({ kind: 'invented', no: campaign.terms.no, at: 1 });
    ids.push(await campaign.take(user));
  }
  await store.persist();
  expect(await store.isCaughtUp()).toBe(true);
  expect((await store.redemptions(campaign)).map(({ redemption_id }) => redemption_id)).toEqual([...ids].sort());
  expect((await store.rejects()).length).toBe(5);
});

test('an entry with a value that no column takes does not hold up the journal', async () => {
  const campaign = await store.openCampaign();
  const strange = await append(strangeReservation(campaign.terms.no, { reservation: 'no-uuid' }));
  const id = await campaign.take('bob');
  try {
    await store.persist();
    expect(await store.bothSides(campaign, [id])).toEqual([['reserved', 'reserved', null]]);
    expect(await store.rejects()).toMatchObject([{ journal_id: strange, fields: { reservation: 'no-uuid' } }]);
  } finally {
    await sale.redis.xdel(keys.journal, String(strange));
    await store.persist();
  }
});

test('a change to a campaign that Postgres does not know is kept in journal_rejects', async () => {
  await append({
    kind: 'restocked',
    no: UNKNOWN_NO,
    delta: 1,
    before: 1,
    total: 2,
    at: 1,
    actor: 'olga',
    request: 'r',
  });
  await append({
    kind: 'status',
    no: UNKNOWN_NO,
    action: 'pause',
    before: 'open',
    status: 'paused',
    at: 1,
    actor: 'olga',
    request: 'r',
  });
  await append({ kind: 'left', no: UNKNOWN_NO, user: 'ann', line: 1, at: 1, trace: '' });
  await store.persist();
  expect((await store.rejects()).map(({ fields }) => fields.kind)).toEqual(['restocked', 'status', 'left']);
});
