// The product's own script of a checkout, called without the product: by the bare server of P1, and by P2 to see what Redis does by itself.
import { join } from 'node:path';
import { uuidv7 } from 'uuidv7';

/**
 * @param {import('ioredis').Redis} redis
 * @param {string} root of the checkout whose script it is
 * @returns {Promise<(checkout: { product: string, user: string, qty: number, device: string, expiresAt: number, key: string }) => (string | number)[]>}
 *   what EVALSHA takes
 */
export async function reserveCall(redis, root) {
  const { scriptSource } = await import(join(root, 'dist/shared/redis/script-runner.js'));
  const { campaignKeys, keys } = await import(join(root, 'dist/shared/redis/keys.js'));
  const sha = String(await redis.script('LOAD', scriptSource(join(root, 'lua'), 'reserve')));
  /** @type {Map<string, string[]>} */
  const ready = new Map();
  const keysOf = (/** @type {string} */ product) => {
    const made = ready.get(product) ?? campaignKeys(product);
    ready.set(product, made);
    return made;
  };
  return ({ product, user, qty, device, expiresAt, key }) => [
    sha,
    12,
    ...keysOf(product),
    keys.journal,
    keys.idempotency(key),
    keys.device(device),
    keys.once(product, ''),
    keys.epoch,
    user,
    qty,
    uuidv7().slice(0, 28),
    '',
    'genuine',
    expiresAt,
    key,
    86_400_000,
    't1',
    2_000_000,
    device,
    20,
    1_000,
    '',
    '',
    '',
    0,
    0,
    0,
  ];
}
