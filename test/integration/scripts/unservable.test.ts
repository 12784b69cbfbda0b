import { afterEach, describe, expect, it } from '@jest/globals';
import type { DeviceId, IdempotencyKey } from '../../../shared/domain/ids.js';
import { onShardMessage, subscribeInShard } from '../../../shared/redis/channels.js';
import { keys, OPERATORS } from '../../../shared/redis/keys.js';
import type { TestCampaign } from '../../harness/campaign.js';
import { connectToRedis, startSale } from '../../harness/sale.js';

/** A place at the head that cannot be served is closed with a reason, and the unit goes to the next in line. */
const sale = await startSale();
afterEach(() => sale.expectConsistent());

/** One unit is about to come back; Ann is first in line and holds the other one, Bob is second. */
async function lineOfTwo(): Promise<{ campaign: TestCampaign; held: string }> {
  const campaign = await sale.openCampaign({ totalLimit: 2, perUserLimit: 2 });
  await campaign.take('ann');
  const held = await campaign.take('cid');
  await campaign.join('ann');
  await campaign.join('bob');
  return { campaign, held };
}

/** As before `update_terms` refused it, or after a repair by hand. */
const lowerLimit = (campaign: TestCampaign) => campaign.set({ per_user_limit: 1 });

async function expectPassedOver(campaign: TestCampaign, reason: string): Promise<void> {
  const left = (await campaign.entries()).filter(({ kind }) => kind === 'left');
  expect(left).toMatchObject([{ user: 'ann', lineNo: 1, ending: 'closed', reason, trace: '' }]);
  expect(await campaign.line()).toEqual([]);
  expect(await campaign.stock()).toMatchObject({ free: 0, held: 2, waiting: 0 });
  expect(await campaign.standing('bob')).toMatchObject({ status: 'promoted' });
}

describe('a user at the head who has reached the limit', () => {
  it('is passed over when a unit is released', async () => {
    const { campaign, held } = await lineOfTwo();
    await lowerLimit(campaign);
    const heard: string[] = [];
    const subscriber = await connectToRedis(sale.engine.url);
    await subscribeInShard(subscriber, keys.news(campaign.product));
    onShardMessage(subscriber, (_, message) => heard.push(message));
    expect(await campaign.release(held)).toMatchObject({ kind: 'released', state: 'released' });
    await expectPassedOver(campaign, 'limit_reached');
    await sale.redis.ping();
    const reservation = (await campaign.person('ann'))?.reservation;
    expect(heard).toContainEqual(`closed|ann|${reservation}||0`);
    subscriber.disconnect();
  });

  it('is passed over by a sweep, a late payment, a refund, a void, a restock and a promotion', async () => {
    const cases: ((campaign: TestCampaign, held: string) => Promise<unknown>)[] = [
      async (campaign, held) => {
        await campaign.letDeadlinePass(held);
        expect(await campaign.expire()).toEqual({ kind: 'swept', expired: 1, promoted: 1, due: 0 });
      },
      async (campaign, held) => {
        await campaign.letDeadlinePass(held);
        expect(await campaign.confirm(held)).toMatchObject({ kind: 'ended', state: 'expired' });
      },
      async (campaign, held) => expect(await campaign.void(held, 'returns')).toEqual({ kind: 'voided' }),
    ];
    for (const giveBack of cases) {
      const { campaign, held } = await lineOfTwo();
      await lowerLimit(campaign);
      await giveBack(campaign, held);
      await expectPassedOver(campaign, 'limit_reached');
    }
    const { campaign, held } = await lineOfTwo();
    await campaign.confirm(held);
    await lowerLimit(campaign);
    await campaign.refund(held);
    await expectPassedOver(campaign, 'limit_reached');
    for (const serve of ['restock', 'promote', 'tend'] as const) {
      const { campaign } = await lineOfTwo();
      await lowerLimit(campaign);
      await campaign.restock(1, { limit: serve === 'restock' ? 100 : 0 });
      if (serve === 'promote') expect(await campaign.promote()).toEqual({ kind: 'promoted', count: 1 });
      if (serve === 'tend') expect(await campaign.tend()).toMatchObject({ closed: 1, promoted: 1 });
      expect(await campaign.standing('ann')).toMatchObject({ status: 'closed' });
      expect(await campaign.standing('bob')).toMatchObject({ status: 'promoted' });
    }
  });

  it('may join again, with the code that is free again', async () => {
    const campaign = await sale.openCampaign({ totalLimit: 1, perUserLimit: 2, type: 'pool', codes: 5 });
    const first = await campaign.use('ann', 1);
    expect((await campaign.redeem('ann', 3)).kind).toBe('queued');
    await campaign.confirm(first);
    await lowerLimit(campaign);
    await campaign.restock(1);
    expect(await campaign.usedCodes()).toEqual([1]);
    expect(await campaign.stock()).toMatchObject({ free: 1, waiting: 0 });
    await campaign.set({ per_user_limit: 2 });
    expect((await campaign.redeem('ann', 3)).kind).toBe('reserved');
  });
});

