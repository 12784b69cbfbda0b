import type { RedisOptions } from 'ioredis';
import type { RedisTarget, Tls } from './redis-target.js';

export type ConnectionLimits = {
  /** Closes a connection for commands if an expected reply does not arrive for this time. */
  commandMs: number;
  connectMs: number;
};

/**
 * Time after which a closing connection is destroyed. Replies in flight can still arrive, but an unreachable server
 * does not delay the reconnect or the end of the process.
 */
const CLOSE_MS = 100;
/** Retry interval while a restarted server loads its data. A longer one would only delay the recovery. */
const LOADING_RETRY_MS = 250;

/** Delay before the next attempt to reconnect, at most 250 ms. Attempts never end, so no operator has to intervene. */
const reconnectDelayMs = (attempt: number): number => Math.min(250, 50 * 2 ** Math.min(attempt, 6));

/** Options of every connection. */
export const COMMON_OPTIONS = {
  replyMapping: 'legacy',
  retryStrategy: reconnectDelayMs,
  noDelay: true,
  lazyConnect: true,
  disconnectTimeout: CLOSE_MS,
  maxLoadingRetryTime: LOADING_RETRY_MS,
} as const satisfies RedisOptions;

/**
 * Options by which a connection finds its server.
 * @param connector finds the server of a slot; only on a cluster
 */
export function addressOptions(
  target: RedisTarget,
  limits: ConnectionLimits,
  connector: RedisOptions['Connector'],
): RedisOptions {
  const secured = { ...loginOptions(target), ...tlsOptions(target.tls) };
  if (target.kind === 'cluster') return { ...secured, Connector: connector };
  const common = { ...secured, db: target.db };
  if (target.kind === 'server') return { ...common, ...target.server };
  return {
    ...common,
    sentinels: [...target.sentinels],
    name: target.name,
    role: 'master',
    // ioredis's failoverDetector ends clients for good if a failover coincides with a reconnect; see SentinelWatch.
    failoverDetector: false,
    enableTLSForSentinelMode: target.tls !== null,
    sentinelRetryStrategy: reconnectDelayMs,
    sentinelCommandTimeout: limits.commandMs,
    ...(target.sentinelLogin.username ? { sentinelUsername: target.sentinelLogin.username } : {}),
    ...(target.sentinelLogin.password ? { sentinelPassword: target.sentinelLogin.password } : {}),
    ...(target.sentinelTls ? { sentinelTLS: tlsOptions(target.sentinelTls).tls ?? {} } : {}),
  };
}

export function loginOptions({
  username,
  password,
}: {
  username: string | null;
  password: string | null;
}): RedisOptions {
  return { ...(username === null ? {} : { username }), ...(password === null ? {} : { password }) };
}

export function tlsOptions(tls: Tls | null): RedisOptions {
  if (tls === null) return {};
  return { tls: tls.ca === null ? {} : { ca: tls.ca } };
}
