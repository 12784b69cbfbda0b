import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { JournalEntry } from '../../shared/contracts/journal.js';
import type { Campaign } from '../../shared/domain/campaign.js';
import {
  type DeviceId,
  type IdempotencyKey,
  newReservationPrefix,
  type OrderId,
  type ProductId,
  type ReservationId,
  type UserId,
} from '../../shared/domain/ids.js';
import { keys } from '../../shared/redis/keys.js';
import type { CouponClaim, ReserveInput } from '../../shared/sale/reserve-input.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';
import type { RemovedBy } from '../../shared/sale/waiting-line.js';
import {
  type CampaignInRedis,
  type PersonInRedis,
  type ReservationInRedis,
  readCampaign,
  termsInRedis,
} from './audit.js';
import type { Sale } from './sale.js';

export type RedeemOptions = Omit<CheckoutOptions, 'coupon'> & Partial<Pick<CouponClaim, 'once'>>;

export type CheckoutOptions = {
  qty?: number;
  key?: string;
  order?: string;
  /** Unix seconds at which the token expires; null = no token. */
  tokenExpiresAt?: number | null;
  device?: string | null;
  ticketKey?: string;
  proven?: boolean;
  holderDevice?: string;
  newKeys?: number;
  trace?: string;
  metadata?: string;
  /** Version that was judged; negative = the audience does not match, 0 = not judged. */
  terms?: number;
  coupon?: CouponClaim;
  /** Of a divided campaign. */
  bucket?: ReserveInput['bucket'];
};

/** One campaign in Redis and what people do with it. */
export class TestCampaign {
  /** Reservations whose deadline a test has moved in Redis alone. */
  readonly moved = new Set<string>();

  constructor(
    readonly sale: Sale,
    readonly terms: Campaign,
    readonly store: SaleStore = sale.store,
  ) {}

  get product(): ProductId {
    return this.terms.productId;
  }

  /** The same campaign through another store: other limits, another connection, a stopped clock. */
  through(store: SaleStore): TestCampaign {
    return new TestCampaign(this.sale, this.terms, store);
  }

  /** The same campaign with the clock of its scripts at this time. */
  at(nowMs: number): TestCampaign {
    return this.through(this.sale.storeAt(nowMs));
  }

  checkout(user: string, options: CheckoutOptions = {}) {
    const expiresAt = options.tokenExpiresAt ?? null;
    return this.store.claims.reserve({
      claim: {
        product: this.product,
        user: user as UserId,
        qty: options.qty ?? 1,
        order: (options.order ?? null) as OrderId | null,
        token: expiresAt === null ? null : { expiresAtSeconds: expiresAt },
        key: (options.key ?? newKey()) as IdempotencyKey,
        device: (options.device ?? null) as DeviceId | null,
        proven: options.proven ?? false,
        holderDevice: (options.holderDevice ?? null) as DeviceId | null,
        counted: options.device ?? null,
        network: '',
        trace: options.trace ?? '',
        metadata: options.metadata ?? null,
        coupon: options.coupon ?? null,
      },
      reservationPrefix: newReservationPrefix(),
      ticketKey: options.ticketKey ?? 't1',
      newKeys: options.newKeys ?? 60,
      terms: options.terms ?? 0,
      bucket: options.bucket ?? null,
    });
  }

  /** Redeems a code, judged by the terms in force. @param code its number; 0 = the campaign's one code */
  redeem(user: string, code: number, options: RedeemOptions = {}) {
    const { terms = this.terms.termsVersion, once = null, ...rest } = options;
    return this.checkout(user, { ...rest, terms, coupon: { code, once } });
  }

  /** Redeems a code and gets a unit. @returns the reservation id */
  async use(user: string, code: number, options: RedeemOptions = {}): Promise<string> {
    const outcome = await this.redeem(user, code, options);
    if (outcome.kind !== 'reserved') throw new Error(`${user} got ${JSON.stringify(outcome)} for code ${code}`);
    return outcome.reservationId;
  }

