import type { Redis } from 'ioredis';
import { LRUCache } from 'lru-cache';
import type { Campaign, CampaignStatus, Stock } from '../domain/campaign.js';
import { CAMPAIGN_STATUSES, MAX_UNITS } from '../domain/campaign.js';
import {
  type CampaignNo,
  campaignNoOf,
  type DeviceId,
  type IdempotencyKey,
  type OrderId,
  orderIdOf,
  type ProductId,
  type ReservationId,
  type UserId,
} from '../domain/ids.js';
import { ContractError, EngineUnavailable } from '../errors/faults.js';
import { answeredEntry, queuedEntry, requestOf, reservedEntry } from './checkout-entries.js';
import { parseEntry } from './journal.js';
import { claimKeys, keys, OPERATORS } from './keys.js';
import { withLiveClaims } from './order-claims.js';
import { decided, type Missed, notQueued, type Recall } from './recall.js';
import { decodeReservation, type ReservationRecord } from './reservation-record.js';
import type { OutcomeOf, ScriptRunner, WithoutEntries } from './script-runner.js';
import { archiveScript, forgetAnswerScript, recallScript } from './scripts/archive.js';
import {
  type AddCodesOutcome,
  type AmendOutcome,
  addCodesScript,
  amendScript,
  type LoadCampaignOutcome,
  loadCampaignScript,
  type RejournalOutcome,
  type RestockOutcome,
  rejournalScript,
  restockScript,
  type SetStatusOutcome,
  type StatusAction,
  setStatusScript,
} from './scripts/campaign.js';
import {
  type AppraiseOutcome,
  appraiseScript,
  checkOrderClaimScript,
  type ReserveOutcome,
  reserveScript,
} from './scripts/checkout.js';
import { appendEventsScript } from './scripts/events.js';
import { beginFillScript, beginHistoryScript, endFillScript, fillScript } from './scripts/fill.js';
import {
  type AttendOutcome,
  attendScript,
  type ExpireOutcome,
  expireScript,
  type LeaveOutcome,
  leaveScript,
  type PositionsOutcome,
  type PromoteOutcome,
  positionsScript,
  promoteScript,
  type StandingOutcome,
  standingScript,
  type TendLineOutcome,
  tendLineScript,
} from './scripts/line.js';
import { type LineOutcome, lineScript } from './scripts/line-head.js';
import {
  type ConfirmOutcome,
  confirmScript,
  type RefundOutcome,
  type ReleaseOutcome,
  refundScript,
  releaseScript,
  type VoidOutcome,
  voidScript,
} from './scripts/payment.js';
import type { UnpersistedPromises } from './unpersisted-promises.js';

/** Every script, for loading and for the tests that compare headers with contracts. */
export const SALE_SCRIPTS = [
  reserveScript,
  confirmScript,
  releaseScript,
  refundScript,
  voidScript,
  expireScript,
  promoteScript,
  leaveScript,
  tendLineScript,
  attendScript,
  standingScript,
  positionsScript,
  loadCampaignScript,
  amendScript,
  setStatusScript,
  restockScript,
  rejournalScript,
  addCodesScript,
  appraiseScript,
  checkOrderClaimScript,
  lineScript,
  archiveScript,
  recallScript,
  forgetAnswerScript,
  beginFillScript,
  fillScript,
  endFillScript,
  beginHistoryScript,
  appendEventsScript,
] as const;

export type ReserveInput = {
  product: ProductId;
  user: UserId;
  qty: number;
  reservationPrefix: string;
  /** null = made from the reservation id */
  order: OrderId | null;
  /** null = no token was sent; its signature is checked before, its age by the script */
  token: { expiresAtSeconds: number } | null;
  key: IdempotencyKey;
  ticketKey: string;
  /** For the record; null = unknown */
  device: DeviceId | null;
  /** Whether the caller has proved to be the user. */
  proven: boolean;
  /** Device that a genuine token is for; null = none, or its fingerprint was derived. */
  holderDevice: DeviceId | null;
  /** What the device's quota counts: the device, or what stands for one; null = no quota applies */
  counted: string | null;
  trace: string;
  /**
   * Version of the terms that the user was judged by, negative when their audience excludes the user; 0 = not judged, which
   * is enough for a campaign without an audience.
   */
  terms: number;
  /** null = a checkout, by no code */
  coupon: CouponClaim | null;
  /** Promises that the caller may still get under new keys, beyond as many as the user may have. */
  newKeys: number;
};

