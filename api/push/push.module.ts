import { LIMITS } from '../../shared/config/limits.js';
import { PushSubscriptions } from '../../shared/postgres/push-subscriptions.js';
import type { Core } from '../core.js';
import type { Guards } from '../guards/guards.module.js';
import type { Route } from '../http/route.js';
import { pushRoutes } from './push.route.js';

/** Subscriptions to notifications by Web Push. The worker sends them. */
export function pushModule(
  { config, sales, directory, database, log }: Core,
  { auth: { tickets }, limits }: Pick<Guards, 'auth' | 'limits'>,
): Route[] {
  const quota = limits.quota('push', LIMITS.push.callsPerMinute, 60);
  const subscriptions = new PushSubscriptions(database);
  return pushRoutes({ config: config.push, subscriptions, sales, directory, tickets, quota, log, limits: LIMITS.push });
}
