import type { Redis } from 'ioredis';
import type { OrderId, ProductId, UserId } from '../domain/ids.js';
import { EngineUnavailable } from '../errors/faults.js';
import { keys } from '../redis/keys.js';

/** A reservation, or the future reservation of a place in line. */
export type Named = { reservation: string; user: string; order: string };

/**
 * The references of the payments of those of these reservations that have any; for each reservation, the oldest first.
 * An empty list marks a reservation whose deadline was extended.
 */
export async function paymentsInRedis(
  redis: Redis,
  product: ProductId,
  reservations: readonly string[],
): Promise<ReadonlyMap<string, readonly string[]>> {
  if (reservations.length === 0) return new Map();
  const texts = await engine(() => redis.hmget(keys.payments(product), ...reservations));
  return new Map(reservations.flatMap((id, i) => (texts[i] ? [[id, JSON.parse(texts[i]) as string[]] as const] : [])));
}

/**
 * The claims of these reservations on their orders (lua/includes/orders.lua). Reservations without a claim are left
 * out.
 */
export async function stackingInRedis(
  redis: Redis,
  named: readonly Named[],
): Promise<{ reservation: string; stacking: string }[]> {
  if (named.length === 0) return [];
  const names = named.map(({ user, order }) => keys.order(user as UserId, order as OrderId));
  const texts = await engine(() => redis.mget(...names));
  return named.flatMap(({ reservation }, i) => {
    const claim = (texts[i] ?? '').split(',').find((one) => one.startsWith(`${reservation}=`));
    return claim ? [{ reservation, stacking: claim.slice(reservation.length + 1) }] : [];
  });
}

async function engine<Value>(call: () => Promise<Value>): Promise<Value> {
  try {
    return await call();
  } catch (error) {
    throw EngineUnavailable.from('redis', error);
  }
}
