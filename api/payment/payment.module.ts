import type { Claims } from '../claim/claim.module.js';
import type { Core } from '../core.js';
import type { Auth } from '../guards/auth/auth.module.js';
import type { Route } from '../http/route.js';
import { paymentRoutes } from './payment.route.js';

/** Payment and release of reserved units. */
export function paymentModule(
  { sales, directory, metrics, log }: Core,
  { apiKeys, tickets }: Auth,
  { acknowledgements }: Claims,
): Route[] {
  return paymentRoutes({ sales, directory, acknowledgements, apiKeys, tickets, metrics, log });
}
