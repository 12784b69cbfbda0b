import { createHash, timingSafeEqual } from 'node:crypto';
import type { Request } from 'express';
import type { ApiKey } from '../../../shared/config/environment-values.js';
import { Problem } from '../../../shared/errors/catalogue.js';
import { networkOf } from '../caller/address.js';
import type { LocalQuota } from '../limits/local-quota.js';
import { rateLimited } from '../limits/quotas.js';
import type { OperatorSessions } from './operator-sessions.js';

type Kind = 'admin' | 'service';
type KnownKey = { kind: Kind; name: string; digest: Buffer };

/** Bearer secrets of services and operators. They are stored as digests; each check compares all in constant time. */
export class ApiKeys {
  readonly #keys: readonly KnownKey[];

  /** @param wrong counts wrong secrets by network; null = they are not counted */
  constructor(
    admin: readonly ApiKey[],
    service: readonly ApiKey[],
    readonly wrong: LocalQuota | null = null,
    readonly onLimited: (policy: string) => void = () => {},
    /** Sessions replace an admin key in requests without a bearer secret. */
    readonly sessions: OperatorSessions | null = null,
  ) {
    const known = (kind: Kind) => (key: ApiKey) => ({ kind, name: key.name, digest: digest(key.secret) });
    this.#keys = [...admin.map(known('admin')), ...service.map(known('service'))];
  }

  /** Whether the request has a bearer secret. */
  presented(req: Request): boolean {
    return bearerOf(req) !== null;
  }

  /**
   * Requires a key of a kind. Only wrong secrets are limited, so that a valid secret works whatever else its network
   * sends. A secret has at least 16 characters, so that guessing is hopeless.
   * @returns the name of the key, for logs and the audit log
   * @throws Problem 429 if the network has sent too many wrong secrets, 401 if the secret is missing or unknown, 403 if
   * it is of the other kind or if another site made a browser call with the session
   */
  require(req: Request, kind: Kind): string {
    const secret = bearerOf(req);
    if (kind === 'admin' && req.headers.authorization === undefined) {
      const operator = this.sessions?.caller(req);
      if (operator) return operator;
    }
    const found = secret === null ? null : this.#find(secret);
    if (!found) {
      if (secret !== null) this.#countWrong(req);
      throw new Problem(
        'unauthorized',
        secret === null ? 'The Authorization header is missing.' : 'The bearer secret is not valid.',
        {
          headers: { 'WWW-Authenticate': 'Bearer realm="doorbuster"' },
        },
      );
    }
    if (found.kind !== kind)
      throw new Problem('forbidden', `This call requires ${kind === 'admin' ? 'an admin' : 'a service'} key.`);
    return found.name;
  }

  #countWrong(req: Request): void {
    const waitMs = this.wrong?.take(networkOf(req)) ?? 0;
    if (!this.wrong || waitMs === 0) return;
    this.onLimited('wrong-key');
    throw rateLimited('wrong-key', this.wrong.limit, this.wrong.windowMs / 1000, waitMs);
  }

  #find(secret: string): KnownKey | null {
    const given = digest(secret);
    let found: KnownKey | null = null;
    for (const key of this.#keys) if (timingSafeEqual(key.digest, given)) found = key;
    return found;
  }
}

/** Returns the bearer secret of a request; null = none. */
export function bearerOf(req: Request): string | null {
  return /^Bearer +(\S+)$/i.exec(req.headers.authorization ?? '')?.[1] ?? null;
}

function digest(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}
