import { randomUUID } from 'node:crypto';
import type { Request } from 'express';
import { LRUCache } from 'lru-cache';
import { campaignOfNumber } from '../../shared/domain/buckets.js';
import { campaignNoOf, parseReservationId, type ReservationId } from '../../shared/domain/ids.js';
import type { RegionName } from '../../shared/domain/regions.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import { BackgroundWriter, type DropReason } from '../../shared/postgres/background-writer.js';
import {
  ACKNOWLEDGED_STATES,
  type AcknowledgedState,
  type RegionAcknowledgement,
  type RegionAcknowledgements,
  type RegionOperation,
} from '../../shared/postgres/region-acknowledgements.js';
import type { Tickets } from '../guards/auth/ticket.js';
import type { RegionDirectory } from './region-directory.js';
import type { LinkResponse } from './region-link.js';

export type AcknowledgedDeps = {
  table: Pick<RegionAcknowledgements, 'insert'>;
  directory: Pick<RegionDirectory, 'productOf'>;
  tickets: Pick<Tickets, 'verify'>;
  nowMs: () => number;
  metrics: Pick<Metrics, 'regionAcknowledgementsDropped'>;
  log: Log;
  limits: {
    acknowledgementsWaiting: number;
    acknowledgementsBatchRows: number;
    acknowledgementsEveryMs: number;
    acknowledgementsStopMs: number;
    acknowledgementsKnown: number;
  };
};

/** The routes whose responses are recorded, by `operationId` of their contract. */
const OPERATIONS: Readonly<Record<string, RegionOperation>> = {
  redeemCoupon: 'redeem',
  checkout: 'checkout',
  confirmReservation: 'confirm',
  extendReservation: 'extend',
  releaseReservation: 'release',
  refundReservation: 'refund',
  leaveQueue: 'leave',
};

type Decision = Pick<RegionAcknowledgement, 'reservation' | 'status' | 'qty' | 'payment'>;

/**
 * Records each decision of another region that this one returned to a client, so that those which a restored database
 * lacks can be listed after the loss of the region. The response never waits for it.
 */
export class Acknowledged {
  readonly #writer: BackgroundWriter<RegionAcknowledgement>;
  /** What was recorded last: a replay says the same again. */
  readonly #known: LRUCache<string, true>;
  /** Decisions that were dropped since the last row that was written. */
  #unrecorded = 0;

  constructor(readonly deps: AcknowledgedDeps) {
    const { limits, log } = deps;
    this.#known = new LRUCache({ max: limits.acknowledgementsKnown });
    this.#writer = new BackgroundWriter<RegionAcknowledgement>({
      capacity: limits.acknowledgementsWaiting,
      batchRows: limits.acknowledgementsBatchRows,
      everyMs: limits.acknowledgementsEveryMs,
      insert: (rows) => this.#insert(rows),
      onDropped: (rows, reason) => this.#dropped(rows, reason),
      onTrouble: (error) => log.warn({ reason: String(error) }, 'decisions of other regions wait for Postgres'),
    });
  }

  start(): void {
    this.#writer.start();
  }

  async stop(): Promise<void> {
    await this.#writer.stop(this.deps.limits.acknowledgementsStopMs);
  }

  /** Records what a response of another region says was decided, if it does. Never waits, never throws. */
  record(region: RegionName, epoch: number, req: Request, response: LinkResponse): void {
    const operation = OPERATIONS[req.contract?.operationId ?? ''];
    const { directory, tickets, nowMs, log } = this.deps;
    if (operation === undefined) return;
    try {
      const decision = decisionIn(operation, req, response, tickets);
      if (decision === null) return;
      const { reservation, status, qty, payment } = decision;
      const key = `${operation}|${reservation}|${status}|${qty}|${epoch}|${payment}`;
      if (this.#known.has(key)) return;
      this.#known.set(key, true);
      const product = directory.productOf(region, campaignOfNumber(campaignNoOf(reservation)));
      this.#writer.add({
        ...{ id: randomUUID(), atMs: nowMs(), region, epoch, operation, ...decision },
        ...{ product, requestId: req.requestId, unrecorded: 0 },
      });
    } catch (error) {
      log.error({ request_id: req.requestId, region, reason: String(error) }, 'a decision was not recorded');
    }
  }

  async #insert(rows: readonly RegionAcknowledgement[]): Promise<void> {
    const [first] = rows;
    if (first) {
      first.unrecorded += this.#unrecorded;
      this.#unrecorded = 0;
    }
    await this.deps.table.insert(rows);
  }

  #dropped(rows: readonly RegionAcknowledgement[], reason: DropReason): void {
    const { metrics, log } = this.deps;
    metrics.regionAcknowledgementsDropped.inc({ reason }, rows.length);
    if (reason === 'stopped') log.error({ count: rows.length }, 'decisions of other regions were not recorded');
    else if (this.#unrecorded === 0) log.warn({ reason }, 'decisions of other regions are not recorded');
    for (const { unrecorded } of rows) this.#unrecorded += 1 + unrecorded;
  }
}

/** What a response says was decided; null = nothing, or what an earlier response said. @throws SyntaxError */
export function decisionIn(
  operation: RegionOperation,
  req: Pick<Request, 'headers' | 'bodyRead'>,
  { status, text }: Pick<LinkResponse, 'status' | 'text'>,
  tickets: Pick<Tickets, 'verify'>,
): Decision | null {
  if (status !== 409 && (status < 200 || status > 299)) return null;
  const body = JSON.parse(text) as { code?: string; data?: Record<string, unknown> };
  // The first response was lost on the way here, so these are the first that the client gets.
  if (status === 409 && body.code === 'already_extended') return decision(bodyOf(req).reservation_id, 'extended');
  if (status === 409 && body.code !== 'duplicate_request') return null;
  const data = body.data ?? {};
  if (operation === 'leave') return decision(ofTicket(req.headers['x-ticket'], tickets), 'left');
  if (data.status === 'queued') return decision(ofTicket(data.ticket, tickets), 'queued');
  const payment = operation === 'confirm' ? bodyOf(req).payment_ref : null;
  return decision(data.reservation_id, stateOf(operation, data), data.qty, payment);
}

function stateOf(operation: RegionOperation, { status, pay_before, already_paid_by }: Record<string, unknown>) {
  if (operation === 'checkout') return pay_before === null ? 'redeemed' : 'reserved';
  return operation === 'confirm' && already_paid_by !== undefined ? 'paid_again' : status;
}

/** The place of a ticket. A user who was in line already may get none; their place was acknowledged before. */
const ofTicket = (ticket: unknown, tickets: Pick<Tickets, 'verify'>): ReservationId | undefined =>
  typeof ticket === 'string' ? tickets.verify(ticket)?.reservation : undefined;

const bodyOf = ({ bodyRead }: Pick<Request, 'bodyRead'>) =>
  (bodyRead?.value ?? {}) as { reservation_id?: unknown; payment_ref?: unknown };

function decision(id: unknown, status: unknown, qty: unknown = null, payment: unknown = null): Decision | null {
  const reservation = typeof id === 'string' ? parseReservationId(id)?.id : undefined;
  const isState = ACKNOWLEDGED_STATES.includes(status as AcknowledgedState);
  if (!reservation || !isState) return null;
  return {
    ...{ reservation, status: status as AcknowledgedState },
    ...{ qty: typeof qty === 'number' ? qty : null, payment: typeof payment === 'string' ? payment : null },
  };
}
