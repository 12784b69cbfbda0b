import { join } from 'node:path';
import { beforeAll, expect } from '@jest/globals';
import fc from 'fast-check';
import type { Redis } from 'ioredis';
import { projectRoot } from '../../shared/config/project-root.js';
import type { Campaign } from '../../shared/domain/campaign.js';
import {
  type CampaignId,
  type CampaignNo,
  type DeviceId,
  type IdempotencyKey,
  newReservationPrefix,
  type OrderId,
  type ProductId,
  type ReservationId,
  type UserId,
} from '../../shared/domain/ids.js';
import { shardPrefix } from '../../shared/domain/shards.js';
import { writeEpoch } from '../../shared/redis/epoch.js';
import { Journal } from '../../shared/redis/journal.js';
import { JOURNAL_START } from '../../shared/redis/journal-ids.js';
import { keys, saleKeys } from '../../shared/redis/keys.js';
import { ScriptRunner } from '../../shared/redis/script-runner.js';
import { reserveCall } from '../../shared/sale/reserve-call.js';
import type { ReserveInput } from '../../shared/sale/reserve-input.js';
import { SaleStore } from '../../shared/sale/sale-store.js';
import { DECISION_KINDS, decodeDecisions, reserveScript } from '../../shared/sale/scripts/reserve.js';
import {
  CONFIRM_DECISIONS,
  confirmScript,
  decodeSettlements,
  RELEASE_DECISIONS,
  releaseScript,
} from '../../shared/sale/scripts/settlement.js';
import { startTestRedis } from '../harness/engines.js';
import { luaWithClockIn } from '../harness/frozen-clock.js';
import { keyNames } from '../harness/key-names.js';
import { ON_CLUSTER } from '../harness/redis-mode.js';
import { connectToRedis, describeCampaign, TEST_LIMITS } from '../harness/sale.js';

/**
 * A call decides on many requests as if each had come alone. Random sales run twice: one request a call, and in calls
 * of random sizes. Replies, everything in Redis and the journal are the same.
 *
 * BATCH_SALES says how many sales are tried, BATCH_SEED which ones; without it they are the same in every run.
 */
const CLOCK = 'test:now';
const PRODUCT = 'sale' as ProductId;
const START_MS = 1_800_000_000_000;
/** Longer than a run takes, since the keys of Redis expire by its own clock. */
const LIMITS = { ...TEST_LIMITS, deviceQuota: 3, deviceWindowMs: 60_000 };

type Request = {
  user: number;
  qty: number;
  key: number;
  order: number | null;
  tokenAgeMs: number | null;
  device: number | null;
  metadata: string | null;
  proven: boolean;
  holderDevice: number | null;
  terms: number;
  coupon: { code: number; once: { nonce: number; leftMs: number } | null } | null;
  newKeys: number;
};
type Settlement = { which: number; payment: number; orderState: 'unknown' | 'known' | 'taken'; isOwner: boolean };
type Settled = Settlement & { record: [id: string, text: string] };
type Step =
  | { kind: 'requests'; requests: Request[] }
  | { kind: 'tick'; ms: number }
  | { kind: 'refund'; which: number }
  | { kind: 'confirm' | 'release'; calls: Settlement[] }
  | { kind: 'leave' | 'heartbeat' | 'corrupt'; user: number }
  | { kind: 'restock'; delta: number }
  | { kind: 'expire' | 'tend' | 'pause' | 'resume' | 'archive' };
type RandomSale = {
  terms: Partial<Campaign>;
  presenceSeconds: number | null;
  codes: number;
  journalLimit: number;
  replicas: number;
  steps: Step[];
};

const small = (max: number) => fc.nat({ max });
const rarely = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { freq: 2, nil: null });

const requests: fc.Arbitrary<Request> = fc.record({
  user: small(5),
  qty: fc.constantFrom(1, 1, 1, 2, 4),
  key: small(12),
  order: fc.option(small(2), { nil: null, freq: 2 }),
  tokenAgeMs: fc.option(fc.constantFrom(-10_000, -10_000, 29_999, 30_001, -60_001), { nil: null, freq: 2 }),
  device: fc.option(small(2), { nil: null, freq: 4 }),
  metadata: rarely(fc.constantFrom('{"cart":"1"}', '{"a\\tb":"c\\nd"}')),
  proven: fc.boolean(),
  holderDevice: fc.option(small(2), { nil: null, freq: 3 }),
  terms: fc.constantFrom(0, 1, 1, 1, -1, 2),
  coupon: rarely(
    fc.record({
      code: small(4),
      once: fc.option(fc.record({ nonce: small(1), leftMs: fc.constantFrom(0, 90_000, 90_000, 90_000) }), {
        nil: null,
      }),
    }),
  ),
  newKeys: fc.constantFrom(60, 60, 60, 60, -9),
});

