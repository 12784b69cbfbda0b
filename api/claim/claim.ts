import type { BucketClaims } from '../../shared/buckets/bucket-claims.js';
import { estimatedWaitSeconds } from '../../shared/domain/estimate.js';
import {
  campaignNoOf,
  newReservationPrefix,
  type ProductId,
  reservationIdOf,
  type UserId,
} from '../../shared/domain/ids.js';
import { pollAfterSeconds } from '../../shared/domain/polling.js';
import { timeOrNull } from '../../shared/domain/time.js';
import { Problem } from '../../shared/errors/catalogue.js';
import { isSampled, type Tracing } from '../../shared/observability/tracing.js';
import {
  type Durability,
  decodeIdempotencyRecord,
  type IdempotencyRecord,
} from '../../shared/redis/idempotency-record.js';
import type { ClaimRequest, ReserveInput } from '../../shared/sale/reserve-input.js';
import type { Sales } from '../../shared/sale/sales.js';
import { CLAIM_REFUSALS } from '../../shared/sale/scripts/claim-refusals.js';
import type { ReserveOutcome, StoreReserveOutcome } from '../../shared/sale/scripts/reserve.js';
import type { Tickets } from '../guards/auth/ticket.js';
import { LocalQuota } from '../guards/limits/local-quota.js';
import { rateLimited } from '../guards/limits/quotas.js';
import { unavailable } from '../http/problem.js';
import { invalidFields } from '../http/validate.js';
import type { Acknowledgements } from './acknowledgement.js';
import type { ClaimRefusal, PlaceData } from './claim.contract.js';
import type { CommittedClaims } from './committed-claims.js';
import { tracedDecision } from './traced-decision.js';

/** A promised unit. */
export type HeldUnit = {
  kind: 'held';
  reservationId: string;
  orderId: string;
  /** RFC 3339; null = nothing to pay, redeemed at once */
  payBefore: string | null;
  /** The same in ms; 0 = nothing to pay */
  expiresAtMs: number;
  ticket: string;
  durability: Durability;
  campaignNo: number;
  /** Number of the code; null = no code. */
  code: number | null;
  /** Version of the terms under which the reservation was made. */
  terms: number;
  /** What the first response remembered of its link to pay (`PayLinks.markOf`); "" = it had none. */
  linkMark: string;
};
export type Place = { kind: 'place'; data: PlaceData };

export type ClaimResult = {
  /** Whether this is a replay of the first response to the key. */
  replayed: boolean;
  promise: HeldUnit | Place;
  /** Remaining calls of the device in its window; null = a replay, which does not count. */
  quotaLeft: number | null;
};

/** @returns a promise when it has to read Postgres first @throws Problem 503 */
export type RequireHome = (product: ProductId, user: UserId) => Promise<void> | null;

export type ClaimLimits = {
  deviceQuota: number;
  deviceWindowMs: number;
  placeCalls: number;
  placeWindowMs: number;
  callersKept: number;
};

/** The audience was evaluated for an outdated version of the terms, or not at all. It must be evaluated again. */
export class TermsChanged extends Error {
  override readonly name = 'TermsChanged';
  constructor(
    /** Version in force when the script decided. */
    readonly version: number,
  ) {
    super(`the terms in force have version ${version}`);
  }
}

/** Maximum of `Retry-After` before the opening. Clients use `starts_at` for a countdown. */
const OPENING_RETRY_MAX_SECONDS = 3_600;

/** The refusal before the opening. @param nowMs by the clock of Redis */
export const notStarted = (startsAtMs: number, nowMs: number): Problem<'campaign_not_started'> =>
  new Problem('campaign_not_started', 'The sale opens at `starts_at`.', {
    members: { starts_at: timeOrNull(startsAtMs) },
    retryAfterSeconds: Math.min(OPENING_RETRY_MAX_SECONDS, Math.max(1, (startsAtMs - nowMs) / 1000)),
  });

type Promised = 'reserved' | 'queued' | 'waiting' | 'replayed';

