import { LIMITS } from '../../shared/config/limits.js';
import type { Claims } from '../claim/claim.module.js';
import type { Core } from '../core.js';
import type { Guards } from '../guards/guards.module.js';
import { LocalQuota } from '../guards/limits/local-quota.js';
import { OpenCounts } from '../guards/limits/open-counts.js';
import type { Cors } from '../http/cors.js';
import { Gateway } from './gateway.js';
import { LeaveElsewhere } from './leave-elsewhere.js';

/** Sockets of shoppers. `servers.ts` drains and ends them with their server. */
export function realtimeModule(
  { config, sales, directory, clock, shards, metrics, log, life }: Core,
  { auth: { tickets }, limits }: Pick<Guards, 'auth' | 'limits'>,
  { acknowledgements, codeTexts, payLinks }: Claims,
  cors: Cors,
): Gateway {
  const byNetwork = (limit: number, windowMs: number) => new LocalQuota(limit, windowMs, LIMITS.abuse.callersKept);
  const elsewhere = config.apiWriteUrl === null ? null : new LeaveElsewhere(config.apiWriteUrl, log);
  if (elsewhere) life.add('calls of the processes that write', { stop: () => elsewhere.close() });
  return new Gateway({
    sales,
    directory,
    acknowledgements,
    codeTexts,
    payLinks,
    clock,
    tickets,
    socketQuota: byNetwork(config.socketsPerMinute, 60_000),
    frameQuota: byNetwork(config.socketFramesPer10s, 10_000),
    socketsOpen: new OpenCounts(LIMITS.sockets.perNetwork),
    shards,
    cors,
    degradation: limits.degradation,
    role: config.apiRole,
    elsewhere,
    metrics,
    log,
  });
}
