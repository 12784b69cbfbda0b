import pg from 'pg';
import { Carts } from '../../examples/cart-consumer/cart.js';
import { atEnd } from './cleanup.js';
import { createTestDatabase } from './engines.js';

/** The cart of examples/cart-consumer in a database of its own. `client` is connected to the same database. */
export async function startCarts() {
  const { url, client } = await createTestDatabase(null);
  const another = (): Carts => {
    const pool = new pg.Pool({ connectionString: url, max: 4 });
    // The database may be dropped before the last connection has said that it ends.
    pool.on('error', () => {});
    atEnd('the pool of a cart', () => pool.end());
    return new Carts(pool);
  };
  const carts = another();
  await carts.createTables();
  return { carts, another, url, client };
}
