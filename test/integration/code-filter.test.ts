import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, jest, test } from '@jest/globals';
import fc from 'fast-check';
import { CodeFilter, type CodeFilterLimits } from '../../api/coupons/code-filter.js';
import { ScalableBloomFilter } from '../../api/coupons/scalable-bloom-filter.js';
import { type Code, drawCodes } from '../../shared/domain/codes.js';
import { Metrics } from '../../shared/observability/metrics.js';
import { CodeJobs } from '../../shared/postgres/code-jobs.js';
import { CodesTable } from '../../shared/postgres/codes.js';
import { CodeNotifications } from '../../shared/redis/code-notifications.js';
import { connectForSubscription } from '../../shared/redis/connections.js';
import { issueCodes } from '../../worker/codes/issue-codes.js';
import { atEndOfTest } from '../harness/cleanup.js';
import { connectDatabase, startPersistence } from '../harness/persistence.js';
import { EngineProxy } from '../harness/proxy.js';
import { recordingLog } from '../harness/recording-log.js';
import { startSale } from '../harness/sale.js';
import { until } from '../harness/until.js';

const sale = await startSale();
const store = await startPersistence(sale);
const codes = new CodesTable(store.database);
const jobs = new CodeJobs(store.database);
const FORM = { prefix: '', symbols: 12 };
const LIMITS: CodeFilterLimits = {
  ...{ perRange: 50, pingEveryMs: 10, pingIdleMs: 2_000, trustMs: 300, pingGiveUpMs: 2_000 },
};
const news = new CodeNotifications(sale.redis, { announced: 40, settleMs: 310 });

function startFilter(limits: Partial<CodeFilterLimits> = {}, table = codes, redisUrl = sale.engine.url) {
  const subscriber = connectForSubscription(redisUrl, () => {});
  const filter = new CodeFilter(subscriber, table, recordingLog(), { ...LIMITS, ...limits });
  filter.start();
  // Each filter that runs adds what any later test announces.
  atEndOfTest(async () => {
    await filter.stop();
    subscriber.disconnect();
  });
  return { filter, subscriber };
}

const sure = (filter: CodeFilter) => until('the filter is sure', () => filter.isSure);

/** Issues codes as the worker does. @returns them */
async function issue(count: number, total = count): Promise<Code[]> {
  const campaign = (await store.storeCampaign()).terms.id;
  const id = randomUUID();
  await jobs.insert({ id, campaignId: campaign, kind: 'generate', total, symbols: 12 }, 'tester', store.database);
  await issueCodes(id, {
    database: store.database,
    jobs,
    codes,
    news,
    lastNoInRedis: async () => 0,
    issued: async () => {},
    otherRegionOf: () => null,
    again: async () => {},
    metrics: new Metrics(false),
    log: recordingLog(),
    limits: { perCampaign: 1e6, chunk: count, runMs: 20_000, jobErrors: 5, leftIdleMs: 0 },
  });
  const { rows } = await store.sql.query<{ code: Code }>('select code from codes where campaign_id = $1', [campaign]);
  return rows.map(({ code }) => code);
}

test('a filter has no false negatives and few false positives, also when it grows to many times its size', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ minLength: 1 })), (texts) => {
      const bloom = new ScalableBloomFilter(1);
      for (const text of texts) bloom.add(text);
      expect(texts.every((text) => bloom.has(text))).toBe(true);
    }),
  );
  const bloom = new ScalableBloomFilter(1_000);
  const known = drawCodes(120_000, FORM);
  for (const code of known) bloom.add(code);
  expect(known.filter((code) => !bloom.has(code))).toEqual([]);
  const wrong = drawCodes(100_000, FORM).filter((code) => bloom.has(code)).length;
  // 0.08 % + 0.01 % of 100,000 are 90.
  expect(wrong).toBeLessThan(150);
  expect(bloom.errorRate).toBeLessThan(0.001);
  expect(Math.abs(bloom.codes - 120_000)).toBeLessThan(120);
});

