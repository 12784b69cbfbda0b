import type { Redis } from 'ioredis';
import type { CampaignStatus, Stock } from '../domain/campaign.js';
import { CAMPAIGN_STATUSES } from '../domain/campaign.js';
import type { CampaignNo, IdempotencyKey, OrderId, ProductId, ReservationId, UserId } from '../domain/ids.js';
import { ContractError } from '../errors/faults.js';
import { askRedis } from '../redis/ask-redis.js';
import { keys } from '../redis/keys.js';
import { parseRecord } from '../redis/record-format.js';
import { PERSON } from '../redis/record-formats.js';
import type { ScriptRunner } from '../redis/script-runner.js';
import { unpackTerms } from './packed-terms.js';
import { decodeReservation, type ReservationRecord } from './reservation-record.js';

/** What anyone may know of a sale. `endsAtMs` 0 = open end. */
export type PublicState = {
  status: CampaignStatus;
  startsAtMs: number;
  endsAtMs: number;
  /** Whether shoppers can wait for units. */
  hasLine: boolean;
  /** No unit is free, and with a line none is held either, so that none can return soon. */
  soldOut: boolean;
};

/** How far a line has come. `served`: users promoted since it began. */
export type LineProgress = { status: CampaignStatus; served: number; waiting: number; mustBeSeen: boolean };

/** Name of the pass that archived a campaign, and the number of its reservations. */
export type Archived = { pass: string; promised: number };

export const STOCK_FIELDS = ['status', 'total', 'free', 'held', 'redeemed', 'burned', 'waiting'] as const;

/** Decodes the values of `STOCK_FIELDS`; null = there is no campaign. @throws ContractError */
export function stockOf(values: readonly (string | null)[]): Stock | null {
  const [status, total, free, held, redeemed, burned, waiting] = values;
  if (!status) return null;
  if (!(CAMPAIGN_STATUSES as readonly string[]).includes(status)) throw new ContractError(`unknown status ${status}`);
  const unlimited = total === '-1';
  return {
    status: status as CampaignStatus,
    total: unlimited ? null : Number(total),
    free: unlimited ? null : Number(free),
    held: Number(held),
    redeemed: Number(redeemed),
    burned: Number(burned),
    waiting: Number(waiting),
  };
}

/**
 * Reads a sale in Redis without a script. Every method throws EngineUnavailable when Redis cannot be used, and while it
 * is empty and not filled.
 */
export class SaleReader {
  constructor(readonly scripts: ScriptRunner) {}

