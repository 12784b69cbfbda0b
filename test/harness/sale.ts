import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect } from '@jest/globals';
import type { Redis } from 'ioredis';
import { projectRoot } from '../../shared/config/project-root.js';
import type { JournalEntry } from '../../shared/contracts/journal.js';
import type { BucketPart, Campaign } from '../../shared/domain/campaign.js';
import type { CampaignId, CampaignNo, ProductId } from '../../shared/domain/ids.js';
import { EngineUnavailable, FencedOut } from '../../shared/errors/faults.js';
import { connectForCommands } from '../../shared/redis/connections.js';
import { readEpoch, removeEpoch, writeEpoch } from '../../shared/redis/epoch.js';
import { Journal } from '../../shared/redis/journal.js';
import { decodeEntry } from '../../shared/redis/journal-entries.js';
import { JOURNAL_START } from '../../shared/redis/journal-ids.js';
import type { CallOf, OutcomeOf, ScriptContract } from '../../shared/redis/script-contract.js';
import { ScriptRunner } from '../../shared/redis/script-runner.js';
import type { SaleLimits } from '../../shared/sale/sale-calls.js';
import { SALE_SCRIPTS } from '../../shared/sale/sale-scripts.js';
import { SaleStore } from '../../shared/sale/sale-store.js';
import { DECISION_KINDS } from '../../shared/sale/scripts/reserve.js';
import { CONFIRM_DECISIONS, RELEASE_DECISIONS } from '../../shared/sale/scripts/settlement.js';
import { RedisFill } from '../../worker/recovery/redis-fill.js';
import { auditCampaign } from './audit.js';
import { TestCampaign } from './campaign.js';
import { atEnd } from './cleanup.js';
import { startTestRedis, type TestRedis } from './engines.js';
import { luaWithClockAt } from './frozen-clock.js';
import { promised } from './violation.js';

export const TEST_LIMITS: SaleLimits = {
  idempotencyTtlMs: 600_000,
  journalLimitEntries: 1_000_000,
  deviceQuota: 20,
  deviceWindowMs: 1_000,
  orderMemoryMs: 600_000,
  oneTimeTokenMs: 300_000,
  waitReplicas: 0,
};

/** Of scripts that decide on several requests: what may become of one. */
const DECISIONS_OF: Record<string, string[]> = {
  reserve: [...DECISION_KINDS, 'failed'],
  confirm: Object.keys(CONFIRM_DECISIONS),
  release: Object.keys(RELEASE_DECISIONS),
};

const LUA_FOLDER = join(projectRoot(), 'lua');

/** The sale on a Redis of its own: scripts are called as the API and the worker call them, without any of the two. */
export async function startSale(): Promise<Sale> {
  const engine = await startTestRedis();
  const redis = await connectToRedis(engine.url);
  await writeEpoch(redis, { generation: Date.now(), server: 'test' });
  return new Sale(engine, redis);
}

/** A connection as the product makes it, ready to be used; closed with the test file. */
export async function connectToRedis(url: string): Promise<Redis> {
  const redis = connectForCommands(url, { commandMs: 20_000, connectMs: 5_000 }, () => {});
  atEnd('a connection to Redis', () => redis.disconnect());
  await once(redis, 'ready');
  return redis;
}

/** A script runner that remembers which replies came. */
class RecordingRunner extends ScriptRunner {
  readonly met = new Set<string>();

  override async run<Contract extends ScriptContract>(
    contract: Contract,
    call: CallOf<Contract>,
  ): Promise<OutcomeOf<Contract>> {
    try {
      const outcome = await super.run(contract, call);
      this.met.add(`${contract.name} ${outcome.kind}`);
      if (outcome.kind === 'decided') {
        const { replies } = JSON.parse(String((outcome as { decisions?: string }).decisions)) as {
          replies: { kind: string }[];
        };
        for (const { kind } of replies) this.met.add(`${contract.name} ${kind}`);
      }
      return outcome;
    } catch (error) {
      // Redis was reached and replied: two replies become exceptions.
      if (error instanceof FencedOut) this.met.add(`${contract.name} fenced`);
      if (error instanceof EngineUnavailable && error.cause === undefined) this.met.add(`${contract.name} rebuilding`);
      throw error;
    }
  }
}

export class Sale {
  readonly store: SaleStore;
  readonly journal: Journal;
  readonly #runner: RecordingRunner;
  #campaigns: TestCampaign[] = [];
  #lastNo = 0;

