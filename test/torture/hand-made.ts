import type { FinalState, RedemptionRow, TicketRow } from '../../torture/final-state.js';
import type { Call, CallKind, Event, Frame } from '../../torture/history.js';
import type { CampaignFacts } from '../../torture/judge/facts.js';

/** Wall clock at the beginning of a hand-made run. */
export const BEGAN_AT = 1_700_000_000_000;
export const PRODUCT = 'shop';
type Overrides = Partial<Omit<Call, 'headers'>> & { data?: object; code?: string; headers?: Record<string, string> };

/** A history and a final state that a test makes by hand, correct until the test changes something. */
export class HandMade {
  readonly calls: Call[] = [];
  readonly frames: Frame[] = [];
  readonly events: Event[] = [];
  readonly campaigns: CampaignFacts[] = [{ product: PRODUCT, total: 10, isCreated: true }];
  readonly final: FinalState;

  constructor() {
    const stats = { total: 10, free: 10, held: 0, redeemed: 0, burned: 0, waiting: 0, journal_backlog: 0, drift: 0 };
    this.final = {
      beganAt: BEGAN_AT,
      observedAt: BEGAN_AT + 60_000,
      campaigns: [
        {
          product_id: PRODUCT,
          name: PRODUCT,
          status: 'paused',
          total_limit: 10,
          taken: 0,
          per_user_limit: 1,
          max_qty: 1,
          refund_policy: 'return',
          confirmation: 'fast',
          presence_seconds: null,
        },
      ],
      redemptions: [],
      tickets: [],
      answers: [],
      rejects: [],
      ledgers: { [PRODUCT]: { lost: 0, duplicated: 0, over_cap: 0, drift: 0 } },
      stats: [{ product: PRODUCT, api: 'api-1', stats }],
      lines: { [PRODUCT]: [] },
      places: { [PRODUCT]: { postgres: [0], redis: [0] } },
      standings: [],
    };
  }

  /** A call that took 10 ms, with a well-formed response. */
  call(kind: CallKind, at: number, status: number, more: Overrides = {}): Call {
    const { data = {}, code = 'sold_out', headers = {}, ...rest } = more;
    const isError = status >= 400;
    const problem = { type: 't', title: 't', status, detail: 'd', instance: 'i', code };
    const body = isError ? (code === 'duplicate_request' ? { ...problem, data } : problem) : { data };
    const call: Call = {
      type: 'call',
      n: this.calls.length + 1,
      kind,
      at,
      end: at + 10,
      api: 'api-1',
      process: 'api-1#1',
      product: PRODUCT,
      status,
      headers: {
        'content-type': isError ? 'application/problem+json' : 'application/json',
        'x-request-id': 'r',
        'retry-after': '1',
        ...headers,
      },
      text: JSON.stringify(body),
      ...rest,
    };
    this.calls.push(call);
    return call;
  }

  /** An acknowledged reservation with its row. */
  unit(user: string, at: number, more: Partial<RedemptionRow> = {}): { call: Call; row: RedemptionRow; id: string } {
    const id = `reservation-of-${user}`;
    const payBefore = '2023-11-14T22:14:00.000Z';
    const data = { status: 'completed', order_id: `order-${id}`, reservation_id: id, pay_before: payBefore };
    const call = this.call('checkout', at, 200, {
      user,
      key: `key-of-${user}`,
      keyIn: 'header',
      body: { qty: 1 },
      data: { ...data, ticket: 't', durability: 'journaled' },
    });
    const row: RedemptionRow = {
      product_id: PRODUCT,
      redemption_id: id,
      user_id: user,
      order_id: `order-${id}`,
      qty: 1,
      slot: 1,
      status: 'expired',
      burned: false,
      released_qty: 0,
      refunded_qty: 0,
      burned_qty: 0,
      reacquired: false,
      line_no: null,
      code_no: null,
      reserved_at: BEGAN_AT + at + 5,
      pay_before: BEGAN_AT + at + 5_000,
      released_at: BEGAN_AT + at + 5_100,
      reason: null,
      payment_ref: null,
      idempotency_key: `key-of-${user}`,
      ...more,
    };
    this.final.redemptions.push(row);
    return { call, row, id };
  }

  /** An acknowledged place in line with its row. */
  place(user: string, at: number, lineNo: number, more: Partial<TicketRow> = {}): { call: Call; row: TicketRow } {
    const data = { status: 'queued', position: lineNo, queue_size: lineNo, estimated_wait_seconds: null };
    const call = this.call('checkout', at, 202, {
      user,
      key: `key-of-${user}`,
      keyIn: 'header',
      body: { qty: 1 },
      data: { ...data, ticket: 't', poll_after_seconds: 1 },
    });
    const row: TicketRow = {
      product_id: PRODUCT,
      line_no: lineNo,
      user_id: user,
      qty: 1,
      status: 'waiting',
      reservation_id: `reservation-of-${user}`,
      joined_at: BEGAN_AT + at + 5,
      ended_at: null,
      idempotency_key: `key-of-${user}`,
      ...more,
    };
    this.final.tickets.push(row);
    if (row.status === 'waiting') this.final.lines[PRODUCT]?.push(user);
    return { call, row };
  }

  /** The person of a place got a unit, by Redis's clock so long after the run began. */
  serve(place: { row: TicketRow }, at: number): RedemptionRow {
    const { row } = this.unit(place.row.user_id, at, { line_no: place.row.line_no });
    // The promotion is no answer to a checkout.
    this.calls.pop();
    row.reserved_at = BEGAN_AT + at;
    place.row.status = 'promoted';
    place.row.ended_at = BEGAN_AT + at;
    this.final.lines[PRODUCT] = (this.final.lines[PRODUCT] ?? []).filter((user) => user !== row.user_id);
    return row;
  }

  confirm(id: string, at: number, status = 200, more: Overrides = {}): Call {
    const data = { reservation_id: id, status: 'redeemed', order_id: `order-${id}` };
    return this.call('confirm', at, status, { reservation: id, data, code: 'reservation_released', ...more });
  }

  release(id: string, at: number, more: Overrides = {}): Call {
    return this.call('release', at, 200, {
      reservation: id,
      data: { reservation_id: id, released: true, status: 'released' },
      ...more,
    });
  }

  releasePart(id: string, at: number, qty: number, released: number): Call {
    return this.call('release_part', at, 200, {
      reservation: id,
      data: { reservation_id: id, released: false, status: 'reserved', qty, released_qty: released },
    });
  }

  refund(id: string, at: number): Call {
    return this.call('refund', at, 200, {
      reservation: id,
      data: { reservation_id: id, status: 'refunded', returned_to_stock: true },
    });
  }

  event(event: Event extends infer One ? (One extends Event ? Omit<One, 'type'> : never) : never): void {
    this.events.push({ type: 'event', ...event } as Event);
  }

  /** A fault was active between two times. */
  fault(from: number, to: number, id = 1, fault = 'some-fault'): void {
    this.event({ at: from, what: 'fault', fault, phase: 'begin', id });
    this.event({ at: to, what: 'fault', fault, phase: 'end', id });
  }
}
