import { type IdempotencyKey, type OrderId, orderName, type ProductId, type UserId } from '../domain/ids.js';

/** Owner of the idempotency keys of operators; no user has this id. */
export const OPERATORS = '';

/** Separates the keys of Doorbuster from others. */
const PREFIX = 'db1';

/**
 * Documentation of every key in Redis. Keys of one campaign share a hash tag. `npm run docs` generates
 * docs/redis-keys.md from this table, and a test compares both.
 */
export const KEY_DOCS = {
  format: 'string · number of the stored formats (shared/domain/format.ts), written before anything else.',
  epoch: 'string · generation and server of the history that this Redis continues; an empty Redis has none.',
  filler:
    'string · token of the worker that fills Redis, until 60 s after its last write; only while there is no epoch.',
  journal:
    'stream · every promise, appended by the script that made it; the promises of one call are one entry, which is trimmed when Postgres has committed it.',
  mark: 'string · a number that processes write so that WAIT has a write to wait for (REDIS_WAIT_REPLICAS).',
  directory: 'hash · campaign number → product id, for reservation ids.',
  installation:
    'string · number of shards|version of the map of campaigns, the latest that a process knew; it stays under the tags of a number of shards that was left.',
  displaced:
    'set · products whose number another campaign got, because Postgres had been set back; they are not in the directory.',
  events: 'stream · CloudEvents for external readers; ids are `<seq of the outbox>-0`, about 100,000 are kept.',
  codes: 'channel · codes that are about to be issued, comma-separated, for the filters of the APIs.',
  termsNotifications: 'channel · product id of a campaign whose terms have changed.',
  persisted: 'channel · last journal id that Postgres has committed.',
  campaign:
    'hash · terms and counters of a campaign, or of its bucket in this shard; with the used codes, all that remains of an archived one (`archived`: the name of the pass).',
  usedCodes: 'string · bitmap: bit n - 1 = code number n is used, or another bucket may give it.',
  once: 'string · a used one-time token, until it expires. A refill writes `restored_at` of the campaign instead.',
  people: 'hash · user → packed person: state, taken slots, line number, quantity, reservation, code.',
  reservations:
    'hash · reservation id → packed reservation: state, user, quantity, slot, deadline, order, code; and the units that it gave back, if any.',
  payments:
    'hash · reservation id → references of its payments as JSON, the first one first; only for payments with a reference. An empty list marks a reservation whose deadline was extended.',
  deadlines: 'sorted set · reservation id by deadline in ms, only while reserved.',
  line: 'sorted set · user by line number, a counter of the script; plus 2^52 for users who stepped back.',
  presence:
    'sorted set · waiting user by the time they were last seen, in ms (stepped back: minus the time until which their place is kept); only with `presence_seconds`.',
  holders:
    'hash · user → line number|device that took this place in line, unless its fingerprint was derived; stale if the user has another line number.',
  news: 'channel · notifications about users of a campaign, for the processes that hold sockets.',
  idempotency:
    'string · idempotency record of a key of a user ("" = of the operators), for IDEMPOTENCY_TTL_SECONDS or until its campaign is archived. A key that was used in two shards has a record of each campaign, one a line, after one of them has moved.',
  requests:
    'list · users and idempotency keys of promises of a campaign, by its number, that were made in a period of six hours, one JSON text for each batch; kept as long as their records.',
  order:
    'string · reservations and places of one order of a user, each with its stacking rules; until seven days after the last one.',
  answer: 'string · result of a job for the request that waits for it, 60 s.',
  device: 'string · times in ms of the last admitted checkouts of a device, newest first, 1 s.',
  metrics: 'hash · process → its metrics, for /metrics; stale ones are removed.',
  bans: 'hash · ban id → ban by an operator as JSON, for processes that start during an outage of Postgres, which is the system of record.',
  ruleBans: 'hash · ban id → ban by a rule as JSON, one key per hour in which they end; kept an hour longer.',
  banNotifications: 'channel · created and lifted bans, and users in cooldown, for every API process.',
  failures:
    'string · number of consecutive failed requests with codes by a proven user, or by a user id from one network, one hour.',
  used: 'string · a solved challenge or a device token of level 1 or 2, with its use, until it expires.',
  attestedKey: 'string · public key, app and device of an App Attest key as JSON, 30 days after its last use.',
  attestedUses:
    'sorted set · counter of signatures of an App Attest key, as the score of `n`; kept as long as the key.',
  accounts:
    'set or HyperLogLog · users of a device (a single user: one hour), or users of a network as keyed hashes, one day; only for campaigns with `risk: enforce` or `strict`.',
  round: 'string · marks a turn of the rounds of a divided campaign as taken by a worker, 0.8 s.',
  quota: 'string · counter of a quota and caller.',
  addressBlock:
    'string · exists while a campaign with `risk: strict`, named with the network, blocks the network; one hour.',
  bucket: 'string · limit and caller: the time at which the bucket of tokens is full again, in microseconds.',
} as const;

/**
 * What becomes of a key when Redis loses its data.
 *   fact         Postgres has it, or gets it from the journal
 *   derived      it follows from facts
 *   expendable   no promise depends on it
 *   caller       about callers; their limits begin again
 * A refill writes the facts and derived keys of each campaign (test/integration/restore.test.ts).
 */
type Kept = 'fact' | 'derived' | 'expendable' | 'caller';