/** What a redemption by code adds to a checkout. */
export type CouponClaim = {
  /** Number of the code; 0 = the campaign's one code. */
  code: number;
  /** null = no one-time token; its signature is checked before, its age and use by the script */
  once: { nonce: string; expiresAtMs: number } | null;
};

export type SaleLimits = {
  idempotencyTtlMs: number;
  journalLimitEntries: number;
  deviceQuota: number;
  deviceWindowMs: number;
  /** How long claims on an order are kept; afterwards Postgres alone decides what combines. */
  orderMemoryMs: number;
  /** Replicas that callers wait for before they answer; 0 = none. */
  waitReplicas: number;
};

/** `endsAtMs` 0 = open end. */
export type Schedule = { status: CampaignStatus; startsAtMs: number; endsAtMs: number };

/** What Postgres knows of a campaign's counters when it is put into Redis. */
export type KnownCounters = { held: number; redeemed: number; burned: number; waiting: number; lastLineNo: number };
const NOTHING_YET: KnownCounters = { held: 0, redeemed: 0, burned: 0, waiting: 0, lastLineNo: 0 };

/** By which pass a campaign was archived, and how many reservations it ever made. */
export type Archived = { pass: string; promised: number };

/**
 * The sale in Redis: one method per script. Each is one atomic decision; nothing here reads first and writes second.
 * Every method throws EngineUnavailable when Redis cannot be used, and then the caller does not know whether it was done.
 */
export class SaleStore {
  constructor(
    readonly scripts: ScriptRunner,
    readonly limits: SaleLimits,
    /** Keeps every journal entry that a call has appended until Postgres has it; null = none are kept. */
    readonly promises: UnpersistedPromises | null = null,
    /** Null for those who never meet somebody of an archived campaign, or take him for unknown. */
    readonly recall: Recall | null = null,
  ) {}

  /** Whether the response to a key is remembered, so that a request with it is a repetition. */
  async remembers(user: UserId, key: IdempotencyKey): Promise<boolean> {
    const names = [keys.idempotency(user, key), keys.unscopedIdempotency(key)];
    return (await this.#read(() => this.scripts.redis.exists(...names))) > 0;
  }

  async reserve(input: ReserveInput): Promise<ReserveOutcome> {
    let outcome = await this.#reserve(input);
    if (outcome.kind === 'not_combinable') {
      outcome = await withLiveClaims(this, input.user, orderOf(input), outcome, () => this.#reserve(input));
    }
    if (outcome.kind === 'archived') return this.#replayOrEnded(input, outcome);
    this.#rememberCheckout(input, outcome);
    return outcome;
  }

  #reserve(input: ReserveInput): Promise<OutcomeOf<typeof reserveScript>> {
    const { product, coupon } = input;
    const { limits } = this;
    return this.scripts.run(
      reserveScript,
      [
        ...saleKeys(product),
        keys.journal,
        keys.idempotency(input.user, input.key),
        keys.unscopedIdempotency(input.key),
        keys.device(input.counted ?? ''),
        keys.once(product, coupon?.once?.nonce ?? ''),
        keys.holders(product),
        keys.epoch,
        keys.order(input.user, orderOf(input)),
      ],
      [
        input.user,
        input.qty,
        input.reservationPrefix,
        input.order ?? '',
        input.token ? 'genuine' : 'none',
        input.token?.expiresAtSeconds ?? 0,
        input.key,
        limits.idempotencyTtlMs,
        input.ticketKey,
        limits.journalLimitEntries,
        input.device ?? '',
        input.counted === null ? 0 : limits.deviceQuota,
        limits.deviceWindowMs,
        input.trace,
        requestOf(input),
        coupon?.code ?? '',
        input.terms,
        coupon?.once?.expiresAtMs ?? 0,
        limits.waitReplicas,
        input.proven ? 1 : 0,
        input.holderDevice ?? '',
        limits.orderMemoryMs,
        input.newKeys,
      ],
    );
  }

  /** In an archived campaign: the first answer again, if this key had one; else it is over. */
  #replayOrEnded(input: ReserveInput, missed: Missed): Promise<ReserveOutcome> {
    return decided<OutcomeOf<typeof reserveScript>>(
      () => this.#reserve(input),
      (recall) => recall.answer(input.product, input.user, input.key),
      () => ({ kind: 'ended' }),
      this.recall,
      missed,
    );
  }