  /** Checks out and gets a unit. @returns the reservation id */
  async take(user: string, options: CheckoutOptions = {}): Promise<string> {
    const outcome = await this.checkout(user, options);
    if (outcome.kind !== 'reserved') throw new Error(`${user} got ${JSON.stringify(outcome)} and no unit`);
    return outcome.reservationId;
  }

  /** Checks out and gets into line. @returns the position */
  async join(user: string, options: CheckoutOptions = {}): Promise<number> {
    const outcome = await this.checkout(user, options);
    if (outcome.kind !== 'queued') throw new Error(`${user} got ${JSON.stringify(outcome)} and no place in the line`);
    return outcome.position;
  }

  confirm(reservation: string, payment = '', trace = '', actor = '') {
    return this.store.reservations.confirm(this.product, reservation as ReservationId, payment, { actor, trace });
  }
  release(reservation: string, holder: string | null = null, reason = '', trace = '', keep = 0, actor = '') {
    return this.store.reservations.release(
      this.product,
      reservation as ReservationId,
      holder as UserId | null,
      reason,
      { actor, trace },
      keep,
    );
  }
  extend(reservation: string, extendMs = 60_000, trace = '') {
    return this.store.reservations.extend(this.product, reservation as ReservationId, extendMs, { actor: '', trace });
  }
  refund(reservation: string, trace = '', keep = 0) {
    return this.store.reservations.refund(this.product, reservation as ReservationId, { actor: '', trace }, keep);
  }
  void(reservation: string, unit: Parameters<SaleStore['reservations']['void']>[2], reason = 'a_constraint') {
    return this.store.reservations.void(this.product, reservation as ReservationId, unit, reason);
  }
  expire(limit = 100) {
    return this.store.reservations.expire(this.product, limit);
  }
  tend({ groupWaited = false, settled = false } = {}, limit = 100) {
    return this.store.line.maintain(this.product, limit, groupWaited ? 0 : DAY_MS, settled ? 0 : DAY_MS);
  }
  heartbeat(...users: string[]) {
    return this.store.line.heartbeat(
      this.product,
      users.map((user) => [user as UserId, 0]),
    );
  }
  promote(limit = 100) {
    return this.store.line.promote(this.product, limit);
  }
  leave(user: string, trace = '', place: string | null = null, by: RemovedBy | null = null) {
    return this.store.line.leave(this.product, user as UserId, place as ReservationId | null, trace, by);
  }
  standing(user: string, place: string | null = null) {
    return this.store.line.standing(this.product, user as UserId, place as ReservationId | null);
  }
  positions(users: readonly string[]) {
    return this.store.line.positions(this.product, users as readonly UserId[]);
  }
  noteElsewhere(what: 'units' | 'none', keepMs = 5_000) {
    return this.store.line.noteElsewhere(this.product, what, keepMs);
  }
  lineHead(limit = 20) {
    return this.store.line.head(this.product, limit);
  }
  checkRedeemable(user: string, code: number) {
    return this.store.claims.checkRedeemable(this.product, user as UserId, code);
  }
  /** The campaign has so many codes in all from here on. */
  addCodes(codes: number) {
    return this.store.campaigns.addCodes(this.product, codes);
  }
  setStatus(action: Parameters<SaleStore['campaigns']['setStatus']>[1], actor = 'tester', request = 'request-1') {
    return this.store.campaigns.setStatus(this.product, action, actor, request);
  }
  restock(
    delta: number,
    options: { limit?: number; key?: string; actor?: string; request?: string; back?: boolean; final?: boolean } = {},
  ) {
    const { limit = 100, key = null, actor = 'tester', request = 'request-1', ...more } = options;
    return this.store.campaigns.restock(this.product, delta, limit, key as IdempotencyKey | null, actor, request, more);
  }
  /** Changes terms in Redis as the worker carries them, in a version later than any before. */
  amend(terms: Partial<Campaign>) {
    Object.assign(this.terms, terms, { termsVersion: this.terms.termsVersion + 1 });
    return this.store.campaigns.updateTerms(this.terms);
  }

  stock() {
    return this.store.reader.stock(this.product);
  }