test('a filter of ten million codes takes less than 20 MB', () => {
  expect(new ScalableBloomFilter(10_000_000).bytes).toBeLessThan(20_000_000);
});

test('a filter that has more than it was made for says so', () => {
  const bloom = new ScalableBloomFilter(1);
  let added = 0;
  while (!bloom.isCrowded && added < 1_000_000) {
    for (const code of drawCodes(5_000, FORM)) bloom.add(code);
    added += 5_000;
  }
  expect([added > 150_000, added < 400_000, bloom.errorRate > 0.001]).toEqual([true, true, true]);
});

test('the code filter answers "may be" until it is loaded, then knows every code and refuses the others', async () => {
  const known = await issue(175);
  await codes.insertShared((await store.storeCampaign()).terms.id, 'EVERYBODY1' as Code, store.database);
  const { filter } = startFilter();
  expect([filter.mayContain('NEVER1'), filter.lookups.unsure]).toEqual([true, 1]);
  await sure(filter);
  expect(known.filter((code) => !filter.mayContain(code))).toEqual([]);
  expect([filter.mayContain('EVERYBODY1'), filter.mayContain('NEVER1')]).toEqual([true, false]);
  expect(filter.lookups).toEqual({ unsure: 1, maybe: 176, unknown: 1 });
  expect(filter.state.codes).toBeGreaterThanOrEqual(176);
  expect(filter.state.bytes).toBeLessThan(200_000);
});

test('the code filter knows a code before it is visible in Postgres', async () => {
  const { filter } = startFilter();
  await sure(filter);
  const missing: string[] = [];
  let issuing = true;
  const watching = (async () => {
    const seen = new Set<string>();
    while (issuing) {
      const { rows } = await store.sql.query<{ code: string }>('select code from codes');
      for (const { code } of rows) {
        if (!seen.has(code) && !filter.mayContain(code)) missing.push(code);
        seen.add(code);
      }
    }
  })();
  await Promise.all([issue(200, 400), issue(200, 400)]);
  issuing = false;
  await watching;
  expect(missing).toEqual([]);
  const { maybe, unsure } = filter.lookups;
  // A busy filter is unsure of some, and takes them for codes too.
  expect(maybe).toBeGreaterThan(0);
  expect(maybe + unsure).toBeGreaterThanOrEqual(800);
});

test('the code filter pings rarely while it is not used, and is sure again when it is', async () => {
  const { filter, subscriber } = startFilter({ pingIdleMs: 100, trustMs: 40 });
  await sure(filter);
  const pings = jest.spyOn(subscriber, 'ping');
  const begun = performance.now();
  await until('it rests', () => performance.now() - begun > 500);
  // Ten before it rests, and five since; 50 without a rest.
  expect(pings.mock.calls.length).toBeLessThan(20);
  await sure(filter);
  expect(filter.mayContain('NEVER1')).toBe(false);
});

test('the code filter misses nothing that is issued while it loads', async () => {
  const before = await issue(300);
  const [[{ filter }], during] = await Promise.all([
    (async () => {
      await nextTurn();
      return [startFilter({ perRange: 5 })] as const;
    })(),
    Promise.all([issue(100, 300), issue(100, 300)]),
  ]);
  await sure(filter);
  expect([...before, ...during.flat()].filter((code) => !filter.mayContain(code))).toEqual([]);
  expect(filter.mayContain('NEVER2')).toBe(false);
});

test('the code filter lets requests through while it loads', async () => {
  let turns = 0;
  class Turns extends CodesTable {
    override readBeyond(...[marks, range, take]: Parameters<CodesTable['readBeyond']>) {
      return super.readBeyond(marks, range, async (some) => {
        let isTaken = false;
        const counted = (async () => {
          for (turns = 0; !isTaken; turns += 1) await nextTurn();
        })();
        try {
          await take(some.concat(drawCodes(20_000, FORM)));
        } finally {
          isTaken = true;
          await counted;
        }
      });
    }
  }
  await issue(1);
  const { filter } = startFilter({}, new Turns(store.database));
  await sure(filter);
  expect(turns).toBeGreaterThan(19);
});

