import { createHash, timingSafeEqual } from 'node:crypto';
import type { Request } from 'express';
import type { ApiKey } from '../../../shared/config/environment-values.js';
import { covers, type Role } from '../../../shared/domain/role.js';
import { Problem } from '../../../shared/errors/catalogue.js';
import { unavailable } from '../../http/problem.js';
import { networkOf } from '../caller/address.js';
import type { LocalQuota } from '../limits/local-quota.js';
import { rateLimited } from '../limits/quotas.js';
import type { KeyCache } from './key-cache.js';
import type { OperatorSessions } from './operator-sessions.js';
import { roleOf } from './route-roles.js';

type Kind = 'admin' | 'service';
type KnownKey = { kind: Kind; name: string; digest: Buffer };
/** The owner of a secret. `role`: null = a service. */
type Caller = { name: string; role: Role | null };

/** Secrets of keys that operators create begin with this, so that scanners find them in code. */
export const KEY_PREFIX = 'dbk_';

/**
 * Bearer secrets of services and operators: those of the environment, whose operators have every right, and those of
 * the table `api_keys`. They are kept as digests; those of the environment are compared in constant time.
 */
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
    /** Keys that operators created. */
    readonly stored: KeyCache | null = null,
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
   * A call of operators also requires the role of its route (route-roles.ts).
   * @returns the name of the key or the operator, for logs and the audit log
   * @throws Problem 429 if the network has sent too many wrong secrets, 401 if the secret is missing or unknown, 403 if
   * it is of the other kind, if its role is too low, or if another site made a browser call with the session, 503 for a
   * created key if none could be read since the start
   */
  require(req: Request, kind: Kind): string {
    return this.#requireCaller(req, kind).name;
  }

  /**
   * As `require` for a call of operators whose response has less for some roles.
   * @throws Problem as `require` does
   */
  requireOperator(req: Request): { name: string; role: Role } {
    const { name, role } = this.#requireCaller(req, 'admin');
    return { name, role: role ?? 'viewer' };
  }

  #requireCaller(req: Request, kind: Kind): Caller {
    const secret = bearerOf(req);
    if (kind === 'admin' && req.headers.authorization === undefined) {
      const operator = this.sessions?.caller(req);
      if (operator) {
        requireRole(req, operator.role);
        return { name: operator.operator, role: operator.role };
      }
    }
    const found = secret === null ? null : this.#find(secret);
    if (!found) {
      if (secret?.startsWith(KEY_PREFIX) && this.stored?.isLoaded === false) throw unavailable();
      if (secret !== null) this.#countWrong(req);
      throw new Problem(
        'unauthorized',
        secret === null ? 'The Authorization header is missing.' : 'The bearer secret is not valid.',
        {
          headers: { 'WWW-Authenticate': 'Bearer realm="doorbuster"' },
        },
      );
    }
    if ((found.role === null) !== (kind === 'service'))
      throw new Problem('forbidden', `This call requires ${kind === 'admin' ? 'an admin' : 'a service'} key.`);
    if (found.role !== null) requireRole(req, found.role);
    return found;
  }

  #countWrong(req: Request): void {
    const waitMs = this.wrong?.take(networkOf(req)) ?? 0;
    if (!this.wrong || waitMs === 0) return;
    this.onLimited('wrong-key');
    throw rateLimited('wrong-key', this.wrong.limit, this.wrong.windowMs / 1000, waitMs);
  }

  #find(secret: string): Caller | null {
    const given = digest(secret);
    let found: KnownKey | null = null;
    for (const key of this.#keys) if (timingSafeEqual(key.digest, given)) found = key;
    if (found) return { name: found.name, role: found.kind === 'admin' ? 'admin' : null };
    const stored = this.stored?.find(given) ?? null;
    if (stored) this.stored?.used(stored);
    return stored;
  }
}

/** @throws Problem 403 with the role that the call needs */
function requireRole(req: Request, role: Role): void {
  const needed = (req.contract && roleOf(req.contract)) ?? 'admin';
  if (covers(role, needed)) return;
  throw new Problem('forbidden', `This call needs the role ${needed}. The role of this caller is ${role}.`, {
    members: { required_role: needed },
  });
}

/** Returns the bearer secret of a request; null = none. */
export function bearerOf(req: Request): string | null {
  return /^Bearer +(\S+)$/i.exec(req.headers.authorization ?? '')?.[1] ?? null;
}

function digest(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}
