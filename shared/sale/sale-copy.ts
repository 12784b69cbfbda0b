import type { Redis } from 'ioredis';
import type { RawEntry } from '../contracts/journal.js';
import { bucketOfNumber, campaignOfNumber } from '../domain/buckets.js';
import type { BucketPart, CampaignStatus, CampaignType } from '../domain/campaign.js';
import type { IdempotencyKey, ProductId, UserId } from '../domain/ids.js';
import { type FieldTerms, termsOfFields } from '../domain/terms.js';
import { EngineUnavailable } from '../errors/faults.js';
import { entriesOf } from '../redis/journal-entries.js';
import { keys } from '../redis/keys.js';
import { parseRecord } from '../redis/record-format.js';
import { PERSON } from '../redis/record-formats.js';
import { RequestNames } from '../redis/request-names.js';
import { type CampaignDetails, detailsOf } from './campaign-details.js';
import { decodeReservation, type ReservationRecord } from './reservation-record.js';

/** The fields that only a bucket of a divided campaign has. */
export type BucketCopy = Pick<BucketPart, 'bucket' | 'sealed' | 'movedOut' | 'arrived' | 'gave'>;

/** A campaign hash, or that of a bucket: sale terms and counters. */
export type CampaignCopy = {
  /** Without the bucket. */
  no: number;
  /** null = the campaign is not divided */
  part: BucketCopy | null;
  product: ProductId;
  type: CampaignType;
  status: CampaignStatus;
  version: number;
  terms: FieldTerms;
  requireToken: boolean;
  /** Whether the terms restrict the audience. Only Postgres has its rule. */
  hasAudience: boolean;
  /** null = an earlier version of the project wrote these terms */
  details: CampaignDetails | null;
  codes: number;
  /** null = unlimited */
  total: number | null;
  held: number;
  redeemed: number;
  burned: number;
  waiting: number;
  /** Whether only Postgres has its reservations. */
  archived: boolean;
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
export type Records = { reservations: Map<string, ReservationRecord>; people: Map<string, PersonCopy> };

/** A consistent read of records and journal. */
export type Moment = {
  lastId: string;
  entries: RawEntry[];
  campaigns: Map<ProductId, CampaignCopy>;
  records: Map<ProductId, Records>;
};

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
    const entries = await engine(() => this.redis.hgetall(keys.directory));
    return Object.entries(entries).map(([no, product]) => [campaignOfNumber(Number(no)), product as ProductId]);
  }

  /** Returns the products whose number another campaign got, so that the directory lacks them. */
  async displaced(): Promise<ProductId[]> {
    return (await engine(() => this.redis.smembers(keys.displaced))) as ProductId[];
  }

  /** Returns null when Redis lacks the campaign. */
  async campaign(product: ProductId): Promise<CampaignCopy | null> {
    return campaignOf(product, await engine(() => this.redis.hgetall(keys.campaign(product))));
  }

  /** Yields every reservation in batches. A reservation may come twice. */
  async *reservations(product: ProductId, batch: number): AsyncGenerator<Map<string, ReservationRecord>> {
    let cursor = '0';
    do {
      const [next, flat] = await engine(() => this.redis.hscan(keys.reservations(product), cursor, 'COUNT', batch));
      cursor = next;
      const found = new Map<string, ReservationRecord>();
      for (let i = 0; i + 1 < flat.length; i += 2) found.set(String(flat[i]), decodeReservation(String(flat[i + 1])));
      yield found;
    } while (cursor !== '0');
  }

  /** Yields every user in batches. A user may come twice. */
  async *people(product: ProductId, batch: number): AsyncGenerator<Map<string, PersonCopy>> {
    let cursor = '0';
    do {
      const [next, flat] = await engine(() => this.redis.hscan(keys.people(product), cursor, 'COUNT', batch));
      cursor = next;
      const users = flat.filter((_, i) => i % 2 === 0);
      const scores = users.length === 0 ? [] : await engine(() => this.redis.zmscore(keys.line(product), ...users));
      const texts = flat.filter((_, i) => i % 2 === 1);
      yield peopleOf(users, texts, scores);
    } while (cursor !== '0');
  }

  /** Returns the records of these users and reservations. */
  async records(wanted: Wanted): Promise<Records> {
    const transaction = this.redis.multi();
    const decode = readRecords(transaction, wanted);
    return decode(await run(transaction));
  }

  /** Reads in one transaction: these records, these campaigns, and the journal entries later than `after`. */
  async moment(after: string, products: readonly ProductId[], wanted: readonly Wanted[]): Promise<Moment> {
    const transaction = this.redis.multi();
    transaction.xrange(keys.journal, `(${after}`, '+');
    transaction.xinfo('STREAM', keys.journal);
    for (const product of products) transaction.hgetall(keys.campaign(product));
    const decoders = wanted.map((one) => ({ product: one.product, decode: readRecords(transaction, one) }));
    const results = await run(transaction);
    const entries = entriesOf(results.shift() as [string, string[]][], after);
    const journal = results.shift() as unknown[] | null;
    // Entries after `after` may have been persisted and trimmed before this moment.
    const lastId = journal ? String(journal[journal.indexOf('last-generated-id') + 1]) : after;
    const campaigns = new Map<ProductId, CampaignCopy>();
    for (const product of products) {
      const campaign = campaignOf(product, results.shift() as Record<string, string>);
      if (campaign) campaigns.set(product, campaign);
    }
    const records = new Map(decoders.map(({ product, decode }) => [product, decode(results)]));
    return { lastId, entries, campaigns, records };
  }

  /**
   * Yields the idempotency keys of persisted promises of some campaigns with their records, in batches. A key may come
   * twice, and others may come too.
   * @param campaigns their numbers
   */
  async *answers(campaigns: Iterable<number>): AsyncGenerator<{ key: string; answer: string }[]> {
    const requests = new RequestNames(this.redis).of(campaigns);
    for (;;) {
      const { done, value } = await engine(() => requests.next());
      if (done) return;
      const names = value.map(({ user, key }) => keys.idempotency(user as UserId, key as IdempotencyKey));
      const texts = await engine(() => this.redis.mget(...names));
      yield value.flatMap(({ key }, i) => {
        const answer = texts[i];
        return (answer?.split('\n') ?? []).map((one) => ({ key, answer: one }));
      });
    }
  }
}

