import type { Campaign } from '../domain/campaign.js';
import { MAX_UNITS } from '../domain/campaign.js';
import {
  campaignNoOf,
  type IdempotencyKey,
  type OrderId,
  type ProductId,
  type ReservationId,
  type UserId,
} from '../domain/ids.js';
import { termFields } from '../domain/terms.js';
import { ContractError } from '../errors/faults.js';
import { CallBatcher } from '../redis/call-batcher.js';
import { parseEntry } from '../redis/journal.js';
import { keys, OPERATORS, saleKeys } from '../redis/keys.js';
import type { WithoutEntries } from '../redis/script-contract.js';
import type { ScriptRunner } from '../redis/script-runner.js';
import { packDetails } from './campaign-details.js';
import { answeredEntry, queuedEntry, reservedEntry } from './checkout-entries.js';
import { withLiveClaims } from './order-claims.js';
import { decided, type Missed, notQueued, type Recall } from './recall.js';
import { orderOf, type ReserveInput, reserveCall } from './reserve-call.js';
import { type Archived, SaleReader } from './sale-reader.js';
import {
  type AddCodesOutcome,
  addCodesScript,
  type LoadCampaignOutcome,
  loadCampaignScript,
  type RejournalOutcome,
  type RestockOutcome,
  rejournalScript,
  restockScript,
  type SetStatusOutcome,
  type StatusAction,
  setStatusScript,
  type UpdateTermsOutcome,
  updateTermsScript,
} from './scripts/campaign.js';
import { type CheckRedeemableOutcome, checkOrderClaimScript, checkRedeemableScript } from './scripts/checkout.js';
import {
  type ExpireOutcome,
  expireScript,
  type HeartbeatOutcome,
  heartbeatScript,
  type LeaveOutcome,
  leaveScript,
  type MaintainLineOutcome,
  maintainLineScript,
  type PositionsOutcome,
  type PromoteOutcome,
  positionsScript,
  promoteScript,
  type ShopperStatusOutcome,
} from './scripts/line.js';
import { type LineHeadOutcome, lineHeadScript } from './scripts/line-head.js';
import { type RefundOutcome, refundScript, type VoidOutcome, voidScript } from './scripts/payment.js';
import {
  decodeDecisions,
  MAX_REQUESTS,
  type ReserveDecision,
  type ReserveOutcome,
  reserveScript,
} from './scripts/reserve.js';
import {
  CONFIRM_DECISIONS,
  type ConfirmCall,
  type ConfirmDecision,
  type ConfirmOutcome,
  type ConfirmRequest,
  confirmScript,
  decodeSettlements,
  MAX_SETTLEMENTS,
  RELEASE_DECISIONS,
  type ReleaseCall,
  type ReleaseDecision,
  type ReleaseOutcome,
  type ReleaseRequest,
  releaseScript,
} from './scripts/settlement.js';
import { MAX_STANDINGS, readStandings, type StandingReply, type StandingRequest } from './standings.js';
import type { UnpersistedPromises } from './unpersisted-promises.js';

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

/** How claims are decided together. */
export type ClaimBatches = {
  /** Whether every worker can read journal entries with several promises. */
  mayPack: () => boolean;
  /** Receives the number of claims of each call. */
  onBatch: (size: number) => void;
};

/** What Postgres knows of a campaign's counters when it is put into Redis. */
export type KnownCounters = { held: number; redeemed: number; burned: number; waiting: number; lastLineNo: number };
const NOTHING_YET: KnownCounters = { held: 0, redeemed: 0, burned: 0, waiting: 0, lastLineNo: 0 };

/**
 * The sale in Redis: one method per script. Each is one atomic decision; nothing here reads first and writes second.
 * `reader` has what is read without a script.
 * Every method throws EngineUnavailable when Redis cannot be used, and then the caller does not know whether it was done.
 */
