import type { Redis } from 'ioredis';
import { campaignOfNumber } from '../../shared/domain/buckets.js';
import type { Stock } from '../../shared/domain/campaign.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import { keys } from '../../shared/redis/keys.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';
import type { SaleReader } from '../../shared/sale/sale-reader.js';

/** A hold counts as overdue this long after its deadline: a sweep of a busy sale needs some seconds. */
const OVERDUE_AFTER_MS = 10_000;
/** How long a new campaign may be missing from the list, because reading it costs a call for each campaign. */
const LIST_FRESH_MS = 10_000;

/** `overdue`: holds whose deadline passed more than 10 s ago. */
export type LiveCampaign = { no: number; product: ProductId; stock: Stock; overdue: number };

export type LiveCampaignsDeps = {
  reader: Pick<SaleReader, 'directory' | 'stock'>;
  redis: Redis;
  clock: Pick<RedisClock, 'nowMs'>;
};

/**
 * Reads the campaigns of a shard that are live: those that are open or paused, and closed ones with units on hold. The
 * list of them is read every 10 s at most, their counters on each call.
 */
export class LiveCampaigns {
  #list: { no: number; product: ProductId }[] = [];
  #readAt = Number.NEGATIVE_INFINITY;

  constructor(
    readonly deps: LiveCampaignsDeps,
    /** How many campaigns are read at most; the newest ones. */
    readonly limits: { listed: number; live: number },
    /** Monotonic, in milliseconds. */
    readonly now: () => number = () => performance.now(),
  ) {}

  /** Returns the live campaigns, the newest first. @throws EngineUnavailable */
  async read(): Promise<LiveCampaign[]> {
    if (this.now() - this.#readAt >= LIST_FRESH_MS) await this.#readList();
    const campaigns = await Promise.all(this.#list.map(({ no, product }) => this.#readOne(no, product)));
    return campaigns.filter((campaign) => campaign !== null && isLive(campaign.stock)) as LiveCampaign[];
  }

  async #readList(): Promise<void> {
    const { reader } = this.deps;
    const newest = [...(await reader.directory())]
      .sort(([a], [b]) => campaignOfNumber(b) - campaignOfNumber(a))
      .slice(0, this.limits.listed);
    const stocks = await Promise.all(newest.map(([, product]) => reader.stock(product)));
    this.#list = newest
      .filter((_campaign, i) => isLive(stocks[i] ?? null))
      .slice(0, this.limits.live)
      .map(([no, product]) => ({ no: campaignOfNumber(no), product }));
    this.#readAt = this.now();
  }

  async #readOne(no: number, product: ProductId): Promise<LiveCampaign | null> {
    const { reader, redis, clock } = this.deps;
    const passed = clock.nowMs() - OVERDUE_AFTER_MS;
    const overdue = redis.zcount(keys.deadlines(product), '-inf', passed).catch((error: unknown) => {
      throw EngineUnavailable.from('redis', error);
    });
    const [stock, count] = await Promise.all([reader.stock(product), overdue]);
    return stock && { no, product, stock, overdue: count };
  }
}

/** Joins the buckets of divided campaigns, which several shards have. */
export function wholeCampaigns(parts: readonly LiveCampaign[]): LiveCampaign[] {
  const whole = new Map<ProductId, LiveCampaign>();
  for (const part of parts) {
    const known = whole.get(part.product);
    whole.set(part.product, known ? joined(known, part) : part);
  }
  return [...whole.values()];
}

function joined(one: LiveCampaign, other: LiveCampaign): LiveCampaign {
  const [a, b] = [one.stock, other.stock];
  const sum = (x: number | null, y: number | null) => (x === null || y === null ? null : x + y);
  const stock = {
    ...{ status: a.status, total: sum(a.total, b.total), free: sum(a.free, b.free), held: a.held + b.held },
    ...{ redeemed: a.redeemed + b.redeemed, burned: a.burned + b.burned, waiting: a.waiting + b.waiting },
  };
  return { ...one, stock, overdue: one.overdue + other.overdue };
}

function isLive(stock: Stock | null): boolean {
  return stock !== null && (stock.status === 'open' || stock.status === 'paused' || stock.held > 0);
}
