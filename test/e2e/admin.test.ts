import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import type { IdempotencyKey, ProductId } from '../../shared/domain/ids.js';
import { keys, OPERATORS } from '../../shared/redis/keys.js';
import { termsInRedis } from '../harness/audit.js';
import { expectInPostgres, expectProblem, expectStock, pointersOf } from '../harness/checks.js';
import { Operator, PaymentService, send } from '../harness/clients.js';
import { SERVICE_SECRET, sharedService } from '../harness/service.js';
import { arrive, checkoutAtOnce, checkoutInTurn, gatherShoppers, range } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

const read = async (product: string) => (await operator.call('GET', `/admin/campaigns/${product}`)).data;
const act = (product: string, action: string) => operator.call('POST', `/admin/campaigns/${product}/${action}`);
const termsOf = (product: string) => termsInRedis(service.redis.client, product as ProductId);
const restock = (product: string, delta: unknown, headers: Record<string, string> = {}) =>
  operator.call('POST', `/admin/campaigns/${product}/stock`, { delta }, headers);

describe('a campaign', () => {
  test('is created with the defaults of the contract, and read and listed as it was created', async () => {
    const product_id = `sale-${randomUUID()}`;
    const created = await operator.call('POST', '/admin/campaigns', { product_id, total_limit: 7 });
    expect(created.status).toBe(201);
    expect(created.data).toMatchObject({
      id: expect.stringMatching(UUID),
      product_id,
      name: product_id,
      type: 'shared',
      code: null,
      total_limit: 7,
      per_user_limit: 1,
      max_qty: 1,
      starts_at: expect.stringMatching(/Z$/),
      ends_at: null,
      time_zone: 'UTC',
      discount: null,
      hold_seconds: 0,
      waiting_room: { enabled: false },
      confirmation: 'fast',
      late_payment: 'refuse',
      refund_policy: 'return',
      require_attestation: true,
      require_token: false,
      risk: 'observe',
      velocity: 'alert',
      opening_minutes: 2,
      audience: null,
      stacking: { exclusive: false },
      checkout_url: null,
      extend_seconds: 0,
      branding: null,
      uniform_refusals: false,
      limits: {},
      status: 'open',
    });
    expect(created.headers.get('location')).toBe(`/admin/campaigns/${created.data.id}`);
    expect(await read(product_id)).toEqual(created.data);
    expect(await read(String(created.data.id))).toEqual(created.data);
    const { body } = await operator.call('GET', '/admin/campaigns?limit=1');
    expect(body.data).toEqual([created.data]);
  });

  test('keeps every term it was given', async () => {
    const terms = {
      product_id: `sale-${randomUUID()}`,
      name: 'Indomie 9.9 🍜',
      type: 'shared',
      code: 'INDO-99',
      total_limit: 100,
      per_user_limit: 2,
      max_qty: 3,
      starts_at: '2031-01-01T00:00:00.000Z',
      ends_at: '2031-01-02T00:00:00.000Z',
      time_zone: 'Asia/Jakarta',
      discount: { kind: 'amount', amount: 1_500, currency: 'IDR' },
      hold_seconds: 600,
      waiting_room: { enabled: true, max_size: 500, presence_seconds: 60 },
      confirmation: 'durable',
      late_payment: 'reacquire',
      refund_policy: 'burn',
      require_attestation: false,
      require_token: true,
      risk: 'enforce',
      audience: { attribute: 'tier', in: ['gold'] },
      stacking: { exclusive: true, group: 'food' },
      checkout_url: 'http://shop.example/pay/{order_id}?until={expires_at}&sig={signature}',
      extend_seconds: 120,
      branding: { title: 'Night sale', price: 1_500, currency: 'IDR', texts: { en: { buy: 'Mine!' } } },
      uniform_refusals: true,
      limits: {},
    };
    const created = await operator.call('POST', '/admin/campaigns', terms);
    expect([created.status, created.text]).toEqual([201, created.text]);
    expect(await read(terms.product_id)).toMatchObject({ ...terms, status: 'scheduled' });
  });

  test('is created once: again is 409 and changes nothing, twenty times at once is one campaign', async () => {
    const product_id = `sale-${randomUUID()}`;
    const create = (total_limit: number) =>
      operator.call('POST', '/admin/campaigns', { product_id, total_limit, hold_seconds: 900 });
    const answers = await Promise.all(Array.from({ length: 20 }, () => create(5)));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array(19).fill(409)]);
    for (const refused of answers.filter(({ status }) => status === 409))
      expectProblem(refused, 409, 'campaign_exists');
    await arrive(service.url, product_id).checkout();
    expectProblem(await create(1_000), 409, 'campaign_exists');
    await expectStock(operator, product_id, { total: 5, free: 4, held: 1 });
  });

  test('that only Postgres has after a first attempt sells as soon as the second is answered', async () => {
    const { client } = service.redis;
    const product_id = `sale-${randomUUID()}`;
    const create = () => operator.call('POST', '/admin/campaigns', { product_id, total_limit: 5, hold_seconds: 900 });
    // The worker would load the campaign with the next sweep.
    service.worker.child.kill('SIGSTOP');
    try {
      await client.config('SET', 'maxmemory', '1');
      expectProblem(await create(), 503, 'temporarily_unavailable');
      await client.config('SET', 'maxmemory', '0');
      expect(await read(product_id)).toMatchObject({ product_id, status: 'open' });
      expectProblem(await create(), 409, 'campaign_exists');
      await expectStock(operator, product_id, { total: 5, free: 5, held: 0 });
    } finally {
      await client.config('SET', 'maxmemory', '0');
      service.worker.child.kill('SIGCONT');
    }
    await until('it sells', async () => (await arrive(service.url, product_id).checkout()).status === 200);
    expectProblem(await create(), 409, 'campaign_exists');
    await expectStock(operator, product_id, { total: 5, free: 4, held: 1 });
  });

  test('of a durable campaign can be restocked again under the key of a restock in an older history', async () => {
    const { client } = service.redis;
    const product = await operator.openCampaign({ total_limit: 5, confirmation: 'durable' });
    const key = randomUUID();
    const again = () => restock(product, 2, { 'idempotency-key': key });
    expect((await again()).data.total_limit).toBe(7);
    const name = keys.idempotency(OPERATORS, key as IdempotencyKey);
    const record = String(await client.get(name));
    expect(record).toMatch(/\|\d+-\d+$/);
    await client.set(name, record.replace(/\d+(-\d+)$/, '1$1'), 'KEEPTTL');
    expect(await again()).toMatchObject({ status: 200, data: { total_limit: 7 } });
  });

  test('is listed in pages, newest first, each once', async () => {
    const mine = [];
    for (const _ of range(1, 5)) mine.unshift(await operator.openCampaign());
    const listed: string[] = [];
    let path: string | null = '/admin/campaigns?limit=2';
    while (path !== null && listed.length < 5) {
      const page = await operator.call('GET', path);
      const items = page.body.data as { product_id: string }[];
      expect(items).toHaveLength(2);
      listed.push(...items.map(({ product_id }) => product_id));
      path = /<([^>]+)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1] ?? null;
    }
    expect(listed.slice(0, 5)).toEqual(mine);
  });

  test('is changed where it is safe, and the change holds for the next shopper', async () => {
    const product = await operator.openCampaign({ total_limit: 10, hold_seconds: 900 });
    const changed = await operator.call('PATCH', `/admin/campaigns/${product}`, {
      name: 'New',
      max_qty: 4,
      hold_seconds: 60,
    });
    expect([changed.status, changed.data.name, changed.data.max_qty]).toEqual([200, 'New', 4]);
    expect(await read(product)).toEqual(changed.data);
    const bought = await arrive(service.url, product).checkout({ qty: 4 });
    expect(bought.status).toBe(200);
    expect(Date.parse(String(bought.data.pay_before)) - Date.now()).toBeLessThan(61_000);
  });

  test('refuses changes that would break a promise', async () => {
    const product = await operator.openCampaign({ total_limit: 10, per_user_limit: 2 });
    const patch = (body: unknown) => operator.call('PATCH', `/admin/campaigns/${product}`, body);
    const before = await read(product);
    for (const field of ['product_id', 'type', 'code', 'total_limit', 'status']) {
      const refused = await patch({ [field]: 'x' });
      expectProblem(refused, 400, 'invalid_request');
      expect(pointersOf(refused)).toEqual([`#/${field}`]);
    }
    expectProblem(await patch({ starts_at: '2031-01-01T00:00:00Z' }), 409, 'campaign_conflict');
    expectProblem(await patch({ per_user_limit: 1 }), 409, 'campaign_conflict');
    expectProblem(await patch({ ends_at: '2001-01-01T00:00:00Z' }), 400, 'invalid_request');
    expect(await read(product)).toEqual(before);
    await act(product, 'close');
    expectProblem(await patch({ name: 'too late' }), 409, 'campaign_conflict');
  });

  test('decides in Redis whether a limit may be lowered, though Postgres still takes it for a draft', async () => {
    const product = await operator.openCampaign({ total_limit: 10, per_user_limit: 3, max_qty: 1 });
    const patch = (body: unknown) => operator.call('PATCH', `/admin/campaigns/${product}`, body);
    // The state while the worker is behind.
    await service.database.client.query("update campaigns set status = 'draft' where product_id = $1", [product]);
    const refused = await patch({ per_user_limit: 2, max_qty: 2 });
    expectProblem(refused, 409, 'campaign_conflict');
    expect(pointersOf(refused)).toEqual(['#/per_user_limit']);
    expect(await read(product)).toMatchObject({ per_user_limit: 3, max_qty: 1, version: 1 });
    expect((await patch({ per_user_limit: 4 })).status).toBe(200);
    expect(await termsOf(product)).toMatchObject({ per_user_limit: '4', version: '2' });
  });

  test('keeps the terms in force, with a later version, when a crash has left them in Redis only', async () => {
    const product = await operator.openCampaign({ total_limit: 10, max_qty: 1 });
    const { version, ...terms } = await termsOf(product);
    const later = ['4', ...Object.values({ ...terms, max_qty: '9' })].join('|');
    await service.redis.client.hset(keys.campaign(product as ProductId), { terms: later });
    const changed = await operator.call('PATCH', `/admin/campaigns/${product}`, { name: 'Renamed' });
    expect(changed.data).toMatchObject({ name: 'Renamed', max_qty: 9, version: 5 });
    expect(await termsOf(product)).toMatchObject({ max_qty: '9', version: '5' });
  });

  test('goes through its statuses, each step repeatable, and out of "closed" there is no way', async () => {
    const product = await operator.openCampaign({ total_limit: 1, starts_at: '2031-01-01T00:00:00Z' });
    const steps = [
      ['pause', 'paused'],
      ['resume', 'scheduled'],
      ['open', 'open'],
      ['close', 'closed'],
    ];
    for (const [action, status] of steps as [string, string][]) {
      for (const _ of [1, 2]) {
        const answer = await act(product, action);
        expect([action, answer.status, answer.data.status]).toEqual([action, 200, status]);
        expect((await read(product)).status).toBe(status);
      }
    }
    for (const action of ['open', 'pause', 'resume'])
      expectProblem(await act(product, action), 409, 'campaign_conflict');
    expectProblem(await restock(product, 1), 409, 'campaign_conflict');
  });

  test('that was opened early is open again after a pause', async () => {
    const product = await operator.openCampaign({ total_limit: 1, starts_at: '2031-01-01T00:00:00Z' });
    for (const action of ['open', 'pause', 'resume']) await act(product, action);
    expect((await read(product)).status).toBe('open');
    expect((await arrive(service.url, product).checkout()).status).toBe(200);
  });

  test('that does not exist is 404 everywhere', async () => {
    for (const id of ['no-such-product', randomUUID()]) {
      const path = `/admin/campaigns/${id}`;
      const answers = await Promise.all([
        operator.call('GET', path),
        operator.call('PATCH', path, { name: 'x' }),
        restock(id, 1),
        ...['open', 'pause', 'resume', 'close'].map((action) => act(id, action)),
        ...['stats', 'redemptions'].map((part) => operator.call('GET', `${path}/${part}`)),
      ]);
      for (const answer of answers) expectProblem(answer, 404, 'campaign_not_found');
    }
  });

  test('with invalid terms is refused with a pointer to each mistake', async () => {
    const refused = await operator.call('POST', '/admin/campaigns', {
      total_limit: -1,
      time_zone: 'Mars/Olympus',
      discount: { kind: 'percent', percent: 101 },
      waiting_room: { enabled: 'yes' },
      stacking: {},
    });
    expectProblem(refused, 400, 'invalid_request');
    expect(pointersOf(refused).sort()).toEqual([
      '#/discount/percent',
      '#/product_id',
      '#/stacking/exclusive',
      '#/time_zone',
      '#/total_limit',
      '#/waiting_room/enabled',
    ]);
    const backwards = await operator.call('POST', '/admin/campaigns', {
      product_id: randomUUID(),
      total_limit: 1,
      starts_at: '2031-01-02T00:00:00Z',
      ends_at: '2031-01-01T00:00:00Z',
    });
    expectProblem(backwards, 400, 'invalid_request');
    expect(pointersOf(backwards)).toEqual(['#/ends_at']);
  });
});