const steps: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant('requests' as const),
      requests: fc.array(requests, { minLength: 1, maxLength: 20 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('tick' as const), ms: fc.constantFrom(1, 999, 20_000, 61_000, 61_000) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constantFrom('confirm' as const, 'release' as const),
      calls: fc.array(
        fc.record({
          which: small(30),
          payment: small(2),
          orderState: fc.constantFrom('unknown' as const, 'unknown' as const, 'known' as const, 'taken' as const),
          isOwner: fc.boolean(),
        }),
        { minLength: 1, maxLength: 8 },
      ),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('refund' as const), which: small(30) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constantFrom('leave' as const, 'heartbeat' as const, 'heartbeat' as const, 'corrupt' as const),
      user: small(5),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('restock' as const), delta: fc.constantFrom(-1, 1, 2) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constantFrom(
        'expire' as const,
        'tend' as const,
        'tend' as const,
        'pause' as const,
        'resume' as const,
        'archive' as const,
      ),
    }),
  },
);

const anySale: fc.Arbitrary<RandomSale> = fc.record({
  terms: fc.record({
    type: fc.constantFrom('shared' as const, 'shared' as const, 'pool' as const, 'unique' as const),
    totalLimit: fc.option(small(6), { nil: null, freq: 9 }),
    status: fc.constantFrom(
      'open' as const,
      'open' as const,
      'open' as const,
      'open' as const,
      'scheduled' as const,
      'draft' as const,
    ),
    startsAt: fc.constantFrom(new Date(START_MS - 60_000), new Date(START_MS + 30_000)),
    endsAt: fc.constantFrom(null, null, null, new Date(START_MS + 90_000)),
    holdSeconds: fc.constantFrom(60, 0),
    perUserLimit: fc.constantFrom(1, 2, 3),
    maxQty: fc.constant(3),
    confirmation: fc.constantFrom('fast' as const, 'durable' as const),
    latePayment: fc.constantFrom('refuse' as const, 'reacquire' as const, 'reacquire' as const),
    requireAttestation: fc.constantFrom(false, false, true),
    requireToken: fc.constantFrom(false, false, true),
    hasAudience: fc.boolean(),
    stacking: fc.constantFrom('combines' as never, 'exclusive' as never, 'group:a' as never),
    waitingRoom: fc.record({
      enabled: fc.constantFrom(true, true, true, false),
      maxSize: fc.constantFrom(2, 1_000),
      presenceSeconds: fc.constant(null),
    }),
  }) as fc.Arbitrary<Partial<Campaign>>,
  presenceSeconds: fc.option(fc.constant(60), { nil: null, freq: 2 }),
  codes: small(5),
  journalLimit: fc.constantFrom(1_000_000, 1_000_000, 3, 7, 12, 65, 80),
  replicas: fc.constantFrom(0, 1),
  steps: fc.array(steps, { minLength: 1, maxLength: 12 }),
});

/** One of the two Redis, with the same history in both. */
class World {
  private constructor(
    readonly redis: Redis,
    readonly scripts: ScriptRunner,
    readonly isBatched: boolean,
  ) {}

  static async start(luaFolder: string, isBatched: boolean): Promise<World> {
    const redis = await connectToRedis((await startTestRedis()).url);
    return new World(redis, new ScriptRunner(redis, luaFolder), isBatched);
  }