  /** Returns whether a key has an idempotency record, so that a request with it is a repetition. */
  async remembers(user: UserId, key: IdempotencyKey): Promise<boolean> {
    return (await this.#read((redis) => redis.exists(keys.idempotency(user, key)))) > 0;
  }

  /** Number of reservations for which a user's allowance is taken in this shard. */
  async slotsOf(product: ProductId, user: UserId): Promise<number> {
    const text = await this.#read((redis) => redis.hget(keys.people(product), user));
    return text === null ? 0 : parseRecord(PERSON, text).slots.length;
  }

  /** Whether a user has a place in the line of this shard. */
  async waits(product: ProductId, user: UserId): Promise<boolean> {
    return (await this.#read((redis) => redis.zscore(keys.line(product), user))) !== null;
  }

  /** Returns null when Redis has the records of the campaign, or lacks the campaign. */
  async archived(product: ProductId): Promise<Archived | null> {
    const [pass, promised] = await this.#read((redis) => redis.hmget(keys.campaign(product), 'archived', 'promised'));
    return pass ? { pass, promised: Number(promised) } : null;
  }

  /** Whether this shard has a campaign, or a bucket of it. */
  async has(product: ProductId): Promise<boolean> {
    return (await this.#read((redis) => redis.exists(keys.campaign(product)))) > 0;
  }

  /** Reads all counters at once; null when Redis lacks the campaign. */
  async stock(product: ProductId): Promise<Stock | null> {
    const values = await this.#read((redis) => redis.hmget(keys.campaign(product), ...STOCK_FIELDS));
    return stockOf(values) ?? this.#missing(product);
  }

  /** Reads what anyone may know of a campaign; null when Redis lacks the campaign. */
  async publicState(product: ProductId): Promise<PublicState | null> {
    const [status, startsAt, terms, total, free, held] = await this.#read((redis) =>
      redis.hmget(keys.campaign(product), 'status', 'starts_at', 'terms', 'total', 'free', 'held'),
    );
    if (!status) return this.#missing(product);
    const { ends_at, line_enabled } = unpackTerms(terms ?? '');
    const hasLine = line_enabled === '1';
    // A campaign without any units is a waiting list for them.
    const limited = Number(total) > 0 || (Number(total) === 0 && !hasLine);
    return {
      status: status as CampaignStatus,
      startsAtMs: Number(startsAt),
      endsAtMs: Number(ends_at),
      hasLine,
      soldOut: limited && Number(free) <= 0 && (!hasLine || Number(held) <= 0),
    };
  }

  /** How far the line of a campaign, or of a bucket, has come; null = Redis lacks the campaign. */
  async lineProgress(product: ProductId): Promise<LineProgress | null> {
    const [status, waiting, pace, terms] = await this.#read((redis) =>
      redis.hmget(keys.campaign(product), 'status', 'waiting', 'pace', 'terms'),
    );
    if (!status) return this.#missing(product);
    return {
      status: status as CampaignStatus,
      // The last part of the field counts promotions (lua/includes/pace.lua).
      served: Number(pace?.split('|').at(-1) ?? 0),
      waiting: Number(waiting),
      mustBeSeen: Number(unpackTerms(terms ?? '').presence_ms) > 0,
    };
  }

  /** Yields every reservation of a campaign in batches. A reservation may come twice while the campaign changes. */
  async *reservations(product: ProductId, batch: number): AsyncGenerator<ReadonlyMap<string, ReservationRecord>> {
    let cursor = '0';
    do {
      const [next, flat] = await this.#read((redis) => redis.hscan(keys.reservations(product), cursor, 'COUNT', batch));
      cursor = next;
      const found = new Map<string, ReservationRecord>();
      for (let i = 0; i + 1 < flat.length; i += 2) found.set(String(flat[i]), decodeReservation(String(flat[i + 1])));
      yield found;
    } while (cursor !== '0');
  }

  /** @throws EngineUnavailable also while the campaign may be in another shard */
  async reservationsById(product: ProductId, ids: readonly string[]): Promise<ReadonlyMap<string, ReservationRecord>> {
    if (ids.length === 0) return new Map();
    const texts = await this.#read((redis) => redis.hmget(keys.reservations(product), ...ids));
    const found = new Map<string, ReservationRecord>();
    for (const [i, id] of ids.entries()) {
      const text = texts[i];
      if (text) found.set(id, decodeReservation(text));
    }
    if (found.size < ids.length && !(await this.has(product))) this.#missing(product);
    return found;
  }

  /**
   * Returns how a reservation combines with others on its order, as Redis has it; "" = it takes no part, or Redis no
   * longer has the order. @throws EngineUnavailable
   */
  async stackingOn(user: UserId, order: OrderId, reservation: ReservationId): Promise<string> {
    const stacking = (await this.claimsOn(user, order)).get(reservation) ?? '';
    return stacking === 'ended' ? '' : stacking;
  }

  /**
   * Returns the reservations and places of a user that claim an order in this shard, each with its stacking
   * (lua/includes/orders.lua), also of those that have ended. Redis has them for `orderMemoryMs` after the last one.
   * @throws EngineUnavailable
   */
  async claimsOn(user: UserId, order: OrderId): Promise<ReadonlyMap<string, string>> {
    const claims = (await this.#read((redis) => redis.get(keys.order(user, order)))) ?? '';
    return new Map(claims === '' ? [] : claims.split(',').map((claim) => claim.split('=') as [string, string]));
  }

  /** Returns campaign number → product, for every campaign in Redis. */
  async directory(): Promise<ReadonlyMap<number, ProductId>> {
    const entries = await this.#read((redis) => redis.hgetall(keys.directory));
    return new Map(Object.entries(entries).map(([no, product]) => [Number(no), product as ProductId]));
  }

  /** Returns the product of a campaign number; null when there is none. */
  async productOf(no: CampaignNo): Promise<ProductId | null> {
    return (await this.#read((redis) => redis.hget(keys.directory, String(no)))) as ProductId | null;
  }

  /** @throws EngineUnavailable while the campaign may be in another shard */
  #missing(product: ProductId): null {
    this.scripts.places?.assertNowhere(product);
    return null;
  }

  /** A Redis that was emptied a moment ago lacks everything, so nothing it lacks is an answer before it is filled. */
  async #read<Value>(read: (redis: Redis) => Promise<Value>): Promise<Value> {
    const { redis, gate } = this.scripts;
    // In this order: when the epoch exists, Redis is complete.
    const both = () => Promise.all([redis.get(keys.epoch), read(redis)]);
    const [epoch, value] = await throughGate(this.scripts, both);
    if (gate && epoch === null) {
      gate.distrust('it has no epoch');
      gate.assertOpen();
    }
    return value;
  }
}

/** Calls Redis without a script, through the gate of its scripts. @throws EngineUnavailable */
export function throughGate<Value>({ gate }: Pick<ScriptRunner, 'gate'>, read: () => Promise<Value>): Promise<Value> {
  return askRedis(() => (gate ? gate.guard(read) : read()));
}
