import { expect, test } from '@jest/globals';
import { keys } from './keys.js';

// Ids of clients have these characters besides letters and digits (EXTERNAL_ID_PATTERN, idempotency keys).
const OF_NAMES = ['.', '_', ':', '@', '-', '~'];

/** The keys that join two names which clients choose. */
const JOINED: Record<string, (one: string, other: string) => string> = {
  idempotency: (user, key) => keys.idempotency(user as never, key as never),
  order: (user, order) => keys.order(user as never, order as never),
  once: (product, nonce) => keys.once(product as never, nonce),
};

test.each(Object.keys(JOINED))('%s never equals the key of two other names', (name) => {
  const join = JOINED[name] as (typeof JOINED)[string];
  for (const between of OF_NAMES) expect(join(`a${between}b`, 'c')).not.toBe(join('a', `b${between}c`));
});
