import { createHash, randomBytes } from 'node:crypto';
import { uuidv7 } from 'uuidv7';
import { Problem } from '../../shared/errors/catalogue.js';
import type { Log } from '../../shared/observability/log.js';
import type { ApiKeysTable, StoredKey } from '../../shared/postgres/api-keys.js';
import { writeAudit } from '../../shared/postgres/audit-log.js';
import { KEY_PREFIX } from '../guards/auth/api-keys.js';
import type { KeyCache } from '../guards/auth/key-cache.js';
import { invalidFields } from '../http/validate.js';
import type { KeyBody } from './key.contract.js';

export type Operator = { name: string; requestId: string };

export type KeyDeskDeps = {
  table: ApiKeysTable;
  cache: KeyCache;
  /** Names of the keys in the environment, which the audit log must not confuse with others. */
  reserved: readonly string[];
  nowMs: () => number;
  log: Log;
  limits: { apiKeys: number; apiKeysListed: number };
};

/** API keys: created and revoked by operators, each with an audit entry. Secrets are not stored. */
export class KeyDesk {
  constructor(readonly deps: KeyDeskDeps) {}

  list(all: boolean): Promise<StoredKey[]> {
    return this.deps.table.list(all, this.deps.limits.apiKeysListed);
  }

  /** @returns the key with its secret, which cannot be read again @throws Problem 400 or 409 */
  async create(body: KeyBody, operator: Operator): Promise<{ key: StoredKey; secret: string }> {
    const { table, limits, nowMs, reserved } = this.deps;
    const expiresAt = body.expires_at === null ? null : new Date(body.expires_at);
    if (expiresAt && expiresAt.getTime() <= nowMs())
      throw invalidFields({ pointer: '#/expires_at', detail: 'must be in the future' });
    if (reserved.includes(body.name)) throw nameTaken(body.name);
    const secret = `${KEY_PREFIX}${randomBytes(32).toString('base64url')}`;
    const digest = createHash('sha256').update(secret).digest();
    const wanted = { id: uuidv7(), name: body.name, role: body.role, digest, createdBy: operator.name, expiresAt };
    const key = await table.database.transaction(async (client) => {
      const inserted = await table.insert(wanted, limits.apiKeys, client);
      if (inserted === 'name taken') throw nameTaken(body.name);
      if (inserted === 'limit reached')
        throw new Problem('key_limit', `At most ${limits.apiKeys} keys can be in force.`);
      await writeAudit(client, {
        ...{ actor: operator.name, action: 'key.create', campaignId: null, requestId: operator.requestId },
        before: null,
        after: auditOf(inserted),
      });
      return inserted;
    });
    await this.#refresh();
    return { key, secret };
  }

  /** Revokes a key. Idempotent. @throws Problem 404 */
  async revoke(id: string, operator: Operator): Promise<StoredKey> {
    const { table } = this.deps;
    const revoked = await table.database.transaction(async (client) => {
      const found = await table.revoke(id, operator.name, client);
      if (found?.isNew)
        await writeAudit(client, {
          ...{ actor: operator.name, action: 'key.revoke', campaignId: null, requestId: operator.requestId },
          before: auditOf(found.key),
          after: null,
        });
      return found;
    });
    if (!revoked) throw new Problem('key_not_found', 'No API key has this id.');
    await this.#refresh();
    return revoked.key;
  }

  /** This process uses the change at once, the others at their next read. */
  async #refresh(): Promise<void> {
    await this.deps.cache
      .refresh()
      .catch((error: unknown) => this.deps.log.warn({ reason: String(error) }, 'API keys could not be read'));
  }
}

const nameTaken = (name: string) => new Problem('key_exists', `An API key was named ${name}.`);

const auditOf = ({ id, name, role, expiresAt }: StoredKey): Record<string, unknown> => ({
  ...{ id, name, kind: role === null ? 'service' : 'admin', role },
  expires_at: expiresAt?.toISOString() ?? null,
});