  /** @returns every reply, in the order of the requests and steps */
  async run(sale: RandomSale, inputs: Map<Step, ReserveInput[]>): Promise<unknown[]> {
    await this.redis.flushall();
    await this.redis.set(CLOCK, START_MS);
    await writeEpoch(this.redis, { generation: 7, server: 'test' });
    const limits = { ...LIMITS, journalLimitEntries: sale.journalLimit, waitReplicas: sale.replicas };
    const store = new SaleStore(this.scripts, limits);
    await store.campaigns.load(campaignOf(sale));
    const replies: unknown[] = [];
    let nowMs = START_MS;
    for (const step of sale.steps) {
      if (step.kind === 'tick') {
        nowMs += step.ms;
        await this.redis.set(CLOCK, nowMs);
      } else if (step.kind === 'requests') {
        replies.push(...(await this.#reserve(inputs.get(step) ?? [], limits)));
      } else {
        replies.push(await this.#act(store, step));
      }
    }
    return replies;
  }

  async #reserve(inputs: readonly ReserveInput[], limits: typeof LIMITS): Promise<unknown[]> {
    const size = this.isBatched ? inputs.length : 1;
    const calls: Promise<unknown[]>[] = [];
    for (let at = 0; at < inputs.length; at += size) calls.push(this.#call(inputs.slice(at, at + size), limits));
    return (await Promise.all(calls)).flat();
  }

  async #call(inputs: readonly ReserveInput[], limits: typeof LIMITS): Promise<unknown[]> {
    const outcome = await this.scripts.run(reserveScript, reserveCall(inputs, limits));
    if (outcome.kind !== 'decided') return [outcome];
    const decisions = decodeDecisions(outcome.decisions, outcome.lastId, inputs);
    return decisions.map((one) => (one instanceof Error ? one.message.replace(/user_script:\d+/, '') : one));
  }

  async #act(store: SaleStore, step: Exclude<Step, { kind: 'requests' | 'tick' }>): Promise<unknown> {
    if ('which' in step) {
      const ids = (await this.redis.hkeys(keys.reservations(PRODUCT))).sort();
      const id = ids[step.which % ids.length] as ReservationId | undefined;
      return id ? settled(store.reservations.refund(PRODUCT, id, { actor: '', trace: '' }, step.which % 3)) : null;
    }
    if ('calls' in step) return this.#settle(step.kind, step.calls);
    if ('user' in step) {
      const user = `user${step.user}` as UserId;
      if (step.kind === 'leave') return settled(store.line.leave(PRODUCT, user, null, ''));
      if (step.kind === 'heartbeat') return settled(store.line.heartbeat(PRODUCT, [[user, 0]]));
      return this.redis.hset(keys.people(PRODUCT), user, 'malformed');
    }
    if (step.kind === 'restock')
      return settled(store.campaigns.restock(PRODUCT, step.delta, 10, null, 'tester', 'request'));
    if (step.kind === 'expire') return settled(store.reservations.expire(PRODUCT, 10));
    if (step.kind === 'tend') return settled(store.line.maintain(PRODUCT, 10, 30_000, 2_000));
    if (step.kind === 'archive') return this.redis.hset(keys.campaign(PRODUCT), { status: 'closed', archived: 'pass' });
    return settled(store.campaigns.setStatus(PRODUCT, step.kind, 'tester', 'request'));
  }

  async #settle(kind: 'confirm' | 'release', calls: readonly Settlement[]): Promise<unknown[]> {
    const records = Object.entries(await this.redis.hgetall(keys.reservations(PRODUCT))).sort();
    if (records.length === 0) return [];
    const some = calls.map((call) => ({ ...call, record: records[call.which % records.length] as [string, string] }));
    const call = (group: readonly Settled[]) => (kind === 'confirm' ? this.#confirm(group) : this.#release(group));
    if (this.isBatched) {
      // As the store does it: a call that fails has written nothing, and each request of it is made alone.
      const replies = await call(some).catch(() => null);
      if (replies) return replies;
    }
    const replies: unknown[] = [];
    for (const one of some) replies.push(...[await settled(call([one]))].flat());
    return replies;
  }

  async #confirm(calls: readonly Settled[]): Promise<unknown[]> {
    const orderKeys: string[] = [];
    const requests = calls.map(({ payment, orderState, record: [id, text] }) => {
      const [, user, , , , , order] = text.split('|');
      const order_key = orderKeys.push(keys.order(user as UserId, order as OrderId));
      const payment_ref = payment ? `pay${payment}` : '';
      return { reservation_id: id, payment_ref, trace: '', order_state: orderState, order_key };
    });
    const outcome = await this.scripts.run(confirmScript, {
      keys: { ...saleKeys(PRODUCT), request_keys: orderKeys },
      args: { input: { requests, order_ttl_ms: 600_000 } },
    });
    if (outcome.kind !== 'decided') return calls.map(() => outcome);
    return decodeSettlements(CONFIRM_DECISIONS, outcome.decisions, outcome.entries);
  }

