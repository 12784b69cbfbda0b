import { LIMITS } from '../../../shared/config/limits.js';
import type { Core } from '../../core.js';
import { LocalQuota } from '../limits/local-quota.js';
import { ApiKeys } from './api-keys.js';
import { OperatorSessions } from './operator-sessions.js';
import { ShopperIdentity } from './shopper-identity.js';
import { Tickets } from './ticket.js';

/** Identifies callers: shoppers, services and operators. */
export type Auth = {
  tickets: Tickets;
  apiKeys: ApiKeys;
  sessions: OperatorSessions;
  shopper: ShopperIdentity;
};

export function authModule({ config, clock, metrics }: Core): Auth {
  const sessions = new OperatorSessions(config.adminKeys, config.ticketKeys, LIMITS.operatorSessionMs, () =>
    clock.nowMs(),
  );
  return {
    tickets: new Tickets(config.ticketKeys),
    apiKeys: new ApiKeys(
      config.adminKeys,
      config.serviceKeys,
      new LocalQuota(config.wrongKeysPerMinute, 60_000, LIMITS.callersKept),
      (policy) => metrics.limited.inc({ policy }),
      sessions,
    ),
    sessions,
    shopper: new ShopperIdentity(config.identity, clock),
  };
}
