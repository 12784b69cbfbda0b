import type { Redis } from 'ioredis';
import { bucketOfNumber, campaignOfNumber } from '../domain/buckets.js';
import type { BucketPart, CampaignStatus, CampaignType } from '../domain/campaign.js';
import type { IdempotencyKey, OrderId, ProductId, UserId } from '../domain/ids.js';
import { EngineUnavailable } from '../errors/faults.js';
import { askRedis } from '../redis/ask-redis.js';
import { decodeEpoch } from '../redis/epoch.js';
import { positionOf } from '../redis/journal.js';
import { keys } from '../redis/keys.js';
import { parseRecord } from '../redis/record-format.js';
import { PERSON } from '../redis/record-formats.js';
import { RequestNames } from '../redis/request-names.js';
import { type FormerTerms, type TermsCopy, unpackFormer, unpackTerms, unpackVersion } from './packed-terms.js';
import { LOST } from './recall.js';
import { decodeReservation, type ReservationRecord } from './reservation-record.js';

/** The fields that only a bucket of a divided campaign has. */
export type BucketCopy = Pick<BucketPart, 'bucket' | 'sealed' | 'movedOut' | 'arrived' | 'gave'>;

/** A campaign hash, or that of a bucket: sale terms and counters. */
export type CampaignCopy = TermsCopy & {
  /** Terms that were in force before, the latest first. */
  former: readonly FormerTerms[];
  /** Without the bucket. */
  no: number;
  /** null = the campaign is not divided */
  part: BucketCopy | null;
  product: ProductId;
  type: CampaignType;
  status: CampaignStatus;
  codes: number;
  /** null = unlimited */
  total: number | null;
  held: number;
  redeemed: number;
  burned: number;
  waiting: number;
  /** Whether only Postgres has its reservations. */
  archived: boolean;
  /** Name of the pass that archived it; null = it is not archived, or a user was recalled since. */
  pass: string | null;
  /** Of an archived campaign: how many reservations were made. */
  promised: number;
};

/** The fields of a user's record about the line. */
export type PersonCopy = {
  state: string;
  inLine: boolean;
  lineNo: number;
  qty: number;
  reservation: string;
  /** "" = made from the reservation id */
  order: string;
  code: number | null;
};

/** Records of one campaign to be read together. */
export type Wanted = { product: ProductId; reservations: readonly string[]; users: readonly string[] };
/**
 * `payments`: of the reservations that have any, their references, the oldest first. An empty list marks a reservation
 * whose deadline was extended.
 */
export type Records = {
  reservations: Map<string, ReservationRecord>;
  payments: Map<string, readonly string[]>;
  people: Map<string, PersonCopy>;
};

/** A reservation, or the future reservation of a place in line. */
export type Named = { reservation: string; user: string; order: string };

/** What was read at one moment, and the last entry of the journal and its history then. */
export type AtMoment<Value> = { value: Value; lastId: string; generation: number };

/**
 * Reads all records of a sale from Redis, to copy them to Postgres. Changes nothing, and runs concurrently with
 * scripts.
 */
export class SaleCopy {
  constructor(readonly redis: Redis) {}

  /**
   * Returns the campaigns that this Redis has, or has a bucket of: campaign number, product. A number may come twice,
   * if Postgres gave it again after it was set back.
   */
  async directory(): Promise<(readonly [no: number, product: ProductId])[]> {
    const entries = await askRedis(() => this.redis.hgetall(keys.directory));
    return Object.entries(entries).map(([no, product]) => [campaignOfNumber(Number(no)), product as ProductId]);
  }

  /** Returns the products whose number another campaign got, so that the directory lacks them. */
  async displaced(): Promise<ProductId[]> {
    return (await askRedis(() => this.redis.smembers(keys.displaced))) as ProductId[];
  }

  /** Returns null when Redis lacks the campaign. */
  async campaign(product: ProductId): Promise<CampaignCopy | null> {
    return campaignOf(product, await askRedis(() => this.redis.hgetall(keys.campaign(product))));
  }

  /** Yields the id of every reservation in batches. One may come twice while the campaign changes. */
  reservationIds(product: ProductId, batch: number): AsyncGenerator<string[]> {
    return this.#names(keys.reservations(product), batch);
  }

  /** Yields every user in batches, in the same way. */
  users(product: ProductId, batch: number): AsyncGenerator<string[]> {
    return this.#names(keys.people(product), batch);
  }