type Transaction = ReturnType<Redis['multi']>;

/** Adds the commands. Returns a decoder, which removes their results from the front of the list. */
function readRecords(transaction: Transaction, { product, reservations, users }: Wanted) {
  if (reservations.length > 0) transaction.hmget(keys.reservations(product), ...reservations);
  if (users.length > 0) {
    transaction.hmget(keys.people(product), ...users);
    transaction.zmscore(keys.line(product), ...users);
  }
  return (results: unknown[]): Records => {
    const found = new Map<string, ReservationRecord>();
    const texts = reservations.length > 0 ? (results.shift() as (string | null)[]) : [];
    for (const [i, id] of reservations.entries()) {
      const text = texts[i];
      if (text) found.set(id, decodeReservation(text));
    }
    if (users.length === 0) return { reservations: found, people: new Map() };
    const people = results.shift() as (string | null)[];
    return { reservations: found, people: peopleOf(users, people, results.shift() as (string | null)[]) };
  };
}

function peopleOf(
  users: readonly string[],
  texts: readonly (string | null | undefined)[],
  scores: readonly (string | null)[],
): Map<string, PersonCopy> {
  const people = new Map<string, PersonCopy>();
  for (const [i, user] of users.entries()) {
    const text = texts[i];
    if (text) people.set(user, decodePerson(text, scores[i] != null));
  }
  return people;
}

/** @throws ContractError when the record is malformed */
function decodePerson(text: string, inLine: boolean): PersonCopy {
  const { state, line_no, qty, reservation_id, order_id, code } = parseRecord(PERSON, text);
  return { state, inLine, lineNo: line_no, qty, reservation: reservation_id, order: order_id, code };
}

function campaignOf(product: ProductId, hash: Record<string, string>): CampaignCopy | null {
  if (!hash.no) return null;
  const flag = (name: string) => hash[name] === '1';
  const number = (name: string) => Number(hash[name] ?? 0);
  const total = number('total');
  return {
    no: campaignOfNumber(number('no')),
    part: bucketOf(hash),
    product,
    type: hash.type as CampaignType,
    status: hash.status as CampaignStatus,
    version: number('version'),
    terms: termsOfFields(hash),
    requireToken: flag('once'),
    hasAudience: hash.open_to_all === '0',
    details: detailsOf(hash.details ?? '', number('version')),
    codes: number('codes'),
    total: total === -1 ? null : total,
    held: number('held'),
    redeemed: number('redeemed'),
    burned: number('burned'),
    waiting: number('waiting'),
    archived: hash.archived !== undefined,
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

async function run(transaction: Transaction): Promise<unknown[]> {
  const results = await engine(() => transaction.exec());
  return (results ?? []).map(([error, value]) => {
    // The journal has no entry yet.
    if (error && /no such key/.test(error.message)) return null;
    if (error) throw new EngineUnavailable('redis', error.message, { cause: error });
    return value;
  });
}

async function engine<Value>(call: () => Promise<Value>): Promise<Value> {
  try {
    return await call();
  } catch (error) {
    throw new EngineUnavailable('redis', error instanceof Error ? error.message : String(error), { cause: error });
  }
}
