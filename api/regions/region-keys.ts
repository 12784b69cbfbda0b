import { createHash, timingSafeEqual } from 'node:crypto';
import type { Request } from 'express';
import type { ApiKey } from '../../shared/config/environment-values.js';
import { Problem } from '../../shared/errors/catalogue.js';
import { networkOf } from '../guards/caller/address.js';
import type { LocalQuota } from '../guards/limits/local-quota.js';
import { rateLimited } from '../guards/limits/quotas.js';
import { KEY_HEADER } from './region.contract.js';

/** The secrets of calls between regions. They have a header of their own, because a forwarded call has its bearer. */
export class RegionKeys {
  readonly #digests: readonly Buffer[];

  /** @param wrong counts wrong secrets by network */
  constructor(
    keys: readonly ApiKey[],
    readonly wrong: LocalQuota,
  ) {
    this.#digests = keys.map(({ secret }) => digest(secret));
  }

  /** @throws Problem 401, or 429 when the network has sent too many wrong secrets */
  require(req: Request): void {
    const given = digest(String(req.headers[KEY_HEADER] ?? ''));
    let isKnown = false;
    for (const known of this.#digests) if (timingSafeEqual(known, given)) isKnown = true;
    if (isKnown) return;
    const waitMs = req.headers[KEY_HEADER] === undefined ? 0 : this.wrong.take(networkOf(req));
    if (waitMs > 0) throw rateLimited('wrong-key', this.wrong.limit, this.wrong.windowMs / 1000, waitMs);
    throw new Problem('unauthorized', 'The secret in Doorbuster-Region-Key is missing or not valid.', {
      headers: { 'WWW-Authenticate': 'DoorbusterRegion realm="doorbuster"' },
    });
  }
}

function digest(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}