/** Claims a unit for a user by one atomic decision in Redis. Checkout and coupons both use it. */
export class Claim {
  /**
   * Counts promises by campaign and user, and also by network if the user is not proven. Each promise costs a record, a
   * journal entry and a row, so this limits users who claim and release repeatedly, or who send new keys while they
   * wait. A replay does not count.
   */
  readonly #promises: LocalQuota;
  /** Counts calls without a token by user and network, because the device that they name is not proven. */
  readonly #unproven: LocalQuota;

  constructor(
    readonly sales: Pick<Sales, 'of' | 'bucketOf' | 'map'>,
    readonly tickets: Tickets,
    readonly acknowledgements: Acknowledgements,
    readonly limits: ClaimLimits,
    readonly bucketClaims: Pick<BucketClaims, 'decide'>,
    readonly committed: CommittedClaims,
    readonly tracing: Tracing | null = null,
    /** Refuses users whom another region serves (api/regions/home-required.ts); null = this is the only region. */
    readonly requireHome: RequireHome | null = null,
  ) {
    this.#promises = new LocalQuota(limits.placeCalls, limits.placeWindowMs, limits.callersKept);
    this.#unproven = new LocalQuota(limits.deviceQuota, limits.deviceWindowMs, limits.callersKept);
  }

  /**
   * Claims a unit or a place.
   * @param terms version of the terms that the audience was evaluated for, in the form of `ReserveInput.terms`
   * @param linkMark of the link to pay (`PayLinks.markOf`). It is remembered for replays
   * @throws Problem for every refusal
   * @throws TermsChanged if the version is outdated, see judgedClaim
   * @throws EngineUnavailable if Redis did not reply; a retry with the same key gets the outcome
   */
  async run(request: ClaimRequest, terms: number, linkMark = ''): Promise<ClaimResult> {
    const ticketKey = keysOfResponse(this.tickets.signingKeyId, linkMark);
    const { product, user } = request;
    const looked = this.requireHome?.(product, user);
    if (looked) await looked;
    const reservationPrefix = newReservationPrefix();
    const caller = request.proven ? `${product}|${user}` : `${product}|${user}|${request.network}`;
    const bucket = this.sales.bucketOf(product, user);
    const buckets = this.sales.map.bucketsOf(product);
    if (request.token === null) await this.#requireQuota(request);
    const input: ReserveInput = {
      claim: request,
      reservationPrefix,
      ticketKey,
      terms,
      // Counts before the decision, because one call may decide several requests of the same caller.
      newKeys: this.limits.placeCalls - this.#promises.count(caller) + 1,
      bucket: buckets === 1 ? null : { buckets, place: null },
    };
    const outcome =
      this.tracing !== null && isSampled(request.trace)
        ? await tracedDecision(this.tracing, request, () => this.#reserve(input, caller, bucket))
        : await this.#reserve(input, caller, bucket);
    switch (outcome.kind) {
      case 'reserved':
        if (outcome.durable || this.committed.mustWait(outcome.stacking))
          await this.committed.committed({ ...outcome, product, bucket });
        else if (this.#mustWait(false)) await this.acknowledgements.held(product, outcome, bucket);
        return first(
          this.#held(outcome, this.acknowledgements.durabilityOf(outcome.durable), ticketKey, user),
          outcome.quotaLeft,
        );
      case 'queued':
      case 'waiting': {
        if (this.#mustWait(outcome.durable)) await this.acknowledgements.held(product, outcome, bucket);
        const place =
          outcome.kind === 'queued' ? reservationIdOf(reservationPrefix, outcome.no) : outcome.reservationId;
        const ticket = place === '' ? null : this.tickets.sign(outcome.no, user, place, this.tickets.signingKeyId);
        return first(this.#place(outcome, ticket), outcome.quotaLeft);
      }
      case 'replayed': {
        // The first response may never have arrived, so a replay is held like it.
        const remembered = decodeIdempotencyRecord(outcome.answer);
        if (remembered.kind === 'completed' && (await this.#waitsAgain(outcome.durable, request, bucket, remembered)))
          await this.committed.committed({ ...outcome, ...remembered, product, bucket, journalId: '' });
        else if (this.#mustWait(outcome.durable))
          await this.acknowledgements.held(product, { durable: outcome.durable, journalId: '' }, bucket);
        if (remembered.kind === 'queued') {
          const { ticketKey: signer, reservationId } = remembered;
          const ticket =
            signer === null || reservationId === null
              ? null
              : this.tickets.sign(outcome.no, user, reservationId, ticketKeyIn(signer));
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

  /** Runs the script and uncounts the request if it got no promise. */
  async #reserve(input: ReserveInput, caller: string, bucket: number): Promise<ReserveOutcome> {
    let isPromise = false;
    try {
      const decision = await this.sales.of(input.claim.product, bucket).claims.reserve(input);
      const outcome = isFinal(decision) ? decision : await this.bucketClaims.decide(input, decision);
      isPromise = outcome.kind === 'reserved' || outcome.kind === 'queued' || outcome.kind === 'waiting';
      return outcome;
    } finally {
      if (!isPromise) this.#promises.uncount(caller);
    }
  }

  /** @throws Problem 429 if the user has made too many calls without a token from one network, and this is no replay */
  async #requireQuota({ product, user, network, key }: ClaimRequest): Promise<void> {
    const waitMs = this.#unproven.take(`${user}|${network}`);
    const bucket = this.sales.bucketOf(product, user);
    if (waitMs === 0 || (await this.sales.of(product, bucket).reader.remembers(user, key))) return;
    const { deviceQuota, deviceWindowMs } = this.limits;
    throw rateLimited('device', deviceQuota, deviceWindowMs / 1000, waitMs);
  }

  /** Whether the replay of a claimed unit waits for its commit. */
  async #waitsAgain(
    durable: boolean,
    { product, user, order }: ClaimRequest,
    bucket: number,
    { reservationId }: { reservationId: string },
  ): Promise<boolean> {
    return durable || this.committed.mustWaitAgain(product, bucket, reservationId, user, order);
  }

  /** Whether a response must be held. Most need not be, and skip the cost of an `await`. */
  #mustWait(durable: boolean): boolean {
    return durable || !this.acknowledgements.isImmediate;
  }

  #held(
    answer: Omit<Extract<IdempotencyRecord, { kind: 'completed' }>, 'kind' | 'ticketKey' | 'durability'>,
    durability: Durability,
    keys: string,
    user: UserId,
  ): HeldUnit {
    const { reservationId, orderId, dueMs, code, terms } = answer;
    const campaignNo = campaignNoOf(reservationId);
    return {
      kind: 'held',
      reservationId,
      orderId,
      payBefore: timeOrNull(dueMs),
      expiresAtMs: dueMs,
      ticket: this.tickets.sign(campaignNo, user, reservationId, ticketKeyIn(keys)),
      durability,
      campaignNo,
      code,
      terms,
      linkMark: linkMarkIn(keys),
    };
  }

  /** @param ticket null = the caller has not proved to hold the place */
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

  /** Returns the problem of a refusal. Its codes are those of claim.contract.ts. */
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
        return notStarted(outcome.startsAtMs, outcome.nowMs);
      case 'qty_above_max':
        return invalidFields({ pointer: '#/qty', detail: `must be at most ${outcome.maxQty} in this campaign` });
      case 'not_combinable':
        return new Problem('not_combinable', 'The order contains a code that cannot be combined with this one.');
      default: {
        const refused = CLAIM_REFUSALS[outcome.kind];
        return new Problem(refused.code, refused.detail, 'extras' in refused ? refused.extras : {});
      }
    }
  }
}

/** Whether the bucket of the user has decided; always true in a campaign that is not divided. */
function isFinal(decision: StoreReserveOutcome): decision is ReserveOutcome {
  return decision.kind !== 'draw' && decision.kind !== 'short' && decision.kind !== 'empty';
}

function first(promise: HeldUnit | Place, quotaLeft: number): ClaimResult {
  return { replayed: false, promise, quotaLeft };
}

function replay(promise: HeldUnit | Place): ClaimResult {
  return { replayed: true, promise, quotaLeft: null };
}

/** What a record stores as `ticket_key`: the key of the ticket, and behind a point the mark of the link to pay. */
const keysOfResponse = (ticketKey: string, linkMark: string) =>
  linkMark === '' ? ticketKey : `${ticketKey}.${linkMark}`;
const ticketKeyIn = (keys: string) => keys.split('.')[0] ?? '';
const linkMarkIn = (keys: string) => keys.split('.').slice(1).join('.');
