import { describe, expect, test } from '@jest/globals';
import { TermsCache, type TermsCacheOptions } from '../../api/claim/terms-cache.js';
import { matchesAudience, NOBODY } from '../../shared/domain/audience.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import { CampaignTermsTable } from '../../shared/postgres/campaign-terms.js';
import { CampaignsTable, type StoredCampaign } from '../../shared/postgres/campaigns.js';
import { createTestDatabase } from '../harness/engines.js';
import { connectDatabase } from '../harness/persistence.js';
import { describeCampaign } from '../harness/sale.js';
import { until } from '../harness/until.js';

/** Each version of a campaign's terms, as Postgres keeps it. */
const { client: sql, url } = await createTestDatabase();
const database = connectDatabase(url);
const campaigns = new CampaignsTable(database);
const terms = new CampaignTermsTable(database);

async function create(description: Parameters<typeof describeCampaign>[0] = {}, rules = {}): Promise<StoredCampaign> {
  const stored = await campaigns.insert({ ...describeCampaign(description), rules });
  if (!stored) throw new Error('there is a campaign for this product');
  return stored;
}
const amend = (campaign: StoredCampaign, changes: object, rules = campaign.rules) =>
  database.transaction((client) => campaigns.amend(campaign, { ...campaign, ...changes }, rules, client));
const versions = async (campaign: StoredCampaign) =>
  (
    await sql.query(
      'select version, discount, valid_from from campaign_terms where campaign_id = $1 order by version',
      [campaign.id],
    )
  ).rows;

test('a new campaign has its first version, complete', async () => {
  const audience = { attribute: 'tier', eq: 'gold' };
  const campaign = await create(
    {
      name: 'Coffee',
      discount: { kind: 'percent', percent: 12.5 },
      timeZone: 'Asia/Jakarta',
      startsAt: new Date('2031-01-01T00:00:00Z'),
      endsAt: new Date('2031-01-02T00:00:00Z'),
      perUserLimit: 2,
      holdSeconds: 600,
      refundPolicy: 'burn',
    },
    { audience, stacking: { exclusive: true, group: 'g', priority: 1 }, uniform_refusals: true, require_token: true },
  );
  const expected = {
    campaignId: campaign.id,
    productId: campaign.productId,
    type: 'shared',
    version: 1,
    validFrom: campaign.createdAt,
    name: 'Coffee',
    discount: { kind: 'percent', percent: 12.5 },
    audience,
    stacking: { exclusive: true, group: 'g', priority: 1 },
    startsAt: new Date('2031-01-01T00:00:00Z'),
    endsAt: new Date('2031-01-02T00:00:00Z'),
    timeZone: 'Asia/Jakarta',
    perUserLimit: 2,
    holdSeconds: 600,
    refundPolicy: 'burn',
    uniformRefusals: true,
    requireToken: true,
    checkoutUrl: null,
    branding: null,
  };
  expect(await terms.current(campaign.productId)).toEqual(expected);
  expect(await terms.ofProduct(campaign.productId, 1)).toEqual(expected);
});

test('a campaign without rules is for all users and combines with all others', async () => {
  const campaign = await create({}, { audience: null });
  expect(await terms.current(campaign.productId)).toMatchObject({
    discount: null,
    audience: null,
    stacking: { exclusive: false },
    endsAt: null,
    uniformRefusals: false,
    requireToken: false,
  });
});

test('a change makes a version and leaves the ones before it as they were', async () => {
  const first = await create({ discount: { kind: 'percent', percent: 10 } });
  const second = await amend(first, { discount: { kind: 'percent', percent: 20 } });
  expect((await terms.ofProduct(first.productId, 1))?.discount).toEqual({ kind: 'percent', percent: 10 });
  expect(await terms.current(first.productId)).toMatchObject({
    version: 2,
    discount: { kind: 'percent', percent: 20 },
    validFrom: second?.updatedAt,
  });
  expect((await versions(first)).map(({ version, discount }) => [version, discount.percent])).toEqual([
    [1, 10],
    [2, 20],
  ]);
});

test('two changes at once make one version; the other change has to read again', async () => {
  const campaign = await create();
  const outcomes = await Promise.all([amend(campaign, { name: 'a' }), amend(campaign, { name: 'b' })]);
  expect(outcomes.filter((outcome) => outcome === null).length).toBe(1);
  expect((await versions(campaign)).length).toBe(2);
});