  constructor(
    readonly engine: TestRedis,
    readonly redis: Redis,
  ) {
    this.#runner = new RecordingRunner(redis, LUA_FOLDER);
    this.store = new SaleStore(this.#runner, TEST_LIMITS);
    this.journal = new Journal(redis);
  }

  /** The same sale under other limits. */
  storeWith(limits: Partial<SaleLimits>): SaleStore {
    return new SaleStore(this.#runner, { ...TEST_LIMITS, ...limits });
  }

  /** The same sale with a stopped clock, for the exact limit of a window or deadline. */
  storeAt(nowMs: number, limits: Partial<SaleLimits> = {}): SaleStore {
    return new SaleStore(new ScriptRunner(this.redis, luaWithClockAt(LUA_FOLDER, nowMs)), {
      ...TEST_LIMITS,
      ...limits,
    });
  }

  /** Puts a campaign under a name and a number of its own into Redis. Defaults: ten units, a line, a minute to pay. */
  openCampaign(terms: Partial<Campaign> = {}): Promise<TestCampaign> {
    return this.load(this.unknownCampaign(terms));
  }

  /** Puts a campaign into Redis, from now on part of the audit. */
  async load(campaign: TestCampaign): Promise<TestCampaign> {
    const outcome = await this.store.campaigns.load(campaign.terms);
    if (outcome.kind !== 'loaded') throw new Error(`the campaign was not loaded: ${outcome.kind}`);
    this.#campaigns.push(campaign);
    return campaign;
  }

  /** Puts bucket 3 of a divided campaign into Redis, with two units by default. It is not part of the audit. */
  async openBucket(part: Partial<BucketPart> = {}, terms: Partial<Campaign> = {}): Promise<TestCampaign> {
    const campaign = this.unknownCampaign({ maxQty: 1, buckets: 10, ...terms });
    const whole = { bucket: 3, total: 2, sealed: false, movedOut: 0, arrived: {}, gave: [], ...part };
    const outcome = await this.store.campaigns.load(campaign.terms, undefined, null, null, whole);
    if (outcome.kind !== 'loaded') throw new Error(`the bucket was not loaded: ${outcome.kind}`);
    return campaign;
  }

  /** Begins another history, as after a failover. */
  async beginHistory(): Promise<void> {
    const epoch = await readEpoch(this.redis);
    await writeEpoch(this.redis, { generation: (epoch?.generation ?? 0) + 1, server: 'test' });
  }

  /** A campaign that Redis does not know. */
  unknownCampaign(terms: Partial<Campaign> = {}): TestCampaign {
    this.#lastNo += 1;
    return new TestCampaign(this, describeCampaign({ no: this.#lastNo as CampaignNo, ...terms }));
  }

  async nowMs(): Promise<number> {
    const [seconds, micros] = await this.redis.time();
    return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
  }

  /** All entries of the journal, of all campaigns. */
  async entries(): Promise<JournalEntry[]> {
    return (await this.journal.read(JOURNAL_START, 1_000_000)).map(decodeEntry);
  }

  /** What is inconsistent in any campaign that was opened since the last audit; empty when nothing is. */
  async audit(): Promise<string[]> {
    const campaigns = this.#campaigns;
    this.#campaigns = [];
    return (await Promise.all(campaigns.map(({ product }) => auditCampaign(this.redis, product)))).flat();
  }

  /** Checks that every campaign that was opened since the last audit is consistent. */
  async expectConsistent(): Promise<void> {
    const problems = await this.audit();
    promised(() => expect(problems).toEqual([]));
  }

  /** Takes Redis out of service as it is before it was filled, for as long as `work` takes. */
  async withoutEpoch<Value>(work: () => Promise<Value>): Promise<Value> {
    const epoch = await readEpoch(this.redis);
    await removeEpoch(this.redis);
    try {
      return await work();
    } finally {
      if (epoch) await writeEpoch(this.redis, epoch);
    }
  }

  /**
   * Takes Redis out of service and fills it by `work`; then the same history goes on.
   * @param work is given the token
   */
  async fill(work: (token: string) => Promise<void>): Promise<void> {
    const [epoch, token] = [await readEpoch(this.redis), randomUUID()];
    const fill = new RedisFill(this.#runner);
    await fill.begin(token);
    await work(token);
    await fill.end(token, epoch ?? { generation: Date.now(), server: 'test' });
  }

  /** Replies in the contract of a script that have not come yet. */
  unmetReplies(script: string): string[] {
    const contract = SALE_SCRIPTS.find(({ name }) => name === script);
    if (!contract) throw new Error(`there is no script ${script}`);
    const kinds = [...Object.keys(contract.replies), ...(DECISIONS_OF[script] ?? [])];
    return kinds.filter((kind) => !this.#runner.met.has(`${script} ${kind}`));
  }
}

export function describeCampaign(terms: Partial<Campaign> = {}): Campaign {
  const now = new Date();
  return {
    id: randomUUID() as CampaignId,
    no: 1 as CampaignNo,
    productId: `sale-${randomUUID()}` as ProductId,
    name: 'A sale',
    type: 'shared',
    code: null,
    totalLimit: 10,
    status: 'open',
    buckets: 1,
    rules: {},
    termsVersion: 1,
    startsAt: new Date(now.getTime() - 60_000),
    endsAt: null,
    timeZone: 'UTC',
    discount: null,
    holdSeconds: 60,
    perUserLimit: 1,
    maxQty: 3,
    waitingRoom: { enabled: true, maxSize: 1_000, presenceSeconds: null },
    latePayment: 'refuse',
    refundPolicy: 'return',
    confirmation: 'fast',
    requireAttestation: false,
    requireToken: false,
    hasAudience: false,
    stacking: 'combines',
    codes: 0,
    createdAt: now,
    updatedAt: now,
    ...terms,
  };
}