  inRedis(): Promise<CampaignInRedis> {
    return readCampaign(this.sale.redis, this.product);
  }
  async reservation(id: string): Promise<ReservationInRedis | undefined> {
    return (await this.inRedis()).reservations.get(id);
  }
  async person(user: string): Promise<PersonInRedis | undefined> {
    return (await this.inRedis()).people.get(user);
  }
  /** Numbers of the codes that are used. */
  async usedCodes(): Promise<number[]> {
    return (await this.inRedis()).usedCodes;
  }
  /** Users in the order of the line. */
  async line(): Promise<string[]> {
    return (await this.inRedis()).line.map(({ user }) => user);
  }

  /** What the journal has of this campaign, oldest first. */
  async entries(): Promise<JournalEntry[]> {
    return (await this.sale.entries()).filter(({ no }) => no === this.terms.no);
  }

  /** The latest entries without their ids, which a test cannot know beforehand. */
  async lastEntries(count: number): Promise<object[]> {
    return (await this.entries()).slice(-count).map(({ journalId: _, ...entry }) => entry);
  }

  /** Writes fields of the campaign as they would be at another time. */
  async set(fields: Record<string, string | number>): Promise<void> {
    const key = keys.campaign(this.product);
    const terms = await termsInRedis(this.sale.redis, this.product);
    const others = Object.entries(fields).filter(([name]) => !(name in terms));
    const packed = Object.entries(terms).map(([name, value]) => fields[name] ?? value);
    await this.sale.redis.hset(key, { ...Object.fromEntries(others), terms: packed.join('|') });
  }

  /** The state after archiving, before any recall. */
  async pretendArchived(): Promise<void> {
    await this.set({ status: 'closed', archived: '1-1@1' });
  }

  /** Moves a reservation's deadline, as if it had been made at another time. */
  async setDeadline(id: string, dueMs: number): Promise<void> {
    this.moved.add(id);
    await setDeadline(this.sale.redis, this.product, id, dueMs);
  }

  /** Makes a waiting user absent: they were last seen before this campaign counts users as present. */
  async letPresenceLapse(user: string): Promise<void> {
    await missUser(this.sale.redis, this.product, user);
  }

  /** Ends the time for which the place of a user who stepped back is kept. */
  async letPlaceLapse(user: string): Promise<void> {
    await this.sale.redis.zadd(keys.presence(this.product), 'XX', -1, user);
  }

  /** The deadline of a reservation passes. */
  async letDeadlinePass(id: string): Promise<void> {
    await this.setDeadline(id, (await this.sale.nowMs()) - 1);
  }
}

async function setDeadline(redis: Redis, product: ProductId, id: string, dueMs: number): Promise<void> {
  const record = (await readCampaign(redis, product)).reservations.get(id);
  if (!record) throw new Error(`there is no reservation ${id}`);
  const { state, user, qty, slot, lineNo, order, code, reduced } = record;
  const packed = [state, user, qty, slot, dueMs, lineNo, order, code, ...(reduced ? [reduced] : [])].join('|');
  await redis.hset(keys.reservations(product), id, packed);
  if (state === 'reserved') await redis.zadd(keys.deadlines(product), dueMs, id);
}

/**
 * The deadlines of these reservations of a running service pass now. A test holds for a quarter of an hour and ends the
 * hold by this, because a busy machine may need seconds for what has to happen before.
 */
export async function expireNow(redis: Redis, product: string, ...reservations: string[]): Promise<void> {
  const dueMs = (await nowMs(redis)) - 1;
  for (const id of reservations) await setDeadline(redis, product as ProductId, id, dueMs);
}

/** A waiting user of a running service was last seen before its campaign counts users as present. */
export async function missUser(redis: Redis, product: string, user: string): Promise<void> {
  const presenceMs = Number((await termsInRedis(redis, product as ProductId)).presence_ms);
  const seen = (await nowMs(redis)) - (presenceMs || HOUR_MS) - 1;
  await redis.zadd(keys.presence(product as ProductId), 'XX', seen, user);
}

/** @returns milliseconds since 1970 by the clock of Redis */
async function nowMs(redis: Redis): Promise<number> {
  const [seconds, micros] = await redis.time();
  return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

export const newKey = (): string => `key-${randomUUID()}`;
