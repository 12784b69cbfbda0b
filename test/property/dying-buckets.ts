import { expect } from '@jest/globals';
import fc from 'fast-check';
import type { UserId } from '../../shared/domain/ids.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { CampaignBuckets } from '../../shared/postgres/campaign-buckets.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';
import { Sales } from '../../shared/sale/sales.js';
import { Rounds } from '../../worker/rounds/rounds.js';
import { DividedCampaign, DividedSale } from '../harness/divided-sale.js';
import { expectMinutesOfRows } from '../harness/minutes.js';
import { type Runs, tryOften } from './runs.js';

/**
 * Divided campaigns under whatever order of steps: real scripts, real Postgres, and processes that die before or after
 * any of their calls.
 */
const sale = await DividedSale.start();

const SHARDS = 4;
const USERS = 14;

/** Ends a process at one of its calls: before it is made, or after it was made and before its reply is read. */
class Fuse {
  constructor(
    public left: number,
    readonly after: boolean,
  ) {}

  async guard<Value>(call: () => Promise<Value>): Promise<Value> {
    this.left -= 1;
    if (this.left === 0 && !this.after) throw new EngineUnavailable('redis', 'the process was killed');
    const value = await call();
    if (this.left === 0) throw new EngineUnavailable('redis', 'the process was killed');
    if (this.left < 0) throw new EngineUnavailable('redis', 'the process is dead');
    return value;
  }
}

/** The same object, whose methods burn the fuse. */
function fused<Target extends object>(target: Target, fuse: Fuse): Target {
  return new Proxy(target, {
    get: (object, name) => {
      const value = Reflect.get(object, name) as unknown;
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => fuse.guard(() => Promise.resolve(value.apply(object, args)));
    },
  });
}

/** Runs one round of a worker of its own. @returns whether it came to its end */
async function round(campaign: DividedCampaign, fuse = new Fuse(Number.POSITIVE_INFINITY, false)): Promise<boolean> {
  const stores = sale.shards.map(({ store }) => {
    const parts = { buckets: fused(store.buckets, fuse), line: fused(store.line, fuse) };
    return Object.assign(Object.create(store) as SaleStore, parts);
  });
  const sales = new Sales(stores, sale.map);
  const committing = Object.assign(Object.create(sale.table) as CampaignBuckets, {
    countLeft: async (...args: Parameters<CampaignBuckets['countLeft']>) => {
      await sale.persistAll();
      return fuse.guard(() => sale.table.countLeft(...args));
    },
  });
  const rounds = new Rounds({
    sales,
    divided: () => sale.map.divided,
    hasTurn: async () => true,
    transfers: sale.transfersOf(sales, committing),
    metrics: sale.metrics,
    log: sale.log,
    limits: { roundEveryMs: 20, awayMs: 10_000, promoteBatch: 50, lineSettleMs: 600_000 },
  });
  const { product, stored } = campaign;
  try {
    await rounds.round({
      product,
      id: stored.id,
      completedAt: Number.NEGATIVE_INFINITY,
      canMove: true,
      away: new Map(),
      spentSince: null,
      isOver: false,
    });
    return true;
  } catch (error) {
    if (error instanceof EngineUnavailable) return false;
    throw error;
  }
}

type Step =
  | { kind: 'checkout' | 'leave'; user: number }
  | { kind: 'release' | 'confirm'; which: number }
  | { kind: 'persist' | 'refill' | 'learn'; shard: number }
  | { kind: 'restock' | 'issue'; count: number }
  | { kind: 'round'; dies: number; after: boolean };

const user = fc.integer({ min: 1, max: USERS });
const which = fc.nat(20);
const shard = fc.integer({ min: 0, max: SHARDS - 1 });
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('checkout' as const), user }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('leave' as const), user }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('release' as const), which }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('confirm' as const), which }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('persist' as const), shard }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('refill' as const), shard }) },
  // In campaigns without codes, nothing is issued or learned.
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('learn' as const), shard }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('issue' as const), count: fc.integer({ min: 1, max: 9 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('restock' as const), count: fc.integer({ min: 1, max: 3 }) }) },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('round' as const),
      // 0 = it lives. A round with transfers makes about thirty calls.
      dies: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 32 })),
      after: fc.boolean(),
    }),
  },
);

const CLEAN = { lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] };
const isActive = (state: string) => state === 'reserved' || state === 'redeemed' || state === 'reacquired';

class Checks {
  #served = new Set<string>();
  #queued = false;

  constructor(
    readonly campaign: DividedCampaign,
    public total: number,
    /** Codes in Postgres; null = the units need none. */
    public codes: number | null,
    readonly line: boolean,
  ) {}