describe('stock', () => {
  test('is raised and lowered, never below what is free', async () => {
    const product = await operator.openCampaign({ total_limit: 10, hold_seconds: 900 });
    await checkoutInTurn(gatherShoppers(service.url, product, 4));
    expect((await restock(product, 5)).data.total_limit).toBe(15);
    expect((await restock(product, -11)).data.total_limit).toBe(4);
    const tooMuch = await restock(product, -1);
    expectProblem(tooMuch, 409, 'stock_insufficient');
    await expectStock(operator, product, { total: 4, held: 4 });
    expect((await read(product)).total_limit).toBe(4);
    for (const delta of [0, 1.5, '1', null, undefined, 1e300]) {
      const refused = await restock(product, delta);
      expectProblem(refused, 400, 'invalid_request');
      expect(new Set(pointersOf(refused))).toEqual(new Set(['#/delta']));
    }
    expectProblem(await restock(await operator.openCampaign({ total_limit: null }), 1), 409, 'campaign_conflict');
  });

  test('with an idempotency key is raised once, however often and at once it is called', async () => {
    const product = await operator.openCampaign({ total_limit: 10 });
    const key = { 'idempotency-key': randomUUID() };
    const answers = await Promise.all(Array.from({ length: 10 }, () => restock(product, 5, key)));
    expect(answers.map(({ status, data }) => [status, data.total_limit])).toEqual(Array(10).fill([200, 15]));
    expectProblem(await restock(product, 6, key), 422, 'idempotency_key_reused');
    await expectStock(operator, product, { total: 15, free: 15 });
  });
});

