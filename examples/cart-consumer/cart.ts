import type { Redis } from 'ioredis';
import type { Event } from '../read-events.js';

export type AppliedDiscount = { order: string; qty: number; discount: unknown; state: 'applied' | 'reversed' };

const REDEEMED = 'dev.doorbuster.redemption.redeemed.v1';
const TAKEN_BACK = ['dev.doorbuster.redemption.refunded.v1', 'dev.doorbuster.redemption.voided.v1'];

/**
 * Carts with their discounts: one hash, reservation → what it did to which order. A reservation is redeemed once and
 * taken back once, so its id is all that is needed to do each of them once, however often the event comes.
 */
export class Carts {
  constructor(
    readonly redis: Redis,
    readonly key: string,
  ) {}

  async handle({ type, data }: Event): Promise<void> {
    const reservation = String(data.reservation_id);
    const record = (state: AppliedDiscount['state']): string =>
      JSON.stringify({ order: data.order_id, qty: data.qty, discount: data.discount, state });
    // Only the first time. After it was taken back the field is there too, so a late repetition does not apply it
    // again.
    if (type === REDEEMED) await this.redis.hsetnx(this.key, reservation, record('applied'));
    if (TAKEN_BACK.includes(type)) await this.redis.hset(this.key, reservation, record('reversed'));
  }

  /** Discounts in force for an order. */
  async discounts(order: string): Promise<AppliedDiscount[]> {
    const all = (await this.redis.hvals(this.key)).map((text) => JSON.parse(text) as AppliedDiscount);
    return all.filter((one) => one.order === order && one.state === 'applied');
  }
}
