import { assertNever } from '../../shared/domain/assert-never.js';
import {
  type DeviceId,
  type IdempotencyKey,
  newReservationPrefix,
  type ProductId,
  parseReservationId,
  type UserId,
} from '../../shared/domain/ids.js';
import { pollAfterSeconds } from '../../shared/domain/polling.js';
import { timeOrNull } from '../../shared/domain/time.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { CommitWatch } from '../../shared/redis/commit-watch.js';
import type { Journal } from '../../shared/redis/journal.js';
import { decodeRememberedAnswer, type RememberedAnswer } from '../../shared/redis/remembered-answer.js';
import type { SaleStore } from '../../shared/redis/sale-store.js';
import type { ReserveOutcome } from '../../shared/redis/scripts/checkout.js';
import { rateLimited } from '../guards/quotas.js';
import type { Tickets } from '../guards/ticket.js';
import { unavailable } from '../http/problem.js';

export type CheckoutRequest = {
  product: ProductId;
  user: UserId;
  qty: number;
  key: IdempotencyKey;
  /** null = no token; its signature was checked before */
  token: { expiresAtSeconds: number } | null;
  device: DeviceId | null;
  trace: string;
};

export type Answer = { status: 200 | 202; data: Record<string, unknown> };
/** quotaLeft: calls that the device has left in its window; null when no quota was taken */
export type CheckoutResult = { replayed: boolean; answer: Answer; quotaLeft: number | null };

export type CheckoutLimits = { deviceQuota: number; deviceWindowMs: number; durableWaitMs: number };

/** A pause has no known end; shoppers come back at this pace. */
const PAUSE_RETRY_SECONDS = 5;
/** Nobody is told to wait longer than this for an opening; clients count down by `starts_at`. */
const OPENING_RETRY_MAX_SECONDS = 3_600;

/** Checkout: one atomic decision in Redis, told to the shopper. */
export class Checkout {
  constructor(
    readonly sale: SaleStore,
    readonly tickets: Tickets,
    readonly commits: CommitWatch,
    readonly journal: Journal,
    readonly limits: CheckoutLimits,
  ) {}

  /**
   * @throws Problem for every refusal
   * @throws EngineUnavailable when Redis did not answer; a repetition with the same key tells what became of it
   */
  async run(request: CheckoutRequest): Promise<CheckoutResult> {
    const outcome = await this.sale.reserve({
      ...request,
      order: null,
      reservationPrefix: newReservationPrefix(),
      ticketKey: this.tickets.signingKeyId,
    });
    const { user } = request;
    const ticketKey = this.tickets.signingKeyId;
    const first = (answer: Answer, left: number): CheckoutResult => ({
      replayed: false,
      answer,
      quotaLeft: request.device === null ? null : left,
    });
    const replay = (answer: Answer): CheckoutResult => ({ replayed: true, answer, quotaLeft: null });
    switch (outcome.kind) {
      case 'reserved':
        if (outcome.durable) await this.#untilCommitted(outcome.journalId);
        return first(this.#completed({ ...outcome, kind: 'completed', ticketKey }, user), outcome.quotaLeft);
      case 'queued':
        if (outcome.durable) await this.#untilCommitted(outcome.journalId);
        return first(this.#queued({ ...outcome, kind: 'queued', ticketKey }, outcome.no, user), outcome.quotaLeft);
      case 'waiting':
        return first(this.#queued({ ...outcome, kind: 'queued', ticketKey }, outcome.no, user), outcome.quotaLeft);
      case 'replayed': {
        const remembered = decodeRememberedAnswer(outcome.answer);
        if (remembered.kind === 'queued') return replay(this.#queued(remembered, outcome.no, user));
        // Its entry is not known any more, but it is not later than the last one.
        if (remembered.durable) await this.#untilCommitted(await this.journal.lastId());
        return replay(this.#completed(remembered, user));
      }
      default:
        throw this.#refusal(outcome);
    }
  }

  /** A durable promise is told when Postgres has it. Too late for this answer, it stands: the retry gets it. */
  async #untilCommitted(journalId: string): Promise<void> {
    if (!(await this.commits.committed(journalId, this.limits.durableWaitMs))) throw unavailable();
  }

  #completed(first: Extract<RememberedAnswer, { kind: 'completed' }>, user: UserId): Answer {
    const campaignNo = parseReservationId(first.reservationId)?.campaignNo ?? 0;
    return {
      status: 200,
      data: {
        status: 'completed',
        order_id: first.orderId,
        reservation_id: first.reservationId,
        pay_before: timeOrNull(first.dueMs),
        ticket: this.tickets.sign(campaignNo, user, first.ticketKey),
        durability: first.durable ? 'committed' : 'journaled',
      },
    };
  }

  #queued(first: Extract<RememberedAnswer, { kind: 'queued' }>, campaignNo: number, user: UserId): Answer {
    return {
      status: 202,
      data: {
        status: 'queued',
        position: first.position,
        queue_size: first.queueSize,
        estimated_wait_seconds: null,
        ticket: this.tickets.sign(campaignNo, user, first.ticketKey),
        poll_after_seconds: pollAfterSeconds(first.position),
      },
    };
  }

  #refusal(outcome: Exclude<ReserveOutcome, { kind: 'reserved' | 'queued' | 'waiting' | 'replayed' }>): Problem {
    const { deviceQuota, deviceWindowMs } = this.limits;
    switch (outcome.kind) {
      case 'key_reused':
        return new Problem('idempotency_key_reused', 'This key was used for another product, user or quantity.');
      case 'attestation_missing':
        return new Problem('attestation_invalid', 'attestation and expires_at are required for this campaign.');
      case 'attestation_expired':
        return new Problem('attestation_expired', 'The token is too old.');
      case 'attestation_future':
        return new Problem('attestation_invalid', 'expires_at is further ahead than a token can be.');
      case 'rate_limited':
        return rateLimited('device', deviceQuota, deviceWindowMs / 1000, outcome.retryMs);
      case 'journal_full':
        return unavailable();
      case 'not_found':
        return new Problem('campaign_not_found', 'No campaign sells this product.');
      case 'paused':
        return new Problem('campaign_paused', 'The sale is paused; places and reservations are kept.', {
          retryAfterSeconds: PAUSE_RETRY_SECONDS,
        });
      case 'ended':
        return new Problem('campaign_ended', 'The sale is over.');
      case 'not_started':
        return new Problem('campaign_not_started', 'The sale opens at starts_at.', {
          members: { starts_at: timeOrNull(outcome.startsAtMs) },
          retryAfterSeconds: Math.min(OPENING_RETRY_MAX_SECONDS, (outcome.startsAtMs - outcome.nowMs) / 1000),
        });
      case 'qty_above_max':
        return new Problem('invalid_request', 'Some fields are not valid; see `errors`.', {
          members: { errors: [{ pointer: '#/qty', detail: `must be at most ${outcome.maxQty} in this campaign` }] },
        });
      case 'limit_reached':
        return new Problem('already_redeemed', 'The user holds or has used what he may have of this campaign.');
      case 'sold_out':
        return new Problem('sold_out', 'Not enough units are free, and this campaign has no line.');
      case 'line_full':
        return new Problem('waiting_room_full', 'The line has reached its limit.');
      default:
        return assertNever(outcome);
    }
  }
}