describe('stats', () => {
  test('add up in every single reading while units change hands', async () => {
    const product = await operator.openCampaign({
      total_limit: 30,
      hold_seconds: 900,
      waiting_room: { enabled: true },
    });
    let done = false;
    const readings: Record<string, unknown>[] = [];
    const watching = until('the traffic is over', async () => {
      readings.push(await operator.stats(product));
      return done;
    });
    const answers = await checkoutAtOnce(gatherShoppers(service.url, product, 60));
    const held = answers.filter(({ status }) => status === 200).map(({ data }) => String(data.reservation_id));
    await Promise.all(held.map((id, i) => (i % 2 ? payments.confirm(id) : payments.release(id))));
    done = true;
    await watching;
    for (const { free, held: units, redeemed, burned } of readings) {
      expect(Number(free) + Number(units) + Number(redeemed) + Number(burned)).toBe(30);
    }
    await expectStock(operator, product, { total: 30, held: 15, redeemed: 15, waiting: 15 });
    await expectInPostgres(service, held);
    await until('nothing is in flight', async () => (await operator.stats(product)).journal_backlog === 0);
    expect(await operator.stats(product)).toMatchObject({
      product_id: product,
      status: 'open',
      persisted: 30,
      drift: 0,
      oldest_unpersisted_seconds: 0,
      confirmed_per_second: 4.5,
    });
  });
});

