import type pg from 'pg';
import type { Event } from '../read-events.js';
import { readSql } from '../read-sql.js';

export type Discount =
  | { kind: 'percent'; percent: number }
  | { kind: 'amount'; amount: number; currency: string }
  | { kind: 'free_shipping' };
export type Cart = { subtotal: number; discount: number; freeShipping: boolean; total: number };
/** A reservation whose discount is in force. */
export type Applied = { qty: number; discount: Discount };

const of = (name: string): string => `dev.doorbuster.redemption.${name}.v1`;
const REDEEMED = of('redeemed');
const TAKEN_BACK = [of('refunded'), of('voided')];
const RELEVANT = [REDEEMED, of('reduced'), ...TAKEN_BACK];

/** Locks the cart until the transaction ends, also one that the shop has not stored yet. */
const LOCK = `INSERT INTO carts (order_id) VALUES ($1)
  ON CONFLICT (order_id) DO UPDATE SET order_id = excluded.order_id`;

/**
 * No value ever goes back: a discount stays, a reservation that is taken back stays so, and its units become fewer. So
 * events may come again and in any order. The discount is that of the redemption, whatever the campaign has later.
 */
const NOTE = `INSERT INTO cart_reservations AS known (reservation_id, order_id, qty, discount, taken_back)
  VALUES ($1, $2, $3, $4, $5)
  ON CONFLICT (reservation_id) DO UPDATE SET
    qty = least(known.qty, excluded.qty),
    discount = coalesce(known.discount, excluded.discount),
    taken_back = known.taken_back OR excluded.taken_back`;

const IN_FORCE = `SELECT qty, discount FROM cart_reservations
  WHERE order_id = $1 AND discount IS NOT NULL AND NOT taken_back ORDER BY reservation_id`;

/** Carts with the discounts that Doorbuster granted, in Postgres. */
export class Carts {
  constructor(readonly pool: pg.Pool) {}

  /** Several consumers may start at once. */
  async createTables(): Promise<void> {
    await this.pool.query(`SELECT pg_advisory_xact_lock(8317); ${readSql(import.meta.url, 'schema.sql')}`);
  }

  /** Stores what a cart costs before discounts, before or after their events. A shop calls it when the cart changes. */
  async setSubtotal(order: string, subtotal: number, currency: string): Promise<void> {
    await this.#change(order, (client) =>
      client.query('UPDATE carts SET subtotal = $2, currency = $3, discount = 0 WHERE order_id = $1', [
        order,
        subtotal,
        currency,
      ]),
    );
  }

  /** Applies an event, or takes its discount back. May be called again with the same event. */
  async handle({ type, data }: Event): Promise<void> {
    if (!RELEVANT.includes(type)) return;
    const order = String(data.order_id);
    const discount = type === REDEEMED && data.discount ? JSON.stringify(data.discount) : null;
    const isTakenBack = TAKEN_BACK.includes(type);
    await this.#change(order, (client) =>
      client.query(NOTE, [data.reservation_id, order, data.qty, discount, isTakenBack]),
    );
  }

  /** @returns null = no such cart */
  async read(order: string): Promise<Cart | null> {
    const { rows } = await this.pool.query('SELECT * FROM carts WHERE order_id = $1', [order]);
    if (!rows[0]) return null;
    const { subtotal, discount, free_shipping: freeShipping, total } = rows[0];
    return { subtotal: Number(subtotal), discount: Number(discount), freeShipping, total: Number(total) };
  }

  /** Makes a change and computes the discount of the cart anew, in one transaction. */
  async #change(order: string, change: (client: pg.PoolClient) => Promise<unknown>): Promise<void> {
    const client = await this.pool.connect();
    try {
      await client.query('BEGIN');
      await client.query(LOCK, [order]);
      await change(client);
      const cart = await client.query('SELECT subtotal, currency FROM carts WHERE order_id = $1', [order]);
      const applied = await client.query<Applied>(IN_FORCE, [order]);
      const { subtotal, currency } = cart.rows[0];
      const { discount, freeShipping } = discountOf(Number(subtotal), currency, applied.rows);
      const values = [order, discount, freeShipping];
      await client.query('UPDATE carts SET discount = $2, free_shipping = $3 WHERE order_id = $1', values);
      await client.query('COMMIT');
    } catch (error) {
      // Closes the connection, which rolls back.
      client.release(true);
      throw error;
    }
    client.release();
  }
}

/**
 * What discounts take off a subtotal, one after the other, each from what is left: percentages, rounded half up, then
 * amounts in the currency of the cart, for each unit.
 */
export function discountOf(subtotal: number, currency: string | null, applied: readonly Applied[]) {
  let left = subtotal;
  for (const { discount } of applied)
    if (discount.kind === 'percent') left -= Math.round((left * Math.round(discount.percent * 100)) / 10_000);
  for (const { discount, qty } of applied)
    if (discount.kind === 'amount' && discount.currency === currency) left -= Math.min(left, discount.amount * qty);
  const freeShipping = applied.some(({ discount }) => discount.kind === 'free_shipping');
  return { discount: subtotal - left, freeShipping };
}
