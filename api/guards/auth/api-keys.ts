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

/** Bearer secrets of services and operators, kept and compared as digests, all of them, in constant time. */
export class ApiKeys {
  readonly #keys: readonly KnownKey[];

  /** @param wrong counts wrong secrets by network; null = they are not counted */
  constructor(
    admin: readonly ApiKey[],
    service: readonly ApiKey[],
    readonly wrong: LocalQuota | null = null,
    readonly onLimited: (policy: string) => void = () => {},
    /** Stand for an admin key where no bearer is sent. */
    readonly sessions: OperatorSessions | null = null,
  ) {
    const known = (kind: Kind) => (key: ApiKey) => ({ kind, name: key.name, digest: digest(key.secret) });
    this.#keys = [...admin.map(known('admin')), ...service.map(known('service'))];
  }

  /** Whether the request carries a bearer secret at all. */
  presented(req: Request): boolean {
    return bearerOf(req) !== null;
  }

  /**
   * Compares first and limits only wrong secrets, so that a right one works whatever else comes from its network: a secret has at
   * least 16 characters and is not found by trying.
   * @returns the key's name, for logs and the audit log
   * @throws Problem 429 when too many wrong ones came from its network, 401 when the secret is missing or unknown, 403 when it is of the other
   * kind or another site made a browser call with its session
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
        secret === null ? 'The Authorization header is missing.' : 'The secret is unknown.',
        {
          headers: { 'WWW-Authenticate': 'Bearer realm="doorbuster"' },
        },
      );
    }
    if (found.kind !== kind) throw new Problem('forbidden', `A key of kind ${kind} is needed.`);
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

/** The bearer secret of a request; null when there is none. */
export function bearerOf(req: Request): string | null {
  return /^Bearer +(\S+)$/i.exec(req.headers.authorization ?? '')?.[1] ?? null;
}

function digest(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}