describe('names that a call does not have', () => {
  const unknownIn = async (method: string, path: string, body?: unknown) => {
    const refused = await operator.call(method, path, body);
    expectProblem(refused, 400, 'unknown_field');
    return [refused.body.detail, ...pointersOf(refused)];
  };
  const campaign = { product_id: `sale-${randomUUID()}`, total_limit: 1 };

  test('are refused in operators’ bodies with the nearest name, and nothing is done', async () => {
    const { total_limit: _, ...unlimited } = campaign;
    expect(await unknownIn('POST', '/admin/campaigns', { ...unlimited, total_limt: 1 })).toEqual([
      'Unknown field `total_limt`. Did you mean `total_limit`?',
      '#/total_limt',
      '#/total_limit',
    ]);
    expect(
      await unknownIn('POST', '/admin/campaigns', { ...campaign, waiting_room: { enabled: true, maxsize: 3 } }),
    ).toEqual(['Unknown field `maxsize`. Did you mean `max_size`?', '#/waiting_room/maxsize']);
    expect(
      await unknownIn('POST', '/admin/campaigns', {
        ...campaign,
        discount: { kind: 'percent', percent: 5, curency: 'EUR' },
      }),
    ).toEqual(['Unknown field `curency`. Did you mean `currency`?', '#/discount/curency']);
    expect(
      await unknownIn('POST', '/admin/campaigns', { ...campaign, limits: { surge_attempts_a_minute: 3 } }),
    ).toEqual([
      'Unknown field `surge_attempts_a_minute`. Did you mean `surge_attempts_per_minute`?',
      '#/limits/surge_attempts_a_minute',
    ]);
    expect((await operator.call('GET', `/admin/campaigns/${campaign.product_id}`)).status).toBe(404);
    const product = await operator.openCampaign({ total_limit: 1 });
    expect(await unknownIn('PATCH', `/admin/campaigns/${product}`, { hold_second: 5 })).toEqual([
      'Unknown field `hold_second`. Did you mean `hold_seconds`?',
      '#/hold_second',
    ]);
  });

  test('are refused where a call takes no fields at all', async () => {
    const product = await operator.openCampaign({ total_limit: 1 });
    expect(await unknownIn('POST', `/admin/campaigns/${product}/pause`, { reson: 'lunch' })).toEqual([
      'Unknown field `reson`.',
      '#/reson',
    ]);
    expect(await unknownIn('POST', `/admin/campaigns/${product}/reconcile`, { dry: true })).toEqual([
      'Unknown field `dry`.',
      '#/dry',
    ]);
    expect((await operator.call('POST', `/admin/campaigns/${product}/pause`, {})).data.status).toBe('paused');
  });

  test('are refused in operators’ queries', async () => {
    expect(await unknownIn('GET', '/admin/campaigns?limt=3')).toEqual([
      'Unknown field `limt`. Did you mean `limit`?',
      '#/limt',
    ]);
    expect(await unknownIn('GET', '/admin/bans?kind=user&subjct=ann')).toEqual([
      'Unknown field `subjct`. Did you mean `subject`?',
      '#/subjct',
    ]);
    expect(await unknownIn('POST', '/admin/campaigns?dry_run=1', campaign)).toEqual([
      'Unknown field `dry_run`.',
      '#/dry_run',
    ]);
  });

  test('are refused in payments’ bodies and queries, and ignored in shoppers’', async () => {
    const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900 });
    const bought = await arrive(service.url, product).checkout({ colour: 'red' });
    expect(bought.status).toBe(200);
    const { reservation_id, ticket } = bought.data;
    const say = (body: object, query = '') =>
      send(`${service.url}/flash-sale/confirm${query}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${SERVICE_SECRET}` },
        json: body,
      });
    expectProblem(await say({ reservation_id, payment_reference: 'p1' }), 400, 'unknown_field');
    expectProblem(await say({ reservation_id }, '?force=1'), 400, 'unknown_field');
    const released = await send(`${service.url}/flash-sale/release`, {
      method: 'POST',
      headers: { 'x-ticket': ticket },
      json: { reservation_id, why: 'changed my mind' },
    });
    expect(released.status).toBe(200);
  });

  test('a campaign without total_limit is refused', async () => {
    const refused = await operator.call('POST', '/admin/campaigns', { product_id: campaign.product_id });
    expectProblem(refused, 400, 'invalid_request');
    expect(refused.body.errors).toEqual([
      { pointer: '#/total_limit', detail: 'must be given: whole units, or null for unlimited' },
    ]);
  });
});
