import { estimatedWaitSeconds } from '../../shared/domain/estimate.js';
import {
  campaignNoOf,
  type DeviceId,
  type IdempotencyKey,
  newReservationPrefix,
  type OrderId,
  type ProductId,
  reservationIdOf,
  type UserId,
} from '../../shared/domain/ids.js';
import { pollAfterSeconds } from '../../shared/domain/polling.js';
import { timeOrNull } from '../../shared/domain/time.js';
import { Problem } from '../../shared/errors/catalogue.js';
import {
  type Durability,
  decodeIdempotencyRecord,
  type IdempotencyRecord,
} from '../../shared/redis/idempotency-record.js';
import type { CouponClaim, ReserveInput } from '../../shared/sale/reserve-call.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';
import { CLAIM_REFUSALS } from '../../shared/sale/scripts/claim-refusals.js';
import type { ReserveOutcome } from '../../shared/sale/scripts/reserve.js';
import type { Tickets } from '../guards/auth/ticket.js';
import { LocalQuota } from '../guards/limits/local-quota.js';
import { rateLimited } from '../guards/limits/quotas.js';
import { unavailable } from '../http/problem.js';
import { invalidFields } from '../http/validate.js';
import type { Acknowledgement } from './acknowledgement.js';
import type { ClaimRefusal, PlaceData } from './claim.contract.js';

export type ClaimRequest = {
  product: ProductId;
  user: UserId;
  qty: number;
  key: IdempotencyKey;
  /** null = made from the reservation id */
  order: OrderId | null;
  /** null = no token; its signature was checked before */
  token: { expiresAtSeconds: number } | null;
  device: DeviceId | null;
  /** Whether the caller has proved to be the user (ShopperIdentity). */
  proven: boolean;
  /** Device that the caller has proved to use (`provenDevice`); null = none. */
  holderDevice: DeviceId | null;
  /** What the device's quota counts (RequestDevice). */
  counted: string | null;
  /** Where the request comes from (`networkOf`). */
  network: string;
  trace: string;
  /** null = by no code */
  coupon: CouponClaim | null;
};

/** What is promised: a unit, or a place in the line. */
export type HeldUnit = {
  kind: 'held';
  reservationId: string;
  orderId: string;
  /** RFC 3339; null = nothing to pay, redeemed at once */
  payBefore: string | null;
  ticket: string;
  durability: Durability;
  campaignNo: number;
  /** Number of the code; null = none. */
  code: number | null;
  /** Version of the terms it was made under. */
  terms: number;
};
export type Place = { kind: 'place'; data: PlaceData };

export type ClaimResult = {
  /** Whether this is the first answer to the key, told again. */
  replayed: boolean;
  promise: HeldUnit | Place;
  /** Calls that the device has left in its window; null for a replay, which costs none. */
  quotaLeft: number | null;
};

export type ClaimLimits = {
  deviceQuota: number;
  deviceWindowMs: number;
  placeCalls: number;
  placeWindowMs: number;
  callersKept: number;
};

/** The user was judged by terms that are not in force any more, or not at all: judge again. */
export class TermsChanged extends Error {
  override readonly name = 'TermsChanged';
  constructor(
    /** In force when the script decided. */
    readonly version: number,
  ) {
    super(`the terms in force have version ${version}`);
  }
}

/** Nobody is told to wait longer than this for an opening; clients count down by `starts_at`. */
const OPENING_RETRY_MAX_SECONDS = 3_600;

type Promised = 'reserved' | 'queued' | 'waiting' | 'replayed';

/** Claims a unit for a user: one atomic decision in Redis. Checkout and coupons both stand on it. */
export class Claim {
  /**
   * Promises by campaign and user, and by network where the user is not proven. Each costs a record, a journal entry and a row, so a
   * user who takes and gives back, or sends new keys while waiting, gets so many beyond the allowance. A replay is none.
   */
  readonly #promises: LocalQuota;
  /** Calls without a token by user and network: what they name as their device proves nothing. */
  readonly #unproven: LocalQuota;

  constructor(
    readonly sale: SaleStore,
    readonly tickets: Tickets,
    readonly acknowledgement: Acknowledgement,
    readonly limits: ClaimLimits,
  ) {
    this.#promises = new LocalQuota(limits.placeCalls, limits.placeWindowMs, limits.callersKept);
    this.#unproven = new LocalQuota(limits.deviceQuota, limits.deviceWindowMs, limits.callersKept);
  }

