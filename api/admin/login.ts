import { createHmac, createSecretKey, hkdfSync, type KeyObject, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';
import type { SigningKey } from '../../shared/config/environment-values.js';
import { decodeBase64url } from '../../shared/domain/base64url.js';
import type { Role } from '../../shared/domain/role.js';
import { writeAudit } from '../../shared/postgres/audit-log.js';
import type { OperatorSessionsTable, StoredSession } from '../../shared/postgres/operator-sessions.js';
import type { NamedSessions } from '../guards/auth/named-sessions.js';
import type { LoginAttempt, ProvenOperator } from './oidc.js';

export type Operator = { name: string; requestId: string };
export type LoginDeskDeps = {
  table: OperatorSessionsTable;
  named: NamedSessions;
  limits: { operatorSessionMs: number; sessionsListed: number };
};

/** Sessions of operators who log in with OpenID Connect: opened, listed and ended, each with an audit entry. */
export class LoginDesk {
  constructor(readonly deps: LoginDeskDeps) {}

  /** @returns the value of the cookie, and the name of the operator */
  async open(
    { issuer, subject, names, role }: ProvenOperator & { role: Role },
    requestId: string,
  ): Promise<{ value: string; operator: string }> {
    const { table, named, limits } = this.deps;
    const { value, digest } = named.newToken();
    const operator = await table.database.transaction(async (client) => {
      const { id, name } = await table.operatorOf({ issuer, subject }, names, client);
      const session = await table.open(id, { digest, role, lifeMs: limits.operatorSessionMs }, client);
      await writeAudit(client, {
        ...{ actor: name, action: 'operator.login', campaignId: null, before: null, requestId },
        after: { role, issuer, subject, session_id: session.id },
      });
      return name;
    });
    return { value, operator };
  }

  list(): Promise<StoredSession[]> {
    return this.deps.table.list(this.deps.limits.sessionsListed);
  }

  /** Ends a session. Idempotent. @returns false = there is none */
  async end(id: string, action: 'operator.logout' | 'session.end', by: Operator): Promise<boolean> {
    const { table, named } = this.deps;
    const ended = await table.database.transaction(async (client) => {
      const operator = await table.end(id, by.name, client);
      if (operator)
        await writeAudit(client, {
          ...{ actor: by.name, action, campaignId: null, requestId: by.requestId },
          before: { session_id: id, operator },
          after: null,
        });
      return operator;
    });
    named.forget(id);
    return ended !== undefined;
  }
}

const attemptSchema = z.strictObject({
  state: z.string(),
  nonce: z.string(),
  verifier: z.string(),
  redirectUrl: z.url(),
  expires: z.number(),
});

/** Keeps a login that was begun in a cookie of its browser, so that the service stores nothing for it. */
export class LoginCookies {
  readonly #keys: readonly KeyObject[];

  constructor(
    ticketKeys: readonly SigningKey[],
    readonly lifeMs: number,
    readonly nowMs: () => number,
  ) {
    this.#keys = ticketKeys.map(({ key }) =>
      createSecretKey(Buffer.from(hkdfSync('sha256', key, '', 'doorbuster operator login', 32))),
    );
  }

  seal(attempt: LoginAttempt): string {
    const [key] = this.#keys;
    if (!key) throw new Error('at least one ticket key is needed');
    const text = Buffer.from(JSON.stringify({ ...attempt, expires: this.nowMs() + this.lifeMs })).toString('base64url');
    return `${text}.${macOf(key, text).toString('base64url')}`;
  }

  /** Returns the login in a cookie; null = forged, malformed or too old. */
  unseal(value: string): LoginAttempt | null {
    const [text = '', macText = '', ...rest] = value.split('.');
    const [bytes, mac] = [decodeBase64url(text), decodeBase64url(macText)];
    if (rest.length > 0 || !bytes || !mac) return null;
    const isOurs = this.#keys.some((key) => {
      const expected = macOf(key, text);
      return mac.length === expected.length && timingSafeEqual(mac, expected);
    });
    if (!isOurs) return null;
    // Another version may have made it.
    const parsed = attemptSchema.safeParse(JSON.parse(bytes.toString()));
    if (!parsed.success) return null;
    const { expires, ...attempt } = parsed.data;
    return expires > this.nowMs() ? attempt : null;
  }
}

const macOf = (key: KeyObject, text: string): Buffer => createHmac('sha256', key).update(text).digest();