  async #release(calls: readonly Settled[]): Promise<unknown[]> {
    const requests = calls.map(({ isOwner, payment, record: [id, text] }) => {
      const holder = isOwner ? text.split('|')[1] : 'user0';
      const whole = { reservation_id: id, holder, reason: 'because', trace: '' };
      return payment ? { ...whole, keep: payment } : whole;
    });
    const outcome = await this.scripts.run(releaseScript, { keys: saleKeys(PRODUCT), args: { input: { requests } } });
    if (outcome.kind !== 'decided') return calls.map(() => outcome);
    return decodeSettlements(RELEASE_DECISIONS, outcome.decisions, outcome.entries);
  }

  async #value(name: string): Promise<unknown> {
    const type = await this.redis.type(name);
    if (type === 'hash') return this.redis.hgetall(name);
    if (type === 'zset') return this.redis.zrange(name, '0', '-1', 'WITHSCORES');
    if (type !== 'string') return type;
    const [text, ttl] = await Promise.all([this.redis.getBuffer(name), this.redis.ttl(name)]);
    return [text?.toString('latin1'), ttl < 0];
  }

  /** All that is in Redis; the journal promise by promise. */
  async everything(): Promise<Record<string, unknown>> {
    const names = (await keyNames(this.redis, '*')).sort();
    const values = await Promise.all(names.map((name) => this.#value(name)));
    const found: Record<string, unknown> = Object.fromEntries(names.map((name, i) => [name, values[i]]));
    const journal = new Journal(this.redis);
    const entries = await journal.read(JOURNAL_START, 10_000);
    found.journal = entries.map(({ journalId, fields }) => ({ journalId, fields }));
    found.backlog = (await journal.backlog()).entries;
    found.position = { ...(await journal.position()), entries: null };
    return found;
  }
}

async function settled(call: Promise<unknown>): Promise<unknown> {
  try {
    return await call;
  } catch (error) {
    return error instanceof Error ? error.message.replace(/user_script.*/, '') : error;
  }
}

function campaignOf({ terms, presenceSeconds, codes }: RandomSale): Campaign {
  const waitingRoom = { enabled: true, maxSize: 1_000, ...terms.waitingRoom, presenceSeconds };
  return describeCampaign({
    ...terms,
    id: '00000000-0000-7000-8000-000000000005' as CampaignId,
    no: 5 as CampaignNo,
    productId: PRODUCT,
    waitingRoom,
    codes: terms.type === 'shared' ? 0 : codes,
  });
}

function inputOf(one: Request, nowMs: number): ReserveInput {
  const { coupon } = one;
  const device = one.device === null ? null : (`device${one.device}` as DeviceId);
  return {
    claim: {
      product: PRODUCT,
      user: `user${one.user}` as UserId,
      qty: one.qty,
      order: one.order === null ? null : (`order${one.order}` as OrderId),
      token: one.tokenAgeMs === null ? null : { expiresAtSeconds: Math.floor((nowMs - one.tokenAgeMs) / 1_000) },
      key: `key${one.key}` as IdempotencyKey,
      device,
      metadata: one.metadata,
      proven: one.proven,
      holderDevice: one.holderDevice === null ? null : (`device${one.holderDevice}` as DeviceId),
      counted: device,
      network: '',
      trace: '',
      coupon: coupon && {
        code: coupon.code,
        once: coupon.once && { nonce: `nonce${coupon.once.nonce}`, expiresAtMs: nowMs + coupon.once.leftMs },
      },
    },
    reservationPrefix: newReservationPrefix(),
    ticketKey: 't1',
    terms: one.terms,
    newKeys: one.newKeys,
    bucket: null,
  };
}

/** What each request sends, the same for both. */
function inputsOf({ steps: all }: RandomSale): Map<Step, ReserveInput[]> {
  const inputs = new Map<Step, ReserveInput[]>();
  let nowMs = START_MS;
  for (const step of all) {
    if (step.kind === 'tick') nowMs += step.ms;
    if (step.kind === 'requests')
      inputs.set(
        step,
        step.requests.map((one) => inputOf(one, nowMs)),
      );
  }
  return inputs;
}

// Scripts see the names of keys with the prefix, which clients add.
const lua = luaWithClockIn(join(projectRoot(), 'lua'), `${shardPrefix(0, 1, ON_CLUSTER)}${CLOCK}`);
const kinds = new Map<string, number>();
let alone: World;
let together: World;
beforeAll(async () => {
  alone = await World.start(lua, false);
  together = await World.start(lua, true);
});

export async function expectSameTogether(sales: number): Promise<void> {
  await fc.assert(
    fc.asyncProperty(anySale, async (sale) => {
      const inputs = inputsOf(sale);
      const [expected, replies] = await Promise.all([alone.run(sale, inputs), together.run(sale, inputs)]);
      expect(replies).toEqual(expected);
      expect(await together.everything()).toEqual(await alone.everything());
      for (const reply of expected.flat()) {
        const kind = typeof reply === 'string' ? 'failed' : String((reply as { kind?: string } | null)?.kind);
        kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
      }
    }),
    {
      numRuns: Number(process.env.BATCH_SALES ?? sales),
      seed: Number(process.env.BATCH_SEED ?? 1),
      endOnFailure: process.env.BATCH_SHRINK === '0',
    },
  );
}

const SETTLED = [...Object.keys(CONFIRM_DECISIONS), ...Object.keys(RELEASE_DECISIONS)];

/** The random sales had every decision among them. */
export function expectEveryDecision(): void {
  // Those of divided campaigns are in dying-buckets.ts.
  const ofBuckets = ['short', 'empty', 'draw'];
  const expected = [...DECISION_KINDS, 'failed', ...SETTLED].filter((kind) => !ofBuckets.includes(kind));
  const missing = expected.filter((kind) => !kinds.has(kind));
  expect(missing).toEqual([]);
}