  /**
   * @param terms that the user was judged by, as the script takes them (ReserveInput). Not a field of the request: copying that for one
   *   more field costs as much as parsing the body it came from
   * @throws Problem for every refusal
   * @throws TermsChanged for a claim that was judged by other terms, see judgedClaim
   * @throws EngineUnavailable when Redis did not answer; a repetition with the same key tells what became of it
   */
  async run(request: ClaimRequest, terms: number): Promise<ClaimResult> {
    const ticketKey = this.tickets.signingKeyId;
    const { product, user, qty, order, token, key, device, proven, holderDevice, counted, trace, coupon } = request;
    const reservationPrefix = newReservationPrefix();
    const caller = proven ? `${product}|${user}` : `${product}|${user}|${request.network}`;
    if (token === null) await this.#requireQuota(request);
    const input = {
      product,
      user,
      qty,
      reservationPrefix,
      order,
      token,
      key,
      ticketKey,
      device,
      proven,
      holderDevice,
      counted,
      trace,
      terms,
      coupon,
      // Counted before it is decided, since others of the same caller may be decided in the same call.
      newKeys: this.limits.placeCalls - this.#promises.count(caller) + 1,
    };
    const outcome = await this.#reserve(input, caller);
    switch (outcome.kind) {
      case 'reserved':
        if (this.#mustWait(outcome.durable)) await this.acknowledgement.held(outcome);
        return first(
          this.#held(outcome, this.acknowledgement.durabilityOf(outcome.durable), ticketKey, user),
          outcome.quotaLeft,
        );
      case 'queued':
      case 'waiting': {
        if (this.#mustWait(outcome.durable)) await this.acknowledgement.held(outcome);
        const place =
          outcome.kind === 'queued' ? reservationIdOf(reservationPrefix, outcome.no) : outcome.reservationId;
        const ticket = place === '' ? null : this.tickets.sign(outcome.no, user, place, ticketKey);
        return first(this.#place(outcome, ticket), outcome.quotaLeft);
      }
      case 'replayed': {
        // The first response may never have arrived, so a repetition waits for the same.
        const remembered = decodeIdempotencyRecord(outcome.answer);
        if (this.#mustWait(outcome.durable))
          await this.acknowledgement.held({ durable: outcome.durable, journalId: '' });
        if (remembered.kind === 'queued') {
          const { ticketKey: signer, reservationId } = remembered;
          const ticket = signer === null ? null : this.tickets.sign(outcome.no, user, reservationId, signer);
          return replay(this.#place(remembered, ticket));
        }
        return replay(this.#held(remembered, remembered.durability, remembered.ticketKey, user));
      }
      case 'terms_changed':
        throw new TermsChanged(outcome.version);
      default:
        throw this.#refusal(outcome, caller);
    }
  }

  /** Only a promise stays counted. */
  async #reserve(input: ReserveInput, caller: string): Promise<ReserveOutcome> {
    let isPromise = false;
    try {
      const outcome = await this.sale.claims.reserve(input);
      isPromise = outcome.kind === 'reserved' || outcome.kind === 'queued' || outcome.kind === 'waiting';
      return outcome;
    } finally {
      if (!isPromise) this.#promises.uncount(caller);
    }
  }

  /** @throws Problem 429 when the user has made too many calls without a token from one network, and this is no repetition */
  async #requireQuota({ user, network, key }: ClaimRequest): Promise<void> {
    const waitMs = this.#unproven.take(`${user}|${network}`);
    if (waitMs === 0 || (await this.sale.reader.remembers(user, key))) return;
    const { deviceQuota, deviceWindowMs } = this.limits;
    throw rateLimited('device', deviceQuota, deviceWindowMs / 1000, waitMs);
  }

  /** Most responses wait for nothing; the promise of an await is spared them. */
  #mustWait(durable: boolean): boolean {
    return durable || !this.acknowledgement.isImmediate;
  }

  #held(
    answer: Omit<Extract<IdempotencyRecord, { kind: 'completed' }>, 'kind' | 'ticketKey' | 'durability'>,
    durability: Durability,
    ticketKey: string,
    user: UserId,
  ): HeldUnit {
    const { reservationId, orderId, dueMs, code, terms } = answer;
    const campaignNo = campaignNoOf(reservationId);
    return {
      kind: 'held',
      reservationId,
      orderId,
      payBefore: timeOrNull(dueMs),
      ticket: this.tickets.sign(campaignNo, user, reservationId, ticketKey),
      durability,
      campaignNo,
      code,
      terms,
    };
  }

  /** @param ticket null = the place is another caller's, and so is its ticket */
  #place(
    answer: Omit<Extract<IdempotencyRecord, { kind: 'queued' }>, 'kind' | 'ticketKey' | 'reservationId'>,
    ticket: string | null,
  ): Place {
    const { position, queueSize, paceMs, presenceMs } = answer;
    return {
      kind: 'place',
      data: {
        status: 'queued',
        position,
        queue_size: queueSize,
        estimated_wait_seconds: estimatedWaitSeconds(position, paceMs),
        ...(ticket === null ? {} : { ticket }),
        poll_after_seconds: pollAfterSeconds(position, presenceMs),
      },
    };
  }

  /** Its codes are those of the contracts (claim.contract.ts). */
  #refusal(
    outcome: Exclude<ReserveOutcome, { kind: Promised | 'terms_changed' }>,
    caller: string,
  ): Problem<ClaimRefusal> {
    const { deviceQuota, deviceWindowMs, placeCalls, placeWindowMs } = this.limits;
    switch (outcome.kind) {
      case 'rate_limited':
        return rateLimited('device', deviceQuota, deviceWindowMs / 1000, outcome.retryMs);
      case 'place_limited':
        return rateLimited('place', placeCalls, placeWindowMs / 1000, this.#promises.waitOf(caller));
      case 'journal_full':
        return unavailable();
      case 'not_started':
        return new Problem('campaign_not_started', 'The sale opens at starts_at.', {
          members: { starts_at: timeOrNull(outcome.startsAtMs) },
          retryAfterSeconds: Math.min(OPENING_RETRY_MAX_SECONDS, (outcome.startsAtMs - outcome.nowMs) / 1000),
        });
      case 'qty_above_max':
        return invalidFields({ pointer: '#/qty', detail: `must be at most ${outcome.maxQty} in this campaign` });
      case 'not_combinable':
        return new Problem('not_combinable', 'The order has a code that this one does not combine with.');
      default: {
        const refused = CLAIM_REFUSALS[outcome.kind];
        return new Problem(refused.code, refused.detail, 'extras' in refused ? refused.extras : {});
      }
    }
  }
}

function first(promise: HeldUnit | Place, quotaLeft: number): ClaimResult {
  return { replayed: false, promise, quotaLeft };
}

function replay(promise: HeldUnit | Place): ClaimResult {
  return { replayed: true, promise, quotaLeft: null };
}