test('a change that is rolled back leaves no version', async () => {
  const campaign = await create();
  await expect(
    database.transaction(async (client) => {
      await campaigns.amend(campaign, { ...campaign, name: 'x' }, {}, client);
      throw new Error('rolled back');
    }),
  ).rejects.toThrow('rolled back');
  expect((await versions(campaign)).length).toBe(1);
});

test('stock and status make no version, and a change is one row for any number of redemptions', async () => {
  const campaign = await create({ totalLimit: 100_000 });
  await sql.query(
    `insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, reserved_at, terms_version)
     select gen_random_uuid(), $1, 'user-' || n, 'order', 1, 1, 'redeemed', now(), 1 from generate_series(1, 10000) n`,
    [campaign.id],
  );
  await sql.query("update campaigns set status = 'paused', total_limit = total_limit + 1 where campaign_id = $1", [
    campaign.id,
  ]);
  expect((await versions(campaign)).length).toBe(1);
  const written = () =>
    sql
      .query<{ rows: string }>(
        "select sum(pg_stat_get_xact_tuples_inserted(oid) + pg_stat_get_xact_tuples_updated(oid)) as rows from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'",
      )
      .then(({ rows }) => Number(rows[0]?.rows));
  await sql.query('begin');
  const before = await written();
  await campaigns.amend(campaign, { ...campaign, discount: { kind: 'percent', percent: 50 } }, {}, sql);
  const rows = (await written()) - before;
  await sql.query('commit');
  expect(rows).toBe(2);
  expect((await versions(campaign)).length).toBe(2);
  const { rows: counted } = await sql.query(
    'select terms_version, count(*)::int from redemptions where campaign_id = $1 group by 1',
    [campaign.id],
  );
  expect(counted).toEqual([{ terms_version: 1, count: 10_000 }]);
});

test('the history can only be added to', async () => {
  await create();
  for (const attempt of [
    'update campaign_terms set discount = null',
    'delete from campaign_terms',
    'truncate campaign_terms',
  ])
    await expect(sql.query(attempt)).rejects.toThrow('campaign_terms is append-only');
});

test('a stored rule that cannot be parsed excludes every user', async () => {
  const campaign = await create({}, { audience: { not: { tier: ['gold'] } } });
  const audience = (await terms.current(campaign.productId))?.audience;
  expect(audience).toEqual(NOBODY);
  expect(matchesAudience(audience ?? { and: [] }, { tier: 'tin' })).toBe(false);
});

