import { LIMITS } from '../../../shared/config/limits.js';
import { ApiKeysTable } from '../../../shared/postgres/api-keys.js';
import { OperatorSessionsTable } from '../../../shared/postgres/operator-sessions.js';
import type { Core } from '../../core.js';
import { LocalQuota } from '../limits/local-quota.js';
import { ApiKeys } from './api-keys.js';
import { KeyCache } from './key-cache.js';
import { NamedSessions } from './named-sessions.js';
import { OperatorSessions } from './operator-sessions.js';
import { ShopperIdentity } from './shopper-identity.js';
import { Tickets } from './ticket.js';

/** Identifies callers: shoppers, services and operators. */
export type Auth = {
  tickets: Tickets;
  apiKeys: ApiKeys;
  sessions: OperatorSessions;
  /** Sessions of operators who logged in with OpenID Connect; null = it is not configured. */
  named: NamedSessions | null;
  /** Keys that operators created. */
  storedKeys: KeyCache;
  shopper: ShopperIdentity;
};

export function authModule({ config, clock, metrics, database, life, log }: Core): Auth {
  const nowMs = () => clock.nowMs();
  const storedKeys = new KeyCache({ table: new ApiKeysTable(database), nowMs, log, limits: LIMITS.auth });
  // A process that reads serves no call that needs a key.
  if (config.apiRole !== 'read') life.add('API keys', storedKeys);
  const { operatorSessionMs, operatorIdleMs } = LIMITS.auth;
  const { adminKeys, ticketKeys } = config;
  const table = new OperatorSessionsTable(database, operatorIdleMs);
  const named = config.oidc && new NamedSessions({ table, ticketKeys, nowMs, limits: LIMITS.auth });
  const sessions = new OperatorSessions(adminKeys, ticketKeys, operatorSessionMs, nowMs, storedKeys, named);
  return {
    tickets: new Tickets(config.ticketKeys),
    apiKeys: new ApiKeys(
      config.adminKeys,
      config.serviceKeys,
      new LocalQuota(config.wrongKeysPerMinute, 60_000, LIMITS.abuse.callersKept),
      (policy) => metrics.limited.inc({ policy }),
      sessions,
      storedKeys,
    ),
    sessions,
    named,
    storedKeys,
    shopper: new ShopperIdentity(config.identity, clock),
  };
}