  #names(key: string, batch: number): AsyncGenerator<string[]> {
    return scanned((cursor) => askRedis(() => this.redis.hscan(key, cursor, 'COUNT', batch)));
  }

  /** Returns the records of these users and reservations. @throws EngineUnavailable also while Redis is being filled */
  async records({ product, reservations, users }: Wanted): Promise<AtMoment<Records>> {
    const transaction = this.redis.multi();
    for (const key of reservations.length > 0 ? [keys.reservations(product), keys.payments(product)] : [])
      transaction.hmget(key, ...reservations);
    if (users.length > 0) transaction.hmget(keys.people(product), ...users).zmscore(keys.line(product), ...users);
    return atMoment(transaction, (results) => {
      const textsOf = (names: readonly string[]) => (names.length > 0 ? (results.shift() as (string | null)[]) : []);
      const [records, payments] = [textsOf(reservations), textsOf(reservations)];
      const [people, scores] = [textsOf(users), textsOf(users)];
      return {
        reservations: mapOf(reservations, records, decodeReservation),
        payments: mapOf(reservations, payments, (text) => JSON.parse(text) as string[]),
        people: mapOf(users, people, (text, i) => decodePerson(text, scores[i] != null)),
      };
    });
  }

  /**
   * Returns the claims of these reservations on their orders (lua/includes/orders.lua). Reservations without a claim
   * are left out.
   */
  async claims(named: readonly Named[]): Promise<{ reservation: string; stacking: string }[]> {
    if (named.length === 0) return [];
    const names = named.map(({ user, order }) => keys.order(user as UserId, order as OrderId));
    const texts = await askRedis(() => this.redis.mget(...names));
    return named.flatMap(({ reservation }, i) => {
      const claim = (texts[i] ?? '').split(',').find((one) => one.startsWith(`${reservation}=`));
      return claim ? [{ reservation, stacking: claim.slice(reservation.length + 1) }] : [];
    });
  }

  /** Returns those of these campaigns that Redis has. @throws EngineUnavailable also while Redis is being filled */
  async campaigns(products: readonly ProductId[]): Promise<AtMoment<CampaignCopy[]>> {
    const transaction = this.redis.multi();
    for (const product of products) transaction.hgetall(keys.campaign(product));
    return atMoment(transaction, (results) =>
      products.flatMap((product, i) => campaignOf(product, results[i] as Record<string, string>) ?? []),
    );
  }

  /**
   * Yields the idempotency keys of persisted promises of some campaigns with their records, in batches. A key may come
   * twice, and others may come too.
   * @param campaigns their numbers
   */
  async *answers(campaigns: Iterable<number>): AsyncGenerator<{ key: string; answer: string }[]> {
    const requests = new RequestNames(this.redis).of(campaigns);
    for (;;) {
      const { done, value } = await askRedis(() => requests.next());
      if (done) return;
      const names = value.map(({ user, key }) => keys.idempotency(user as UserId, key as IdempotencyKey));
      const texts = await askRedis(() => this.redis.mget(...names));
      yield value.flatMap(({ key }, i) => {
        const answer = texts[i];
        return (answer?.split('\n') ?? []).map((one) => ({ key, answer: one }));
      });
    }
  }
}

type Transaction = ReturnType<Redis['multi']>;

/** @throws ContractError when the record is malformed */
function decodePerson(text: string, inLine: boolean): PersonCopy {
  const { state, line_no, qty, reservation_id, order_id, code } = parseRecord(PERSON, text);
  return { state, inLine, lineNo: line_no, qty, reservation: reservation_id, order: order_id, code };
}

function campaignOf(product: ProductId, hash: Record<string, string>): CampaignCopy | null {
  if (!hash.no) return null;
  const number = (name: string) => Number(hash[name] ?? 0);
  const total = number('total');
  return {
    ...unpackVersion(hash),
    former: unpackFormer(hash.former),
    no: campaignOfNumber(number('no')),
    part: bucketOf(hash),
    product,
    type: unpackTerms(hash.terms ?? '').type as CampaignType,
    status: hash.status as CampaignStatus,
    codes: number('codes'),
    total: total === -1 ? null : total + number('refused'),
    held: number('held'),
    redeemed: number('redeemed'),
    burned: number('burned'),
    waiting: number('waiting'),
    archived: hash.archived !== undefined,
    pass: hash.recalled_at && hash.archived !== LOST ? null : (hash.archived ?? null),
    promised: number('promised'),
  };
}

function bucketOf(hash: Record<string, string>): BucketCopy | null {
  if (hash.spent === undefined || hash.spent === '0' || hash.spent === '1') return null;
  return {
    bucket: bucketOfNumber(Number(hash.no)),
    sealed: hash.spent !== 'open',
    movedOut: Number(hash.moved_out ?? 0),
    arrived: JSON.parse(hash.arrived ?? '{}') as BucketCopy['arrived'],
    gave: JSON.parse(hash.gave ?? '[]') as BucketCopy['gave'],
  };
}

/** Reads in one transaction, with the position. @throws EngineUnavailable also while Redis is being filled */
export async function atMoment<Value>(
  transaction: Transaction,
  decode: (results: unknown[]) => Value,
  ask = askRedis,
): Promise<AtMoment<Value>> {
  const results = (await ask(() => transaction.get(keys.epoch).xinfo('STREAM', keys.journal).exec())) ?? [];
  const [[journalError, journal] = [], [, epoch] = []] = [results.pop(), results.pop()];
  if (typeof epoch !== 'string') throw new EngineUnavailable('redis', 'Redis is empty or being filled');
  for (const [error] of results) if (error) throw EngineUnavailable.from('redis', error);
  const { lastId } = positionOf(journalError ?? null, journal);
  return { value: decode(results.map(([, value]) => value)), lastId, generation: decodeEpoch(epoch).generation };
}

/** Yields the names in a hash or a sorted set in batches. */
export async function* scanned(scan: (cursor: string) => Promise<[string, string[]]>): AsyncGenerator<string[]> {
  let cursor = '0';
  do {
    const [next, flat] = await scan(cursor);
    cursor = next;
    const names = flat.filter((_, i) => i % 2 === 0);
    if (names.length > 0) yield names;
  } while (cursor !== '0');
}

/** Decodes the values of those of these names that have one. */
export function mapOf<Value>(
  names: readonly string[],
  texts: readonly (string | null)[],
  decode: (text: string, i: number) => Value,
): Map<string, Value> {
  const found = new Map<string, Value>();
  for (const [i, name] of names.entries()) {
    const text = texts[i];
    if (text) found.set(name, decode(text, i));
  }
  return found;
}