test('the code filter counts each code once when its load was interrupted', async () => {
  const known = await issue(300);
  let parts = 0;
  class Interrupted extends CodesTable {
    override readBeyond(...[marks, range, take]: Parameters<CodesTable['readBeyond']>) {
      return super.readBeyond(marks, range, async (some) => {
        await take(some);
        parts += 1;
        if (parts < 5) throw new Error('interrupted');
      });
    }
  }
  const { filter } = startFilter({ perRange: 1_000 }, new Interrupted(store.database));
  await sure(filter);
  expect(known.filter((code) => !filter.mayContain(code))).toEqual([]);
  const { numbered, shared } = await codes.count();
  expect(filter.state.codes).toBeLessThanOrEqual(numbered + shared);
});

test('the code filter answers "may be" after its subscription was down, until it has what it missed', async () => {
  // No page comes until it is let: the state in between can be looked at.
  let gate: Promise<void> = Promise.resolve();
  class GatedTable extends CodesTable {
    override async waitForIssuers(): Promise<void> {
      await gate;
      await super.waitForIssuers();
    }
  }
  const { filter } = startFilter({}, new GatedTable(connectDatabase(store.url)));
  await sure(filter);
  let letGo = () => {};
  gate = new Promise((resolve) => {
    letGo = resolve;
  });
  let missed: Code[] = [];
  try {
    const id = await subscriberId();
    await sale.redis.client('KILL', 'ID', id);
    missed = await issue(60);
    await until('it has noticed', () => !filter.isSure);
    expect(missed.every((code) => filter.mayContain(code))).toBe(true);
    expect(filter.mayContain('NEVER3')).toBe(true);
  } finally {
    letGo();
  }
  await sure(filter);
  expect(missed.every((code) => filter.mayContain(code))).toBe(true);
  expect(filter.mayContain('NEVER3')).toBe(false);
});

/** Redis's id of the newest subscription to the channel of codes. */
async function subscriberId(): Promise<string> {
  const list = String(await sale.redis.call('CLIENT', 'LIST', 'TYPE', 'pubsub'));
  const ids = [...list.matchAll(/\bid=(\d+)\b/g)].map(([, id]) => Number(id));
  return String(Math.max(...ids));
}

test('the code filter does not trust a connection on which nothing arrives any more, before what it misses can be committed', async () => {
  const proxy = await EngineProxy.before(sale.engine.port);
  const { filter, subscriber } = startFilter({}, codes, `redis://127.0.0.1:${proxy.port}`);
  await sure(filter);
  const closed = once(subscriber, 'close');
  await proxy.swallow();
  const missed = await issue(40);
  expect(missed.filter((code) => !filter.mayContain(code))).toEqual([]);
  expect(filter.lookups.unsure).toBe(40);
  // It gives the connection up by itself.
  await closed;
  await proxy.heal();
  await sure(filter);
  expect(missed.filter((code) => !filter.mayContain(code))).toEqual([]);
});

test('the code filter is made anew when it is crowded, and refuses nothing meanwhile', async () => {
  const { filter } = startFilter({ perRange: 4_000 });
  await sure(filter);
  // Announced and never committed: they crowd the filter and are gone from the next one.
  const known = await issue(50);
  let crowd = 0;
  await until('it was made anew', async () => {
    await news.announce(drawCodes(20_000, FORM));
    crowd += 20_000;
    return crowd > 100_000 && filter.state.codes < 100_000;
  });
  expect(filter.state.errorRate).toBeLessThan(0.001);
  expect(known.filter((code) => !filter.mayContain(code))).toEqual([]);
});