  /** @param outcome of a checkout */
  checkedOut(outcome: string): void {
    // Once a user waits, units go to the line only.
    if (this.#queued) expect(outcome).not.toBe('reserved');
    this.#queued ||= outcome === 'queued';
  }

  async afterStep(): Promise<void> {
    const [reservations, waiting] = await Promise.all([this.campaign.reservations(), this.campaign.waiting()]);
    const active = reservations.filter(({ state }) => isActive(state));
    expect(active.length).toBeLessThanOrEqual(this.total);
    expect(new Set(active.map(({ user }) => user)).size).toBe(active.length);
    if (this.codes !== null) this.#checkCodes(active.map(({ code }) => code));
    const promoted = reservations.filter(({ id, lineNo }) => lineNo > 0 && !this.#served.has(id));
    for (const { id } of promoted) this.#served.add(id);
    const last = Math.max(0, ...promoted.map(({ lineNo }) => lineNo));
    expect(waiting.filter((lineNo) => lineNo < last)).toEqual([]);
    const stock = await sale.sales.stock(this.campaign.product);
    expect(Number(stock?.total)).toBeLessThanOrEqual(this.total);
  }

  /** However far the shards are persisted, Redis rewound to their cursors is what Postgres has. */
  async compare(): Promise<void> {
    expect(await this.campaign.ledger()).toMatchObject(CLEAN);
  }

  /** @param used the codes of all active reservations */
  #checkCodes(used: (number | null)[]): void {
    expect(new Set(used).size).toBe(used.length);
    for (const code of used) {
      expect(code).toBeGreaterThan(0);
      expect(code).toBeLessThanOrEqual(Number(this.codes));
    }
  }

  /** Every code is in one bucket. Where no user waited, new ones get what is left. */
  async #checkStockAtEnd(): Promise<void> {
    const heads = await this.campaign.heads();
    const sum = (of: (one: (typeof heads)[number]) => number) => heads.reduce((total, one) => total + of(one), 0);
    const free = sum((one) => one.free);
    const waiting = sum((one) => one.waiting);
    const active = (await this.campaign.reservations()).filter(({ state }) => isActive(state));
    if (this.codes !== null) {
      expect(sum(({ codes }) => codes?.own ?? 0)).toBe(this.codes);
      expect(sum(({ codes }) => codes?.unused ?? 0)).toBe(this.codes - active.length);
    }
    const left = this.codes === null ? free : Math.min(free, this.codes - active.length);
    if (this.#queued) expect(Math.min(left, waiting)).toBe(0);
    if (this.#queued || this.line) return;
    // A process that does not remember that nothing was free.
    const late = new DividedCampaign(sale, this.campaign.stored);
    for (let i = 0; i < left; i += 1) expect((await late.checkout(`late-${i}`)).kind).toBe('reserved');
    expect((await late.checkout('too-late')).kind).toBe('sold_out');
  }

  async atEnd(): Promise<void> {
    const { product, stored } = this.campaign;
    if (this.codes !== null) for (let bucket = 0; bucket < SHARDS; bucket += 1) await sale.learnCodes(stored, bucket);
    // A worker that lives completes what the others have begun, and assigns every unit.
    for (let rounds = 0; rounds < 3; rounds += 1) {
      await sale.persistAll();
      expect(await round(this.campaign)).toBe(true);
      await this.afterStep();
    }
    await sale.persistAll();
    const stock = await sale.sales.stock(product);
    expect(stock?.total).toBe(this.total);
    await this.#checkStockAtEnd();
    await sale.persistAll();
    expect((await sale.table.inTransit(stored.id)).transfers).toEqual([]);
    await this.compare();
    const refused = await sale.sql.query(`select reason from journal_rejects`);
    expect(refused.rows).toEqual([]);
    const voided = await sale.sql.query("select reason from redemptions where status = 'voided'");
    expect(voided.rows).toEqual([]);
    await expectMinutesOfRows(sale.sql);
  }
}

async function take(campaign: DividedCampaign, checks: Checks, step: Step): Promise<void> {
  const { product } = campaign;
  switch (step.kind) {
    case 'checkout':
      return checks.checkedOut((await campaign.checkout(`user-${step.user}`)).kind);
    case 'leave': {
      const id = `user-${step.user}` as UserId;
      await campaign.storeOf(sale.map.bucketOf(product, id)).line.leave(product, id, null, '');
      return;
    }
    case 'release':
    case 'confirm': {
      const held = (await campaign.reservations()).filter(({ state }) => state === 'reserved');
      const one = held[step.which % Math.max(1, held.length)];
      if (!one) return;
      const { reservations } = campaign.storeOf(one.bucket);
      if (step.kind === 'release') await reservations.release(product, one.id, null, '', { actor: '', trace: '' });
      else await reservations.confirm(product, one.id, '', { actor: '', trace: '' });
      return;
    }
    case 'restock': {
      const restocked = await campaign.storeOf(0).campaigns.restock(product, step.count, 50, null, 'operator', '');
      expect(restocked.kind).toBe('restocked');
      checks.total += step.count;
      return;
    }
    case 'issue':
      if (checks.codes === null) return;
      checks.codes += step.count;
      return sale.issueCodes(campaign.stored, checks.codes);
    case 'learn':
      if (checks.codes !== null) await sale.learnCodes(campaign.stored, sale.map.bucketIn(product, step.shard) ?? 0);
      return;
    case 'persist':
      return sale.persist(step.shard);
    case 'refill':
      return sale.refill(step.shard, campaign.stored);
    case 'round':
      await round(campaign, new Fuse(step.dies === 0 ? Number.POSITIVE_INFINITY : step.dies, step.after));
  }
}

/** Whatever dies in whatever step, the line is served in its order, and no unit is made or lost. */
export async function expectLineAndUnitsKept(runs: Runs): Promise<void> {
  let killed = 0;
  const property = fc.asyncProperty(
    fc.integer({ min: 0, max: 10 }),
    fc.option(fc.integer({ min: 0, max: 12 }), { freq: 2 }),
    fc.boolean(),
    fc.array(step, { minLength: 5, maxLength: 60, size: 'max' }),
    async (total, codes, line, steps) => {
      const campaign = await sale.open(total, line, codes === null ? {} : { type: 'pool' });
      if (codes !== null) await sale.issueCodes(campaign.stored, codes);
      const checks = new Checks(campaign, total, codes, line);
      for (const one of steps) {
        await take(campaign, checks, one);
        await checks.afterStep();
        if (one.kind === 'persist' || one.kind === 'round') await checks.compare();
        if (one.kind === 'round' && one.dies > 0) killed += 1;
      }
      await checks.atEnd();
    },
  );
  const made = await tryOften(property, runs);
  process.stdout.write(`${made} runs, ${killed} killed rounds\n`);
}