  confirm(product: ProductId, reservation: ReservationId, paymentRef: string, trace: string): Promise<ConfirmOutcome> {
    return this.#of(product, reservation, () => this.#confirm(product, reservation, paymentRef, trace));
  }

  /** A payment that comes too late takes a unit again only if its order still combines, whose key the script has to ask for. */
  async #confirm(product: ProductId, reservation: ReservationId, paymentRef: string, trace: string) {
    const ask = (orderState: 'unknown' | 'known' | 'taken', user = '' as UserId, order = '' as OrderId) =>
      this.#keep(
        this.scripts.run(
          confirmScript,
          [...movingKeys(product), keys.order(user, order), keys.payments(product)],
          [reservation, paymentRef, trace, orderState, this.limits.orderMemoryMs],
        ),
      );
    const first = await ask('unknown');
    if (first.kind !== 'order_needed') return first as Confirmed;
    const { user, order } = first;
    const again = () => ask('known', user, order);
    const reply = await withLiveClaims(this, user, order, await again(), again);
    return (reply.kind === 'not_combinable' ? await ask('taken') : reply) as Confirmed;
  }

  /** Whether a reservation or a place still takes part in its order; one that has ended is removed from it. */
  async checkOrderClaim(product: ProductId, reservation: ReservationId, user: UserId, order: OrderId) {
    const ask = (unknown: 0 | 1) =>
      this.scripts.run(
        checkOrderClaimScript,
        [
          keys.campaign(product),
          keys.people(product),
          keys.reservations(product),
          keys.line(product),
          keys.order(user, order),
          keys.epoch,
        ],
        [reservation, user, unknown],
      );
    const outcome = await this.#of(product, reservation, async () => {
      const reply = await ask(0);
      return reply.kind === 'archived' && !this.recall ? { kind: 'not_found' as const } : reply;
    });
    return outcome.kind === 'not_found' ? ask(1) : outcome;
  }

  /** @param holder the user a ticket names; null when a service asks, which may release anyone's */
  release(
    product: ProductId,
    reservation: ReservationId,
    holder: UserId | null,
    reason: string,
    trace: string,
  ): Promise<ReleaseOutcome> {
    return this.#of(product, reservation, () =>
      this.#keep(this.scripts.run(releaseScript, movingKeys(product), [reservation, holder ?? '', reason, trace])),
    );
  }

  refund(product: ProductId, reservation: ReservationId, trace: string): Promise<RefundOutcome> {
    return this.#of(product, reservation, () =>
      this.#keep(this.scripts.run(refundScript, movingKeys(product), [reservation, trace])),
    );
  }

  void(
    product: ProductId,
    reservation: ReservationId,
    unit: 'returns' | 'never_existed' | 'code_used',
    reason: string,
  ): Promise<VoidOutcome> {
    return this.#of(product, reservation, () =>
      this.#keep(this.scripts.run(voidScript, movingKeys(product), [reservation, unit, reason])),
    );
  }

  expire(product: ProductId, limit: number): Promise<ExpireOutcome> {
    return this.#keep(this.scripts.run(expireScript, movingKeys(product), [limit]));
  }

  promote(product: ProductId, limit: number): Promise<PromoteOutcome> {
    return this.#keep(this.scripts.run(promoteScript, movingKeys(product), [limit]));
  }

  /** @param place that is given up; null = whichever the user has */
  leave(product: ProductId, user: UserId, place: ReservationId | null, trace: string): Promise<LeaveOutcome> {
    return decided(
      () => this.#keep(this.scripts.run(leaveScript, movingKeys(product), [user, place ?? '', trace])),
      (recall, pass) => recall.person(product, user, pass),
      () => ({ kind: 'not_waiting' }),
      this.recall,
    );
  }

  /** @param groupWaitMs how long free units are kept for a group @param settleMs how long nobody must have had a chance */
  tendLine(product: ProductId, limit: number, groupWaitMs: number, settleMs: number): Promise<TendLineOutcome> {
    return this.#keep(this.scripts.run(tendLineScript, movingKeys(product), [limit, groupWaitMs, settleMs]));
  }

  /** Says who is there. @param seen at most 1000 users, and how many ms ago each was seen */
  attend(product: ProductId, seen: readonly (readonly [UserId, number])[]): Promise<AttendOutcome> {
    return this.scripts.run(
      attendScript,
      [keys.campaign(product), keys.line(product), keys.presence(product), keys.epoch],
      seen.flat(),
    );
  }

  /** @param place of a ticket: its unit, if there is one, is told; else, and for null, the user's last place or unit */
  standing(product: ProductId, user: UserId, place: ReservationId | null = null): Promise<StandingOutcome> {
    return decided(
      () =>
        this.scripts.run(
          standingScript,
          [keys.campaign(product), keys.people(product), keys.reservations(product), keys.line(product), keys.epoch],
          [user, place ?? ''],
        ),
      (recall, pass) => recall.person(product, user, pass),
      notQueued,
      this.recall,
    );
  }

  /** @param users at most 1000 */
  positions(product: ProductId, users: readonly UserId[]): Promise<PositionsOutcome> {
    return this.scripts.run(positionsScript, [keys.campaign(product), keys.line(product), keys.epoch], users);
  }

  /** The head of the line and why nobody is promoted from it. @param limit people, at most MAX_LINE_HEAD */
  line(product: ProductId, limit: number): Promise<LineOutcome> {
    return this.scripts.run(
      lineScript,
      [
        keys.campaign(product),
        keys.people(product),
        keys.line(product),
        keys.presence(product),
        keys.usedCodes(product),
        keys.epoch,
      ],
      [limit],
    );
  }

  /** What a redemption would meet now. @param code number of the code; 0 = the campaign's one code */
  appraise(product: ProductId, user: UserId, code: number): Promise<AppraiseOutcome> {
    return this.scripts.run(
      appraiseScript,
      [keys.campaign(product), keys.people(product), keys.usedCodes(product), keys.epoch],
      [user, code],
    );
  }

  /** @param codes how many codes the campaign has in all */
  addCodes(product: ProductId, codes: number): Promise<AddCodesOutcome> {
    return this.scripts.run(addCodesScript, [keys.campaign(product), keys.epoch], [codes]);
  }

  /** Remembers each journal entry that a call has appended. @returns the outcome without them */
  async #keep<Outcome extends { kind: string; entries?: readonly string[] }>(
    call: Promise<Outcome>,
  ): Promise<WithoutEntries<Outcome>> {
    const { entries, ...outcome } = await call;
    for (const text of entries ?? []) {
      const journalId = text.slice(2, text.indexOf('"', 2));
      this.promises?.remember(journalId, () => parseEntry(text));
    }
    return outcome as WithoutEntries<Outcome>;
  }

  #rememberCheckout(input: ReserveInput, outcome: ReserveOutcome): void {
    const { promises, limits } = this;
    if (!promises) return;
    if (outcome.kind === 'reserved') {
      promises.remember(outcome.journalId, () =>
        reservedEntry(input, outcome, campaignNoOf(outcome.reservationId), limits.waitReplicas),
      );
    } else if (outcome.kind === 'queued') {
      promises.remember(outcome.journalId, () => queuedEntry(input, outcome));
    } else if (outcome.kind === 'waiting' && outcome.journalId !== '') {
      promises.remember(outcome.journalId, () => answeredEntry(input, outcome));
    }
  }

  /** Decides on a reservation; one that nobody knows in an archived campaign either is not there. */
  #of<Reply extends { kind: string }>(
    product: ProductId,
    reservation: string,
    ask: () => Promise<Reply>,
  ): Promise<Exclude<Reply, Missed>> {
    return decided(
      ask,
      (recall, pass) => recall.reservation(product, reservation, pass),
      () => ({ kind: 'not_found' }) as never,
      this.recall,
    );
  }

  /**
   * @param archived when only the campaign itself is put here, and its records stay in Postgres
   * @param token of the worker that fills Redis (RedisFill); null when Redis is in service
   * @throws FencedOut when this worker no longer fills Redis
   */
  load(
    campaign: Campaign,
    known: KnownCounters = NOTHING_YET,
    archived: Archived | null = null,
    token: string | null = null,
  ): Promise<LoadCampaignOutcome> {
    return this.scripts.run(
      loadCampaignScript,
      [keys.campaign(campaign.productId), keys.directory, keys.filler, keys.epoch],
      [
        campaign.no,
        campaign.productId,
        campaign.termsVersion,
        campaign.status,
        ...saleTerms(campaign),
        campaign.type,
        campaign.codes,
        campaign.totalLimit ?? -1,
        known.held,
        known.redeemed,
        known.burned,
        known.waiting,
        known.lastLineNo,
        archived?.pass ?? '',
        archived?.promised ?? 0,
        token ?? '',
      ],
    );
  }

  amend(campaign: Campaign): Promise<AmendOutcome> {
    return this.scripts.run(
      amendScript,
      [keys.campaign(campaign.productId), keys.epoch],
      [campaign.termsVersion, ...saleTerms(campaign)],
    );
  }

  /** @param reason for the audit log and the operator's page; "" = none is given */
  setStatus(
    product: ProductId,
    action: StatusAction,
    actor: string,
    requestId: string,
    reason = '',
  ): Promise<SetStatusOutcome> {
    return this.#keep(
      this.scripts.run(
        setStatusScript,
        [
          keys.campaign(product),
          keys.line(product),
          keys.presence(product),
          keys.journal,
          keys.news(product),
          keys.epoch,
        ],
        [action, actor, requestId, reason],
      ),
    );
  }

  /** @param key protects against a repeated call; null = none */
  restock(
    product: ProductId,
    delta: number,
    promoteLimit: number,
    key: IdempotencyKey | null,
    actor: string,
    requestId: string,
  ): Promise<RestockOutcome> {
    return this.#keep(
      this.scripts.run(
        restockScript,
        [
          ...movingKeys(product).slice(0, -1),
          keys.idempotency(OPERATORS, key ?? ('' as IdempotencyKey)),
          keys.unscopedIdempotency(key ?? ('' as IdempotencyKey)),
          keys.epoch,
        ],
        [delta, promoteLimit, key ?? '', this.limits.idempotencyTtlMs, actor, requestId, MAX_UNITS],
      ),
    );
  }

  /** Appends to the journal what Postgres lacks of a reservation. @param row what it has of it */
  rejournal(product: ProductId, reservation: string, row: 'missing' | 'reserved'): Promise<RejournalOutcome> {
    return this.#of(product, reservation, () =>
      this.scripts.run(
        rejournalScript,
        [keys.campaign(product), keys.reservations(product), keys.journal, keys.epoch],
        [reservation, row],
      ),
    );
  }

  /** Null when the campaign's records are in Redis, or the campaign is not. */
  async archived(product: ProductId): Promise<Archived | null> {
    const [pass, promised] = await this.#read(() =>
      this.scripts.redis.hmget(keys.campaign(product), 'archived', 'promised'),
    );
    return pass ? { pass, promised: Number(promised) } : null;
  }

  /** All counters in one read; null when the campaign is not in Redis. */
  async stock(product: ProductId): Promise<Stock | null> {
    const values = await this.#read(() =>
      this.scripts.redis.hmget(
        keys.campaign(product),
        'status',
        'total',
        'free',
        'held',
        'redeemed',
        'burned',
        'waiting',
      ),
    );
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
   * When a campaign sells, for those who may not know more; null when there is none.
   * @throws EngineUnavailable as `directory` does
   */
  async schedule(product: ProductId): Promise<Schedule | null> {
    const [status, startsAt, endsAt] = await this.#readFilled((redis) =>
      redis.hmget(keys.campaign(product), 'status', 'starts_at', 'ends_at'),
    );
    if (!status) return null;
    return { status: status as CampaignStatus, startsAtMs: Number(startsAt), endsAtMs: Number(endsAt) };
  }

  /** Every reservation of a campaign, a batch at a time; one may come twice while the campaign changes. */
  async *reservations(product: ProductId, batch: number): AsyncGenerator<ReadonlyMap<string, ReservationRecord>> {
    let cursor = '0';
    do {
      const [next, flat] = await this.#read(() =>
        this.scripts.redis.hscan(keys.reservations(product), cursor, 'COUNT', batch),
      );
      cursor = next;
      const found = new Map<string, ReservationRecord>();
      for (let i = 0; i + 1 < flat.length; i += 2) found.set(String(flat[i]), decodeReservation(String(flat[i + 1])));
      yield found;
    } while (cursor !== '0');
  }

  async reservationsById(product: ProductId, ids: readonly string[]): Promise<ReadonlyMap<string, ReservationRecord>> {
    if (ids.length === 0) return new Map();
    const texts = await this.#read(() => this.scripts.redis.hmget(keys.reservations(product), ...ids));
    const found = new Map<string, ReservationRecord>();
    for (const [i, id] of ids.entries()) {
      const text = texts[i];
      if (text) found.set(id, decodeReservation(text));
    }
    return found;
  }

  /**
   * Campaign number → product, of every campaign that Redis knows.
   * @throws EngineUnavailable as well while Redis is fresh and not filled: an empty directory would be a lie
   */
  async directory(): Promise<ReadonlyMap<number, ProductId>> {
    const entries = await this.#readFilled((redis) => redis.hgetall(keys.directory));
    return new Map(Object.entries(entries).map(([no, product]) => [Number(no), product as ProductId]));
  }

  /** The product of one campaign's number; null when there is none. @throws EngineUnavailable as `directory` does */
  async productOf(no: CampaignNo): Promise<ProductId | null> {
    return (await this.#readFilled((redis) => redis.hget(keys.directory, String(no)))) as ProductId | null;
  }

  async #readFilled<Value>(read: (redis: Redis) => Promise<Value>): Promise<Value> {
    const { redis, gate } = this.scripts;
    // In this order: where there is an epoch, the directory is whole.
    const [epoch, value] = await this.#read(() => Promise.all([redis.get(keys.epoch), read(redis)]));
    if (gate && epoch === null) {
      gate.distrust('it has no epoch');
      gate.assertOpen();
    }
    return value;
  }

  async #read<Value>(read: () => Promise<Value>): Promise<Value> {
    const { gate } = this.scripts;
    try {
      return await (gate ? gate.guard(read) : read());
    } catch (error) {
      throw new EngineUnavailable('redis', error instanceof Error ? error.message : String(error), { cause: error });
    }
  }
}