export const KEPT = {
  format: 'fact',
  epoch: 'fact',
  filler: 'expendable',
  journal: 'fact',
  mark: 'expendable',
  directory: 'derived',
  installation: 'fact',
  displaced: 'expendable',
  events: 'expendable',
  codes: 'expendable',
  termsNotifications: 'expendable',
  persisted: 'expendable',
  campaign: 'fact',
  usedCodes: 'derived',
  once: 'expendable',
  people: 'fact',
  reservations: 'fact',
  payments: 'fact',
  deadlines: 'derived',
  line: 'fact',
  presence: 'derived',
  holders: 'fact',
  news: 'expendable',
  idempotency: 'fact',
  requests: 'derived',
  order: 'fact',
  answer: 'expendable',
  device: 'caller',
  metrics: 'expendable',
  bans: 'fact',
  ruleBans: 'caller',
  banNotifications: 'expendable',
  failures: 'caller',
  used: 'caller',
  attestedKey: 'caller',
  attestedUses: 'caller',
  accounts: 'caller',
  round: 'expendable',
  quota: 'caller',
  addressBlock: 'caller',
  bucket: 'caller',
} as const satisfies Record<keyof typeof KEY_DOCS, Kept>;

export const keys = {
  format: `${PREFIX}:format`,
  epoch: `${PREFIX}:epoch`,
  filler: `${PREFIX}:filler`,
  journal: `${PREFIX}:journal`,
  mark: `${PREFIX}:mark`,
  directory: `${PREFIX}:campaigns`,
  installation: `${PREFIX}:installation`,
  displaced: `${PREFIX}:displaced`,
  metrics: `${PREFIX}:metrics`,
  events: `${PREFIX}:events`,
  codes: `${PREFIX}:codes`,
  termsNotifications: `${PREFIX}:terms`,
  persisted: `${PREFIX}:persisted`,
  bans: `${PREFIX}:bans`,
  banNotifications: `${PREFIX}:ban-news`,
  campaign: (product: ProductId) => `${PREFIX}:{${product}}:campaign`,
  people: (product: ProductId) => `${PREFIX}:{${product}}:people`,
  reservations: (product: ProductId) => `${PREFIX}:{${product}}:reservations`,
  payments: (product: ProductId) => `${PREFIX}:{${product}}:payments`,
  deadlines: (product: ProductId) => `${PREFIX}:{${product}}:deadlines`,
  line: (product: ProductId) => `${PREFIX}:{${product}}:line`,
  presence: (product: ProductId) => `${PREFIX}:{${product}}:presence`,
  usedCodes: (product: ProductId) => `${PREFIX}:{${product}}:used`,
  once: (product: ProductId, nonce: string) => `${PREFIX}:{${product}}:o:${nonce}`,
  holders: (product: ProductId) => `${PREFIX}:{${product}}:holders`,
  news: (product: ProductId) => `${PREFIX}:{${product}}:news`,
  idempotency: (user: UserId | typeof OPERATORS, key: IdempotencyKey) => `${PREFIX}:i:${user}|${key}`,
  requests: (no: number, period: number) => `${PREFIX}:r:${no}:${period}`,
  ruleBans: (hour: number) => `${PREFIX}:bans:${hour}`,
  order: (user: UserId, order: OrderId) => `${PREFIX}:d:${user}|${orderName(order)}`,
  answer: (id: string) => `${PREFIX}:a:${id}`,
  device: (counted: string) => `${PREFIX}:t:${counted}`,
  failures: (caller: string) => `${PREFIX}:f:${caller}`,
  used: (id: string) => `${PREFIX}:u:${id}`,
  attestedKey: (id: string) => `${PREFIX}:k:${id}`,
  attestedUses: (id: string) => `${PREFIX}:kn:${id}`,
  accounts: (where: string) => `${PREFIX}:w:${where}`,
  round: (product: ProductId) => `${PREFIX}:s:${product}`,
  quota: (name: string) => `${PREFIX}:q:${name}`,
  addressBlock: (caller: string) => `${PREFIX}:x:${caller}`,
  bucket: (limit: string, caller: string) => `${PREFIX}:b:${limit}:${caller}`,
} as const satisfies Record<keyof typeof KEY_DOCS, unknown>;

/** The keys that a refill writes: they have a campaign, and Redis must not lack them. */
export type RefilledKey = {
  [Name in keyof typeof keys]: (typeof keys)[Name] extends string
    ? never
    : (typeof KEPT)[Name] extends 'fact' | 'derived'
      ? Name
      : never;
}[keyof typeof keys];

/** Returns the product of a key of `keys.campaign`. */
export function productOfKey(campaignKey: string): ProductId {
  return campaignKey.slice(campaignKey.indexOf('{') + 1, campaignKey.lastIndexOf('}')) as ProductId;
}

/** Returns the keys of one campaign and those that all campaigns share, by their names in scripts. */
export function saleKeys(product: ProductId) {
  return {
    campaign: keys.campaign(product),
    people: keys.people(product),
    reservations: keys.reservations(product),
    deadlines: keys.deadlines(product),
    line: keys.line(product),
    presence: keys.presence(product),
    codes: keys.usedCodes(product),
    holders: keys.holders(product),
    payments: keys.payments(product),
    news: keys.news(product),
    journal: keys.journal,
    directory: keys.directory,
    displaced: keys.displaced,
    filler: keys.filler,
    epoch: keys.epoch,
  };
}

/** Returns the keys of a campaign and its records, except the references of payments. */
export function campaignKeys(product: ProductId): string[] {
  const { campaign, people, reservations, deadlines, line, presence, codes, holders } = saleKeys(product);
  return [campaign, people, reservations, deadlines, line, presence, codes, holders];
}

/**
 * Prefix of BullMQ's own keys, which it adds itself. The braces are a hash tag, which keeps the keys of a queue
 * together.
 * @param shardPrefix of the shard, whose tag is enough; "" = the keys have no tag
 */
export const bullmqPrefix = (shardPrefix: string): string =>
  shardPrefix === '' ? `{${PREFIX}:queues}` : `${shardPrefix}${PREFIX}:queues`;