export class SaleStore {
  readonly reader: SaleReader;
  readonly #reservations: CallBatcher<ReserveInput, ReserveDecision>;
  readonly #confirms: CallBatcher<Payment, ConfirmDecision>;
  readonly #releases: CallBatcher<ReleaseRequest, ReleaseDecision>;
  readonly #standings = new CallBatcher<StandingRequest, StandingReply>({
    maxBatch: MAX_STANDINGS,
    send: (product, requests) => readStandings(this.scripts, product as ProductId, requests),
  });
  readonly #sightings = new CallBatcher<UserId, HeartbeatOutcome>({
    maxBatch: MAX_STANDINGS,
    send: async (product, users) => {
      const outcome = await this.heartbeat(
        product as ProductId,
        users.map((user) => [user, 0]),
      );
      return users.map(() => outcome);
    },
  });

  constructor(
    readonly scripts: ScriptRunner,
    readonly limits: SaleLimits,
    /** Keeps every journal entry that a call has appended until Postgres has it; null = none are kept. */
    readonly promises: UnpersistedPromises | null = null,
    /** Null in processes that never need users of archived campaigns. */
    readonly recall: Recall | null = null,
    readonly claims: ClaimBatches = { mayPack: () => true, onBatch: () => {} },
  ) {
    this.reader = new SaleReader(scripts);
    this.#reservations = new CallBatcher({
      maxBatch: MAX_REQUESTS,
      send: (_group, inputs) => this.#reserveAll(inputs),
      onBatch: claims.onBatch,
    });
    this.#confirms = new CallBatcher({
      maxBatch: MAX_SETTLEMENTS,
      send: (product, payments) => eachAlone(payments, (some) => this.#confirmAll(product as ProductId, some)),
    });
    this.#releases = new CallBatcher({
      maxBatch: MAX_SETTLEMENTS,
      send: (product, requests) => eachAlone(requests, (some) => this.#releaseAll(product as ProductId, some)),
    });
  }

  /** Decides on one claim, together with those of its campaign that arrive meanwhile. */
  async reserve(input: ReserveInput): Promise<ReserveOutcome> {
    let outcome = await this.#reserve(input);
    if (outcome.kind === 'not_combinable') {
      outcome = await withLiveClaims(this, input.user, orderOf(input), outcome, () => this.#reserve(input));
    }
    if (outcome.kind === 'archived') return this.#replayOrEnded(input, outcome);
    this.#rememberCheckout(input, outcome);
    return outcome;
  }

  #reserve(input: ReserveInput): Promise<ReserveDecision> {
    // One key for all requests of a call: a server that changes its key meanwhile makes two groups.
    return this.#reservations.run(`${input.product} ${input.ticketKey}`, input);
  }

  async #reserveAll(inputs: readonly ReserveInput[]): Promise<readonly (ReserveDecision | Error)[]> {
    const outcome = await this.scripts.run(reserveScript, reserveCall(inputs, this.limits, this.claims.mayPack()));
    if (outcome.kind === 'decided') {
      const decisions = decodeDecisions(outcome.decisions, outcome.lastId, inputs);
      return decisions.map((one) => this.scripts.located('reserve', one));
    }
    return inputs.map(() => ({ kind: outcome.kind }));
  }

  async #confirmAll(product: ProductId, payments: readonly Payment[]): Promise<readonly ConfirmDecision[]> {
    const orderKeys: string[] = [];
    const requests = payments.map(({ request, owner }) =>
      owner ? { ...request, order_key: orderKeys.push(keys.order(owner.user, owner.order)) } : request,
    );
    const input: ConfirmCall = { requests, order_ttl_ms: this.limits.orderMemoryMs };
    const outcome = await this.scripts.run(confirmScript, {
      keys: { ...saleKeys(product), request_keys: orderKeys },
      args: { input },
    });
    if (outcome.kind === 'decided') return decodeSettlements(CONFIRM_DECISIONS, outcome.decisions, outcome.entries);
    return payments.map(() => ({ kind: outcome.kind }));
  }

  async #releaseAll(product: ProductId, requests: readonly ReleaseRequest[]): Promise<readonly ReleaseDecision[]> {
    const input: ReleaseCall = { requests };
    const outcome = await this.scripts.run(releaseScript, { keys: saleKeys(product), args: { input } });
    if (outcome.kind === 'decided') return decodeSettlements(RELEASE_DECISIONS, outcome.decisions, outcome.entries);
    return requests.map(() => ({ kind: outcome.kind }));
  }

  /** In an archived campaign: the first answer again, if this key had one; else it is over. */
  #replayOrEnded(input: ReserveInput, missed: Missed): Promise<ReserveOutcome> {
    return decided<ReserveDecision>(
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
    const ask = (order_state: ConfirmRequest['order_state'], owner: OrderOwner | null = null) => {
      const request = { reservation_id: reservation, payment_ref: paymentRef, trace, order_state };
      return this.#keep(this.#confirms.run(product, { request, owner }));
    };
    const first = await ask('unknown');
    if (first.kind !== 'order_needed') return first as Confirmed;
    const { user, order } = first;
    const again = () => ask('known', { user, order });
    const reply = await withLiveClaims(this, user, order, await again(), again);
    return (reply.kind === 'not_combinable' ? await ask('taken') : reply) as Confirmed;
  }

  /** Whether a reservation or a place still takes part in its order; one that has ended is removed from it. */
  async checkOrderClaim(product: ProductId, reservation: ReservationId, user: UserId, order: OrderId) {
    const ask = (unknown: boolean) =>
      this.scripts.run(checkOrderClaimScript, {
        keys: { ...saleKeys(product), order: keys.order(user, order) },
        args: { reservation_id: reservation, user, unknown },
      });
    const outcome = await this.#of(product, reservation, async () => {
      const reply = await ask(false);
      return reply.kind === 'archived' && !this.recall ? { kind: 'not_found' as const } : reply;
    });
    return outcome.kind === 'not_found' ? ask(true) : outcome;
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
      this.#keep(this.#releases.run(product, { reservation_id: reservation, holder: holder ?? '', reason, trace })),
    );
  }

  refund(product: ProductId, reservation: ReservationId, trace: string): Promise<RefundOutcome> {
    return this.#of(product, reservation, () =>
      this.#keep(
        this.scripts.run(refundScript, { keys: saleKeys(product), args: { reservation_id: reservation, trace } }),
      ),
    );
  }

  void(
    product: ProductId,
    reservation: ReservationId,
    unit: 'returns' | 'never_existed' | 'code_used',
    reason: string,
  ): Promise<VoidOutcome> {
    return this.#of(product, reservation, () =>
      this.#keep(
        this.scripts.run(voidScript, { keys: saleKeys(product), args: { reservation_id: reservation, unit, reason } }),
      ),
    );
  }

  expire(product: ProductId, limit: number): Promise<ExpireOutcome> {
    return this.#keep(this.scripts.run(expireScript, { keys: saleKeys(product), args: { limit } }));
  }

  promote(product: ProductId, limit: number): Promise<PromoteOutcome> {
    return this.#keep(this.scripts.run(promoteScript, { keys: saleKeys(product), args: { limit } }));
  }

  /** @param place that is given up; null = whichever the user has */
  leave(product: ProductId, user: UserId, place: ReservationId | null, trace: string): Promise<LeaveOutcome> {
    return decided(
      () =>
        this.#keep(
          this.scripts.run(leaveScript, { keys: saleKeys(product), args: { user, place: place ?? '', trace } }),
        ),
      (recall, pass) => recall.person(product, user, pass),
      () => ({ kind: 'not_waiting' }),
      this.recall,
    );
  }

  /** @param groupWaitMs how long free units are kept for a group @param settleMs how long nobody must have had a chance */
  maintainLine(product: ProductId, limit: number, groupWaitMs: number, settleMs: number): Promise<MaintainLineOutcome> {
    return this.#keep(
      this.scripts.run(maintainLineScript, {
        keys: saleKeys(product),
        args: { limit, group_wait_ms: groupWaitMs, settle_ms: settleMs },
      }),
    );
  }

  /** Says who is there. @param seen at most 1000 users, and how many ms ago each was seen */
  heartbeat(product: ProductId, seen: readonly (readonly [UserId, number])[]): Promise<HeartbeatOutcome> {
    return this.scripts.run(heartbeatScript, {
      keys: saleKeys(product),
      each: seen.map(([user, ageMs]) => ({ user, age_ms: ageMs })),
    });
  }

  /**
   * Records that a user is present now. Users of the same campaign who are recorded meanwhile share a call.
   * @returns whether a user of this call, perhaps another one, has returned to their place
   */
  async seen(product: ProductId, user: UserId): Promise<boolean> {
    const outcome = await this.#sightings.run(product, user);
    return outcome.kind === 'attended' && outcome.returned > 0;
  }

  /**
   * Reads where a user stands. Reads of the same campaign that arrive meanwhile share a call.
   * @param place reservation id of a ticket, whose unit is returned if there is one; otherwise, and for null, the user's last
   *   place or unit is
   */
  standing(product: ProductId, user: UserId, place: ReservationId | null = null): Promise<ShopperStatusOutcome> {
    return decided<StandingReply>(
      () => this.#standings.run(product, { user, place }),
      (recall, pass) => recall.person(product, user, pass),
      notQueued,
      this.recall,
    );
  }

  /** @param users at most 1000 */
  positions(product: ProductId, users: readonly UserId[]): Promise<PositionsOutcome> {
    return this.scripts.run(positionsScript, { keys: saleKeys(product), each: users.map((user) => ({ user })) });
  }

  /** The head of the line and why nobody is promoted from it. @param limit people, at most MAX_LINE_HEAD */
  lineHead(product: ProductId, limit: number): Promise<LineHeadOutcome> {
    return this.scripts.run(lineHeadScript, { keys: saleKeys(product), args: { limit } });
  }

  /** What a redemption would meet now. @param code number of the code; 0 = the campaign's one code */
  checkRedeemable(product: ProductId, user: UserId, code: number): Promise<CheckRedeemableOutcome> {
    return this.scripts.run(checkRedeemableScript, { keys: saleKeys(product), args: { user, code } });
  }

  /** @param codes how many codes the campaign has in all */
  addCodes(product: ProductId, codes: number): Promise<AddCodesOutcome> {
    return this.scripts.run(addCodesScript, { keys: saleKeys(product), args: { codes } });
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
    return this.scripts.run(loadCampaignScript, {
      keys: saleKeys(campaign.productId),
      args: {
        no: campaign.no,
        product_id: campaign.productId,
        version: campaign.termsVersion,
        status: campaign.status,
        type: campaign.type,
        codes: campaign.codes,
        total: campaign.totalLimit ?? -1,
        held: known.held,
        redeemed: known.redeemed,
        burned: known.burned,
        waiting: known.waiting,
        last_line_no: known.lastLineNo,
        archived: archived?.pass ?? '',
        promised: archived?.promised ?? 0,
        token: token ?? '',
      },
      each: saleTerms(campaign),
    });
  }

  updateTerms(campaign: Campaign): Promise<UpdateTermsOutcome> {
    return this.scripts.run(updateTermsScript, {
      keys: saleKeys(campaign.productId),
      args: { version: campaign.termsVersion },
      each: saleTerms(campaign),
    });
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
      this.scripts.run(setStatusScript, {
        keys: saleKeys(product),
        args: { action, actor, request_id: requestId, reason },
      }),
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
    const idempotencyKey = key ?? ('' as IdempotencyKey);
    return this.#keep(
      this.scripts.run(restockScript, {
        keys: {
          ...saleKeys(product),
          idempotency: keys.idempotency(OPERATORS, idempotencyKey),
          unscoped_idempotency: keys.unscopedIdempotency(idempotencyKey),
        },
        args: {
          delta,
          limit: promoteLimit,
          key: idempotencyKey,
          key_ttl_ms: this.limits.idempotencyTtlMs,
          actor,
          request_id: requestId,
          max_total: MAX_UNITS,
        },
      }),
    );
  }

  /** Appends to the journal what Postgres lacks of a reservation. @param row what it has of it */
  rejournal(product: ProductId, reservation: string, row: 'missing' | 'reserved'): Promise<RejournalOutcome> {
    return this.#of(product, reservation, () =>
      this.scripts.run(rejournalScript, { keys: saleKeys(product), args: { reservation_id: reservation, row } }),
    );
  }
}

