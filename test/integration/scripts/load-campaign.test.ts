import { afterEach, expect, test } from '@jest/globals';
import { ContractError, EngineUnavailable, FencedOut } from '../../../shared/errors/faults.js';
import { keys } from '../../../shared/redis/keys.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
afterEach(() => sale.expectConsistent());

test('load_campaign puts the terms and the counters of a campaign into Redis and its number into the directory', async () => {
  const campaign = await sale.openCampaign({
    totalLimit: 7,
    termsVersion: 3,
    startsAt: new Date(1_000),
    endsAt: new Date(9_000_000_000_000),
    holdSeconds: 30,
    perUserLimit: 2,
    maxQty: 4,
    waitingRoom: { enabled: true, maxSize: 50, presenceSeconds: null },
    latePayment: 'reacquire',
    refundPolicy: 'burn',
    confirmation: 'durable',
    requireAttestation: true,
    requireToken: true,
    type: 'pool',
    codes: 5,
  });
  const { no } = campaign.terms;
  expect((await campaign.inRedis()).fields).toEqual({
    terms: '3|9000000000000|30000|2|4|1|50|0|0|1|reacquire|burn|1|1|1|combines|pool|alert|120000',
    details: expect.stringMatching(/^{"id":.*"rules":{}}$/),
    no: String(no),
    status: 'open',
    starts_at: '1000',
    counted_since: expect.stringMatching(/^\d{13}$/),
    spent: '0',
    codes: '5',
    code_hint: '0',
    total: '7',
    free: '7',
    held: '0',
    redeemed: '0',
    burned: '0',
    waiting: '0',
    last_line_no: '0',
  });
  expect((await campaign.store.reader.directory()).get(no)).toBe(campaign.product);
  expect(await sale.journal.lastId()).toBe('0-0');
});

test('load_campaign never resets an existing campaign', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 3, termsVersion: 4 });
  await campaign.take('ann');
  const before = await campaign.inRedis();
  const again = { ...campaign.terms, totalLimit: 99, termsVersion: 5, perUserLimit: 9 };
  expect(await campaign.store.campaigns.load(again)).toEqual({ kind: 'known', version: 4 });
  expect(await campaign.inRedis()).toEqual(before);
});

test('load_campaign notes the campaign whose number it takes, because Postgres was set back', async () => {
  const [campaign, other] = [await sale.openCampaign(), await sale.openCampaign()];
  const { displaced, directory } = keys;
  expect(await sale.redis.smembers(displaced)).toEqual([]);
  const taking = sale.unknownCampaign();
  const terms = { ...taking.terms, no: campaign.terms.no };
  expect(await sale.store.campaigns.load(terms)).toEqual({ kind: 'loaded' });
  expect(await sale.redis.smembers(displaced)).toEqual([campaign.product]);
  expect(await sale.redis.hmget(directory, String(terms.no), String(other.terms.no))).toEqual([
    taking.product,
    other.product,
  ]);
});

test('load_campaign continues with the values of Postgres', async () => {
  const campaign = sale.unknownCampaign({ totalLimit: 10 });
  const known = { held: 1, redeemed: 2, burned: 3, waiting: 0, lastLineNo: 40 };
  expect(await campaign.store.campaigns.load(campaign.terms, known)).toEqual({ kind: 'loaded' });
  expect(await campaign.stock()).toEqual({
    status: 'open',
    total: 10,
    free: 4,
    held: 1,
    redeemed: 2,
    burned: 3,
    waiting: 0,
  });
  await campaign.take('ann', { qty: 3 });
  await campaign.join('bob', { qty: 2 });
  expect((await campaign.person('bob'))?.lineNo).toBe(41);
});

test('load_campaign refuses counters that cannot be', async () => {
  const campaign = sale.unknownCampaign({ totalLimit: 2 });
  const impossible = { held: 2, redeemed: 1, burned: 0, waiting: 0, lastLineNo: 0 };
  await expect(campaign.store.campaigns.load(campaign.terms, impossible)).rejects.toThrow(ContractError);
  expect(await campaign.stock()).toBeNull();
});

test('load_campaign puts an archived campaign there with its counters and nothing to forget', async () => {
  const campaign = sale.unknownCampaign({ status: 'closed', totalLimit: 5 });
  const known = { held: 0, redeemed: 2, burned: 1, waiting: 0, lastLineNo: 0 };
  await campaign.store.campaigns.load(campaign.terms, known, { pass: 'restored@1', promised: 4 });
  expect((await campaign.inRedis()).fields).toMatchObject({
    archived: 'restored@1',
    promised: '4',
    forgotten: 'done',
    redeemed: '2',
    free: '2',
  });
  expect(await campaign.store.reader.archived(campaign.product)).toEqual({ pass: 'restored@1', promised: 4 });
});

test('load_campaign needs a Redis in service, or the token of the worker that fills it', async () => {
  const campaign = sale.unknownCampaign();
  const load = (token: string | null) => campaign.store.campaigns.load(campaign.terms, undefined, null, token);
  await expect(load('anything')).rejects.toThrow(FencedOut);
  await sale.fill(async (token) => {
    await expect(load(null)).rejects.toThrow(EngineUnavailable);
    await expect(load('of another worker')).rejects.toThrow(FencedOut);
    expect(await campaign.stock()).toBeNull();
    expect(await load(token)).toEqual({ kind: 'loaded' });
    expect(await load(token)).toEqual({ kind: 'known', version: 1 });
  });
  expect(await campaign.stock()).toMatchObject({ free: 10 });
});

test('every reply of the script has come in this file', () => {
  expect(sale.unmetReplies('load_campaign')).toEqual([]);
});