describe('what a process remembers', () => {
  /** The real table, with a count of what it was asked and a switch that takes Postgres away. */
  class Watched extends CampaignTermsTable {
    asked = 0;
    isAway = false;
    held: Promise<void> | null = null;
    override current(product: ProductId) {
      return this.#ask(() => super.current(product));
    }
    override ofProduct(product: ProductId, version: number) {
      return this.#ask(() => super.ofProduct(product, version));
    }
    async #ask<Value>(read: () => Promise<Value>): Promise<Value> {
      this.asked += 1;
      await this.held;
      if (this.isAway) throw new EngineUnavailable('postgres', 'away');
      return read();
    }
  }
  const remember = (options: Partial<Pick<TermsCacheOptions, 'capacity' | 'patienceMs' | 'onLookup'>> = {}) => {
    const [clock, history] = [{ nowMs: 0 }, { name: '1' }];
    const source = new Watched(database);
    const known = new TermsCache(source, {
      capacity: 10,
      freshMs: 1_000,
      patienceMs: 20_000,
      nowMs: () => clock.nowMs,
      generation: () => history.name,
      ...options,
    });
    return { clock, history, source, known };
  };

  test('reports where the terms were', async () => {
    const campaign = await create();
    const from: string[] = [];
    const { clock, known } = remember({ onLookup: (where) => from.push(where) });
    await known.current(campaign.productId);
    await known.current(campaign.productId);
    await known.version(campaign.productId, 1);
    clock.nowMs = 1_000;
    await known.current(campaign.productId);
    expect(from).toEqual(['postgres', 'memory', 'memory', 'postgres']);
  });

  test('is asked for once in its time, however many want it', async () => {
    const campaign = await create({ name: 'one' });
    const { clock, source, known } = remember();
    const names = await Promise.all(Array.from({ length: 50 }, () => known.current(campaign.productId)));
    expect([new Set(names.map((terms) => terms?.name)), source.asked]).toEqual([new Set(['one']), 1]);
    await amend(campaign, { name: 'two' });
    clock.nowMs = 999;
    expect([(await known.current(campaign.productId))?.name, source.asked]).toEqual(['one', 1]);
    clock.nowMs = 1_000;
    expect([(await known.current(campaign.productId))?.name, source.asked]).toEqual(['two', 2]);
  });

  test('of a version is never asked for again, and is the same version however it was met', async () => {
    const campaign = await create({ name: 'one' });
    const { source, known } = remember();
    await known.current(campaign.productId);
    await amend(campaign, { name: 'two' });
    const read = async (version: number) => (await known.version(campaign.productId, version))?.name;
    expect([await read(1), source.asked]).toEqual(['one', 1]);
    expect([await read(2), await read(2), source.asked]).toEqual(['two', 'two', 2]);
    expect([await read(3), source.asked]).toEqual([undefined, 3]);
  });

  test('is asked for again in a later history of Redis, because its number may have been given again', async () => {
    const campaign = await create({ name: 'one' });
    const { history, source, known } = remember();
    const read = async () => [
      (await known.current(campaign.productId))?.name,
      (await known.version(campaign.productId, 1))?.name,
    ];
    expect([await read(), source.asked]).toEqual([['one', 'one'], 1]);
    history.name = '2';
    expect([await read(), source.asked]).toEqual([['one', 'one'], 2]);
  });

  test('is good while Postgres is away; what is not known is not guessed', async () => {
    const [campaign, other] = [await create({ name: 'one' }), await create()];
    const { clock, source, known } = remember();
    await known.current(campaign.productId);
    source.isAway = true;
    clock.nowMs = 3_600_000;
    for (const _ of [1, 2]) expect((await known.current(campaign.productId))?.name).toBe('one');
    expect(source.asked).toBe(2);
    expect((await known.version(campaign.productId, 1))?.name).toBe('one');
    await expect(known.current(other.productId)).rejects.toThrow(EngineUnavailable);
    await expect(known.version(campaign.productId, 2)).rejects.toThrow(EngineUnavailable);
    source.isAway = false;
    expect(await known.current(other.productId)).not.toBeNull();
  });

  test('KnownTerms serves stale terms while Postgres hangs, and concurrent callers share one wait', async () => {
    const campaign = await create({ name: 'one' });
    const { clock, source, known } = remember({ patienceMs: 5 });
    await known.current(campaign.productId);
    await amend(campaign, { name: 'two' });
    let goOn = () => {};
    source.held = new Promise((resolve) => {
      goOn = resolve;
    });
    clock.nowMs = 5_000;
    expect([(await known.current(campaign.productId))?.name, source.asked]).toEqual(['one', 2]);
    expect([(await known.current(campaign.productId))?.name, source.asked]).toEqual(['one', 2]);
    clock.nowMs = 6_000;
    expect([(await known.current(campaign.productId))?.name, source.asked]).toEqual(['one', 2]);
    goOn();
    await until('it was read after all', async () => (await known.current(campaign.productId))?.name === 'two');
    expect(source.asked).toBe(2);
  });

  test('that there is no such product is remembered too', async () => {
    const { source, known } = remember();
    const nobody = 'no-such-product' as ProductId;
    expect([await known.current(nobody), await known.current(nobody), source.asked]).toEqual([null, null, 1]);
  });

  test('is bounded: what was read first is forgotten first', async () => {
    const products = [];
    for (const name of ['a', 'b', 'c']) products.push((await create({ name })).productId);
    const { source, known } = remember({ capacity: 2 });
    for (const product of products) await known.current(product);
    await known.current(products[1] as ProductId);
    expect(source.asked).toBe(3);
    await known.current(products[0] as ProductId);
    await known.version(products[2] as ProductId, 1);
    expect(source.asked).toBe(4);
    await known.version(products[1] as ProductId, 1);
    expect(source.asked).toBe(5);
  });
});

test('what does not exist is null', async () => {
  const campaign = await create();
  expect(await terms.current('no-such-product' as ProductId)).toBeNull();
  expect(await terms.ofProduct(campaign.productId, 2)).toBeNull();
  expect(await terms.ofProduct('no-such-product' as ProductId, 1)).toBeNull();
});