describe('a place whose record does not wait', () => {
  const broken: [string, (packed: string) => string | null][] = [
    ['says otherwise', (packed) => packed.replace('queued', 'left')],
    ['is malformed', () => 'queued|1|nonsense'],
    ['is gone', () => null],
  ];
  for (const [what, change] of broken) {
    it(`is passed over when the record ${what}`, async () => {
      const campaign = await sale.openCampaign({ totalLimit: 1 });
      const held = await campaign.take('cid');
      await campaign.join('ann');
      await campaign.join('bob');
      const people = keys.people(campaign.product);
      const packed = String(await sale.redis.hget(people, 'ann'));
      const changed = change(packed);
      if (changed === null) await sale.redis.hdel(people, 'ann');
      else await sale.redis.hset(people, 'ann', changed);
      expect(await campaign.release(held)).toMatchObject({ kind: 'released' });
      expect((await campaign.entries()).filter(({ kind }) => kind === 'left')).toMatchObject([
        { user: 'ann', lineNo: 1, ending: 'closed', reason: 'not_waiting' },
      ]);
      expect(await sale.redis.hget(people, 'ann')).toBe(changed);
      expect(await campaign.standing('bob')).toMatchObject({ status: 'promoted' });
      await sale.redis.hdel(people, 'ann');
    });
  }
});

describe('a script that fails', () => {
  it('has written nothing, also when many decisions came before', async () => {
    const campaign = await sale.openCampaign({ totalLimit: 3, perUserLimit: 3 });
    const held = [await campaign.take('ann'), await campaign.take('ann'), await campaign.take('bob')];
    for (const id of held) await campaign.letDeadlinePass(id);
    await campaign.join('cid');
    const reservations = keys.reservations(campaign.product);
    const packed = String(await sale.redis.hget(reservations, String(held[2])));
    await sale.redis.hset(reservations, String(held[2]), 'nonsense');
    const everything = async () => [
      await sale.redis.hgetall(keys.campaign(campaign.product)),
      await sale.redis.hgetall(reservations),
      await sale.redis.hgetall(keys.people(campaign.product)),
      await campaign.line(),
      await sale.journal.lastId(),
    ];
    const before = await everything();
    await expect(campaign.expire()).rejects.toThrow(
      /script expire failed: .*a reservation record is malformed.* on includes\/records.lua:\d+/,
    );
    expect(await everything()).toEqual(before);
    await sale.redis.hset(reservations, String(held[2]), packed);
    expect(await campaign.expire()).toMatchObject({ expired: 3, promoted: 1 });
  });

  it('has written nothing when the journal refuses the id', async () => {
    const campaign = await sale.openCampaign({ totalLimit: 1, type: 'pool', codes: 3, perUserLimit: 3 });
    const held = await campaign.take('ann');
    await campaign.join('bob');
    const epoch = String(await sale.redis.get(keys.epoch));
    const [device, answer] = [
      keys.device('pad' as DeviceId),
      keys.idempotency(OPERATORS, 'a-key-of-restock' as IdempotencyKey),
    ];
    const snapshot = async () => [
      await campaign.inRedis(),
      await sale.journal.lastId(),
      await sale.redis.exists(device, answer),
    ];
    const before = await snapshot();
    // An older generation than that of the entries in the stream.
    await sale.redis.set(keys.epoch, '1|test');
    for (const call of [
      () => campaign.checkout('ann', { device: 'pad' }),
      () => campaign.checkout('bob', { device: 'pad' }),
      () => campaign.confirm(held),
      () => campaign.release(held),
      () => campaign.leave('bob'),
      () => campaign.restock(1, { key: 'a-key-of-restock' }),
      () => campaign.setStatus('close'),
      () => campaign.void(held, 'returns'),
    ])
      await expect(call()).rejects.toThrow(/equal or smaller/);
    await sale.redis.set(keys.epoch, epoch);
    expect(await snapshot()).toEqual(before);
  });
});
