import type { Random } from '../random.js';
import { Caller, type Stage } from './caller.js';
import type { RunCampaign } from './campaign-kinds.js';
import type { Response } from './http-client.js';
import { choosePayment, settle } from './payment.js';
import { follow } from './sockets.js';

/** A shopper waits in line for at most so long, then goes on with something else and leaves the place behind. */
const PATIENCE_MS = 25_000;

export type ShopperPlan = { campaign: RunCampaign; user: string; code: string | null; random: Random };

type Ask = { key: string; keyIn: 'header' | 'body' };

/**
 * One person: takes a unit or a place in line, waits, pays or not. Every choice comes from the person's own generator.
 */
export class Shopper {
  readonly #caller: Caller;
  readonly #random: Random;
  readonly #token: Record<string, unknown> = {};
  readonly #qty: number;
  readonly #device: string;

  constructor(
    readonly stage: Stage,
    readonly plan: ShopperPlan,
  ) {
    this.#random = plan.random;
    this.#caller = new Caller(stage, plan.random);
    this.#qty = plan.random.int(1, Number(plan.campaign.terms.max_qty ?? 1));
    this.#device = `device-${plan.user}`;
  }

  async run(): Promise<void> {
    const ask = this.#newKey();
    const response = await this.#claim(ask);
    if (!response || !isPromise(response)) return;
    if (this.#random.chance(0.15)) await this.#repeat(ask);
    if (this.#random.chance(0.1)) await this.#askAgain();
    const { data } = response;
    const ticket = String(data.ticket);
    if (data.status === 'queued') await this.#wait(ticket);
    else await this.#settle(String(data.reservation_id), ticket, textOrNull(data.pay_before));
  }

  #newKey(): Ask {
    return { key: `key-${this.#random.text(20)}`, keyIn: this.#random.chance(0.5) ? 'header' : 'body' };
  }

  /** The same request again, perhaps with the key in the other place. */
  async #repeat({ key }: Ask): Promise<void> {
    await this.#claim({ key, keyIn: this.#random.chance(0.5) ? 'header' : 'body' });
  }

  /** Another wish of the same user, perhaps before the first one has ended. */
  async #askAgain(): Promise<void> {
    await this.#claim(this.#newKey());
  }

  #claim(ask: Ask): Promise<Response | null> {
    return this.plan.campaign.kind.entrance === 'checkout' ? this.#checkout(ask) : this.#redeem(ask);
  }

  async #checkout({ key, keyIn }: Ask): Promise<Response | null> {
    const { campaign, user } = this.plan;
    const needsToken = campaign.terms.require_attestation === true;
    let tries = 0;
    return this.#caller.insist(async () => {
      // A token that was refused is replaced; the retry is the same request.
      if (needsToken && tries++ % 4 === 0 && !(await this.#getToken())) return null;
      return {
        kind: 'checkout',
        method: 'POST',
        path: '/flash-sale/checkout',
        product: campaign.product,
        user,
        key,
        keyIn,
        headers: keyIn === 'header' ? { 'idempotency-key': key } : {},
        json: {
          product_id: campaign.product,
          user_id: user,
          qty: this.#qty,
          ...this.#token,
          ...(keyIn === 'body' ? { idempotency_key: key } : {}),
        },
      };
    });
  }

  async #redeem({ key, keyIn }: Ask): Promise<Response | null> {
    const { campaign, user } = this.plan;
    const code = this.plan.code ?? campaign.code ?? '';
    const about = { product: campaign.product, user };
    if (this.#random.chance(0.3)) {
      const json = { code, user_id: user };
      await this.#caller.once({ ...about, kind: 'validate', method: 'POST', path: '/coupons/validate', json });
    }
    return this.#caller.insist({
      ...about,
      kind: 'redeem',
      method: 'POST',
      path: '/coupons/redeem',
      key,
      keyIn,
      headers: keyIn === 'header' ? { 'idempotency-key': key } : {},
      json: { code, user_id: user, order_id: `order-${user}`, ...(keyIn === 'body' ? { idempotency_key: key } : {}) },
    });
  }

  async #getToken(): Promise<boolean> {
    const path = `/flash-sale/token?device_fp=${this.#device}`;
    const { status, data } = await this.#caller.once({
      kind: 'token',
      method: 'GET',
      path,
      product: this.plan.campaign.product,
      user: this.plan.user,
    });
    if (status !== 200) return false;
    Object.assign(this.#token, data);
    return true;
  }

  /** Waits in line by asking or by a socket, until promoted, closed or tired of it. */
  async #wait(ticket: string): Promise<void> {
    const { product } = this.plan.campaign;
    const { user } = this.plan;
    const leaves = this.#random.chance(0.12);
    const until = performance.now() + (leaves ? this.#random.int(200, 6_000) : PATIENCE_MS);
    const bySocket = this.#random.chance(0.25);
    // Campaigns with presence: some people close their laptop.
    const vanishes = this.#random.chance(0.15);
    while (performance.now() < until && !this.stage.closing.aborted) {
      if (!(await this.#caller.pause(vanishes ? 7_000 : this.#random.int(500, 1_500)))) return;
      const seen = bySocket ? await follow(this.#caller, { product, user, ticket }, until) : await this.#ask(ticket);
      if (seen?.reservation) return this.#settle(seen.reservation, ticket, seen.payBefore);
      if (seen?.over) return;
    }
    if (leaves) await this.#leave(ticket);
  }

  async #ask(ticket: string): Promise<{ over: boolean; reservation: string | null; payBefore: string | null } | null> {
    const { user, campaign } = this.plan;
    const query = new URLSearchParams({ product_id: campaign.product, user_id: user });
    const { status, data } = await this.#caller.once({
      kind: 'status',
      method: 'GET',
      path: `/flash-sale/queue-status?${query}`,
      product: campaign.product,
      user,
      headers: { 'x-ticket': ticket },
    });
    if (status !== 200 || data.status === 'queued') return null;
    // The ticket of a place that both engines have lost does not show the reservation that a repetition got since.
    const reservation = textOrNull(data.reservation_id);
    const holds = reservation !== null && (data.status === 'promoted' || data.status === 'completed');
    return {
      over: !holds,
      reservation: holds ? reservation : null,
      payBefore: textOrNull(data.pay_before),
    };
  }

  async #leave(ticket: string): Promise<void> {
    await this.#caller.insist({
      kind: 'leave',
      method: 'DELETE',
      path: '/flash-sale/queue',
      product: this.plan.campaign.product,
      user: this.plan.user,
      headers: { 'x-ticket': ticket },
    });
  }

  async #settle(reservation: string, ticket: string, payBefore: string | null): Promise<void> {
    const { user, campaign } = this.plan;
    const choice = choosePayment(this.#random);
    // Nothing is to be paid: only a refund makes a difference.
    if (payBefore === null && choice.way !== 'abandon') choice.way = 'pay';
    const qty = this.#qty;
    await settle(this.#caller, { product: campaign.product, user, reservation, ticket, payBefore, qty }, choice);
  }
}

/** 200, 201, 202, or 409 with the response to an earlier attempt, which the client did not receive. */
function isPromise({ status, code }: Response): boolean {
  return status === 200 || status === 201 || status === 202 || code === 'duplicate_request';
}

const textOrNull = (value: unknown): string | null => (typeof value === 'string' ? value : null);