/** A payment, and whose order it is for once that is known. */
type Payment = { request: ConfirmRequest; owner: OrderOwner | null };
type OrderOwner = { user: UserId; order: OrderId };

/**
 * Makes a call for some requests. A script that fails has written nothing, so then each request is made alone, and only those
 * fail that do so by themselves.
 */
async function eachAlone<Request, Reply>(
  requests: readonly Request[],
  call: (some: readonly Request[]) => Promise<readonly Reply[]>,
): Promise<readonly (Reply | Error)[]> {
  try {
    return await call(requests);
  } catch (error) {
    if (!(error instanceof ContractError) || requests.length === 1) throw error;
    const replies = await Promise.allSettled(requests.map((request) => call([request])));
    return replies.map((reply) => (reply.status === 'fulfilled' ? (reply.value[0] as Reply) : (reply.reason as Error)));
  }
}

/** Everything that `confirm` may reply but what it wants to know of the order. */
type Confirmed = ConfirmOutcome | Missed;

/** What Redis stores of a campaign's terms, field by field. */
function saleTerms(campaign: Campaign): { field: string; value: string | number }[] {
  const fields = {
    ...termFields(campaign),
    once: campaign.requireToken ? 1 : 0,
    // The version without an audience, so that terms that an older version put here are judged.
    open_to_all: campaign.hasAudience ? 0 : campaign.termsVersion,
    stacking: campaign.stacking,
    details: packDetails(campaign),
  };
  return Object.entries(fields).map(([field, value]) => ({ field, value }));
}
