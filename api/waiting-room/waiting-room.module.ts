import { LIMITS } from '../../shared/config/limits.js';
import type { Claims } from '../claim/claim.module.js';
import type { Core } from '../core.js';
import type { Guards } from '../guards/guards.module.js';
import type { Route } from '../http/route.js';
import { leaveRoute } from './leave.route.js';
import { lineRoute } from './line.route.js';
import { queueStatusRoute } from './queue-status.route.js';
import { StandingSnapshots } from './standing-snapshots.js';

/** The position of a user in the line, and leaving the line. */
export function waitingRoomModule(
  { sales, directory, clock, log }: Core,
  { auth: { tickets, shopper }, limits }: Pick<Guards, 'auth' | 'limits'>,
  { acknowledgements, codeTexts, payLinks }: Claims,
): Route[] {
  return [
    queueStatusRoute({
      ...{ sales, directory, acknowledgements, tickets, codeTexts, payLinks, shopper, quota: limits.pollQuota },
      ...{ degradation: limits.degradation, snapshots: new StandingSnapshots(LIMITS.line) },
    }),
    lineRoute({ sales, clock }),
    leaveRoute({ sales, directory, acknowledgements, tickets, log }),
  ];
}