/** The order that a claim is for: the caller's, else the one that the script will make. */
const orderOf = ({ order, reservationPrefix }: ReserveInput): OrderId => order ?? orderIdOf(reservationPrefix);

/** Everything that `confirm` may reply but what it wants to know of the order. */
type Confirmed = ConfirmOutcome | Missed;

/** Products whose keys are kept ready; making them anew for every call would be a tenth of it. */
const READY_PRODUCTS = 1_000;
const readyKeys = new LRUCache<ProductId, readonly string[]>({ max: READY_PRODUCTS });

/** `claimKeys`, kept ready. */
function saleKeys(product: ProductId): readonly string[] {
  let ready = readyKeys.get(product);
  if (!ready) {
    ready = claimKeys(product);
    readyKeys.set(product, ready);
  }
  return ready;
}

/** Keys of every script that may hand a unit to the next in line. */
function movingKeys(product: ProductId): string[] {
  return [...saleKeys(product), keys.journal, keys.news(product), keys.epoch];
}

function saleTerms(campaign: Campaign): (string | number)[] {
  return [
    campaign.startsAt.getTime(),
    campaign.endsAt?.getTime() ?? 0,
    campaign.holdSeconds * 1000,
    campaign.perUserLimit,
    campaign.maxQty,
    campaign.waitingRoom.enabled ? 1 : 0,
    campaign.waitingRoom.maxSize,
    campaign.latePayment,
    campaign.refundPolicy,
    campaign.confirmation === 'durable' ? 1 : 0,
    campaign.requireAttestation ? 1 : 0,
    campaign.requireToken ? 1 : 0,
    (campaign.waitingRoom.presenceSeconds ?? 0) * 1000,
    campaign.hasAudience ? 0 : 1,
    campaign.stacking,
  ];
}
