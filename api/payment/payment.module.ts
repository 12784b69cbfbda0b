import type { Claims } from '../claim/claim.module.js';
import type { Core } from '../core.js';
import type { Auth } from '../guards/auth/auth.module.js';
import type { Route } from '../http/route.js';
import { paymentRoutes } from './payment.route.js';

/** Payment and release of reserved units. */
export function paymentModule(
  { sale, directory, metrics, log }: Core,
  { apiKeys, tickets }: Auth,
  { acknowledgement }: Claims,
): Route[] {
  return paymentRoutes({ sale, directory, acknowledgement, apiKeys, tickets, metrics, log });
}
