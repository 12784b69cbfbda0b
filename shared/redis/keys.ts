import type { IdempotencyKey, OrderId, ProductId, UserId } from '../domain/ids.js';

/** Owner of the idempotency keys of operators; no user has this id. */
export const OPERATORS = '';

/** Layout version of everything below; a change of any record's form takes the next one. */
const PREFIX = 'db1';

/**
 * Every key in Redis. What belongs to one campaign shares a hash tag. The doc of each is the text of docs/redis-keys.md
 * (`npm run docs`), which a test compares with this table.
 */
export const KEY_DOCS = {
  epoch: 'string · id of this incarnation of Redis; a fresh one has none. Read by the journal cursor in Postgres.',
  filler: 'string · token of the worker that fills Redis, 60 s after its last write; only while there is no epoch.',
  journal:
    'stream · every promise, appended by the script that made it, those of one call as one entry; trimmed when Postgres has committed it.',
  relayLease:
    'string · which worker persists the journal, 5 s; an optimisation, two relays do no harm. A worker of an earlier version has a lease of its own, since it cannot read packed entries.',
  mark: 'string · a number that processes write so that WAIT has a write to wait for (REDIS_WAIT_REPLICAS).',
  directory: 'hash · campaign number → product id, for reservation ids.',
  events: 'stream · CloudEvents for readers outside; ids are `<seq of the outbox>-0`, about 100,000 are kept.',
  codes: 'channel · codes that are about to be issued, comma-separated, for the filters of the APIs.',
  termsNotifications: 'channel · product id of a campaign that has new terms.',
  persisted: 'channel · last journal id that Postgres has committed.',
  campaign:
    'hash · sale terms and counters of a campaign; of an archived one (`archived`: the name of the pass) all that stays, with its used codes.',
  usedCodes: 'string · bitmap: bit n - 1 says that code number n is used.',
  once: 'string · a one-time token that was used, until it expires.',
  people: 'hash · user → packed person: state, allowances taken, line number, quantity, reservation, code.',
  reservations: 'hash · reservation id → packed reservation: state, user, quantity, slot, deadline, order, code.',
  payments:
    'hash · reservation id → references of its payments, the first one first, as JSON; only of those that named one.',
  deadlines: 'sorted set · reservation id by deadline in ms, only while reserved.',
  line: 'sorted set · user by line number, a counter taken in the script; of those who stepped back, 2^52 more.',
  presence:
    'sorted set · who waits by when he was seen, in ms (stepped back: minus the time his place is kept); only with `presence_seconds`.',
  holders:
    'hash · user → line number|device that took this place in line, unless its fingerprint was derived; stale where the number is not the user’s.',
  news: 'channel · what happened to whom, for the processes that hold sockets.',
  idempotency:
    'string · the remembered answer to an idempotency key of a user ("" = of the operators), IDEMPOTENCY_TTL_SECONDS, or until its campaign is archived.',
  unscopedIdempotency: 'string · the same as earlier versions wrote it, for whichever user; read until it expires.',
  order:
    'string · the reservations and places that take part in one order of a user, each with what it says of others; seven days after the last.',
  answer: 'string · result of a job for the request that waits for it, 60 s.',
  device: 'string · times in ms of the last admitted checkouts of a device, newest first, 1 s.',
  metrics: 'hash · process → what it has counted, for /metrics; stale ones are removed.',
  bans: 'hash · ban id → ban of an operator as JSON, so that a process that starts without Postgres knows them; Postgres is the truth.',
  ruleBans: 'hash · the same of bans that rules made, by the hour in which they end; an hour longer than that.',
  banNotifications: 'channel · bans made and lifted, users who have to wait; for every API process.',
  attempts:
    'hash · product → units and places of it promised in one minute, 90 minutes; the API counts, the worker judges.',
  failures:
    'string · requests with codes of one proven user, or of a user from one network, that failed in a row, one hour.',
  used: 'string · a solved challenge, or a token that was worked for, and what it was used for, until it expires.',
  attestedKey: 'string · public key, app and device of an App Attest key as JSON, 30 days after its last use.',
  attestedUses: 'sorted set · how often an App Attest key has signed, as the score of `n`; as long as the key.',
  accounts:
    'set or hyperloglog · users seen on a device (one user: an hour) or, as keyed hashes, in a network, a day; only of campaigns with `risk: enforce`.',
  sweep: 'string · a worker has taken this turn of a sweep; until the next turn is near.',
  quota: 'string · counters of rate-limiter-flexible, by quota and caller.',
} as const;

export const keys = {
  epoch: `${PREFIX}:epoch`,
  filler: `${PREFIX}:filler`,
  journal: `${PREFIX}:journal`,
  relayLease: `${PREFIX}:relay2`,
  mark: `${PREFIX}:mark`,
  directory: `${PREFIX}:campaigns`,
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
  unscopedIdempotency: (key: IdempotencyKey) => `${PREFIX}:i:${key}`,
  ruleBans: (hour: number) => `${PREFIX}:bans:${hour}`,
  order: (user: UserId, order: OrderId) => `${PREFIX}:d:${user}|${order}`,
  answer: (id: string) => `${PREFIX}:a:${id}`,
  device: (counted: string) => `${PREFIX}:t:${counted}`,
  attempts: (minute: number) => `${PREFIX}:n:${minute}`,
  failures: (caller: string) => `${PREFIX}:f:${caller}`,
  used: (id: string) => `${PREFIX}:u:${id}`,
  attestedKey: (id: string) => `${PREFIX}:k:${id}`,
  attestedUses: (id: string) => `${PREFIX}:kn:${id}`,
  accounts: (where: string) => `${PREFIX}:w:${where}`,
  sweep: (name: string) => `${PREFIX}:s:${name}`,
  quota: (name: string) => `${PREFIX}:q:${name}`,
} as const satisfies Record<keyof typeof KEY_DOCS, unknown>;

/** The keys of one campaign, and those that all campaigns share, by the names that scripts have for them. */
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
    filler: keys.filler,
    epoch: keys.epoch,
  };
}

/** The keys of a campaign and its records, but for the references of payments. */
export function campaignKeys(product: ProductId): string[] {
  const { campaign, people, reservations, deadlines, line, presence, codes, holders } = saleKeys(product);
  return [campaign, people, reservations, deadlines, line, presence, codes, holders];
}

/** Prefix of BullMQ's own keys; the braces keep a queue's keys together. */
export const BULLMQ_PREFIX = `{${PREFIX}:queues}`;
