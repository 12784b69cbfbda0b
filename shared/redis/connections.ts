import { isIP } from 'node:net';
import slotOf from 'cluster-key-slot';
import { Redis, type RedisOptions } from 'ioredis';
import { shardPrefix } from '../domain/shards.js';
import { runEvery } from '../observability/shared-interval.js';
import { ClusterNodes, clusterConnector } from './cluster-connector.js';
import {
  addressOptions,
  COMMON_OPTIONS,
  type ConnectionLimits,
  loginOptions,
  tlsOptions,
} from './connection-options.js';
import { type HostAndPort, parseRedisUrl, type RedisTarget } from './redis-target.js';
import { SentinelWatch } from './sentinel-watch.js';

export type OnRedisError = (purpose: string, error: Error) => void;
/** Minimum time between two departures from a server. */
const LEAVE_EVERY_MS = 250;
/** Above the longest block of BullMQ (10 s). A jobs connection that is silent for longer has lost its server. */
const JOBS_SILENCE_MS = 15_000;
/** How often subscriptions are pinged, because they are silent while nothing is published. */
const PING_SUBSCRIPTIONS_EVERY_MS = 2_000;
const SUBSCRIPTION_SILENCE_MS = 5_000;
/**
 * Error replies of a server that is not the primary. Scripts and Redis 6 wrap the code: `ERR Error running script …:
 * -READONLY …`. A blocked client gets UNBLOCKED when its server is demoted. A node of a cluster replies MOVED when
 * another one has the slot.
 */
const NOT_PRIMARY =
  /^(?:ERR .*-)?(?:READONLY|MASTERDOWN|LOADING|UNKILLABLE|MOVED)\b|^UNBLOCKED .*instance state changed/;

export function isNotPrimaryError(error: Error): boolean {
  return NOT_PRIMARY.test(error.message);
}

/** Options of a connection whose commands fail at once during an outage. */
const AT_ONCE = {
  enableAutoPipelining: true,
  enableOfflineQueue: false,
  maxRetriesPerRequest: 0,
  // A command without a reply may have been executed, so the caller decides whether to retry it.
  autoResendUnfulfilledCommands: false,
} as const satisfies RedisOptions;

type Purpose = 'commands' | 'jobs' | 'subscription';
type Made = {
  redis: Redis;
  purpose: Purpose;
  /** Start of the current or last attempt to connect. */
  attemptAt: number;
  /** The closing socket; replies on it are ignored. */
  left: unknown;
  leaveWhenConnected: boolean;
};

/** What a shard is for its connections: what precedes its keys, which all have its tag. */
export type KeyPrefix = string;

/**
 * Creates every connection of a process to one shard, and makes all of them leave a server together. After a failover
 * the old primary may stay reachable. The first connection that detects the demotion moves the others, some of which
 * never would detect it (a subscription, a blocking read that a replica serves as well).
 *
 * The kinds differ in their behaviour during an outage of Redis. No other module creates connections.
 */
export class RedisConnections {
  readonly #made = new Set<Made>();
  readonly #address: RedisOptions;
  readonly #sentinels: SentinelWatch | null;
  readonly #endPings: () => void;
  #leftAt = Number.NEGATIVE_INFINITY;
  /** Time of the last request to leave. Connections that were started later stay. */
  #leaveBefore = Number.NEGATIVE_INFINITY;
  #leaveLater: NodeJS.Timeout | null = null;
  #closed = false;

  constructor(
    readonly target: RedisTarget,
    readonly limits: ConnectionLimits,
    readonly onError: OnRedisError,
    /** Called when connections leave their server. */
    readonly onLeave: (reason: string) => void = () => {},
    /** Precedes every key of these connections, in scripts as well, but not the names of unsharded channels. */
    readonly prefix: KeyPrefix = firstPrefix(target),
  ) {
    const connector =
      target.kind === 'cluster' ? clusterConnector(this.#clusterNodes(target), slotOf(prefix)) : undefined;
    this.#address = addressOptions(target, limits, connector);
    this.#sentinels =
      target.kind === 'sentinel'
        ? new SentinelWatch(target.name, this.#sentinelClients(target), (address, decided) =>
            this.#leaveUnlessAt(address, decided),
          )
        : null;
    this.#endPings = runEvery(PING_SUBSCRIPTIONS_EVERY_MS, () => this.#pingSubscriptions());
  }

  /**
   * Creates a connection for requests, for which a shopper waits: commands fail at once during an outage of Redis, and
   * after a deadline if Redis hangs.
   */
  forCommands(): Redis {
    return this.#connect('commands', {
      ...AT_ONCE,
      keyPrefix: this.prefix,
      // Closes a connection without replies and rejects its commands. A timer per command would cost as much as sending
      // it. Calls of requests have their own, shorter limit (deadline.ts).
      socketTimeout: this.limits.commandMs,
    });
  }

  /** Creates a connection for BullMQ: commands wait for the end of an outage, because jobs stay due. */
  forJobs(): Redis {
    return this.#connect('jobs', { maxRetriesPerRequest: null, socketTimeout: JOBS_SILENCE_MS });
  }

  /** Creates a connection for BullMQ that adds jobs for requests: commands fail at once during an outage. */
  forQueues(): Redis {
    return this.#connect('commands', { ...AT_ONCE, socketTimeout: this.limits.commandMs });
  }

  /** Creates a connection for blocking reads, which wait for the end of an outage. */
  forBlockingReads(): Redis {
    return this.#connect('jobs', {
      keyPrefix: this.prefix,
      maxRetriesPerRequest: null,
      socketTimeout: JOBS_SILENCE_MS,
    });
  }

  /**
   * Creates a connection for pub/sub, which subscribes again after every reconnect. Messages in between are lost, so
   * the subscriber must read their content elsewhere.
   */
  forSubscription(): Redis {
    return this.#connect('subscription', {
      keyPrefix: this.prefix,
      maxRetriesPerRequest: null,
      autoResubscribe: true,
      socketTimeout: SUBSCRIPTION_SILENCE_MS,
    });
  }

  /**
   * Closes every connection that was started before now, including BullMQ's copies, so that each finds the primary
   * again. This happens at most once per 250 ms. An earlier call takes effect at the end of that time and does not
   * affect connections that were started in between.
   */
  leaveServer(reason: string): void {
    if (this.#closed) return;
    this.#leaveBefore = performance.now();
    if (this.#leaveLater) return;
    const leave = () => {
      this.#leaveLater = null;
      this.#leftAt = performance.now();
      this.onLeave(reason);
      for (const made of this.#made) if (made.attemptAt <= this.#leaveBefore) this.#leave(made);
    };
    const waitMs = this.#leftAt + LEAVE_EVERY_MS - this.#leaveBefore;
    if (waitMs <= 0) leave();
    else this.#leaveLater = setTimeout(leave, waitMs).unref();
  }

  /** Closes all connections for good. */
  close(): void {
    this.#closed = true;
    this.#endPings();
    if (this.#leaveLater) clearTimeout(this.#leaveLater);
    this.#sentinels?.stop();
    for (const { redis } of this.#made) redis.disconnect();
  }

  #connect(purpose: Purpose, options: RedisOptions): Redis {
    const redis = new Redis({
      ...this.#address,
      ...options,
      ...COMMON_OPTIONS,
      connectTimeout: this.limits.connectMs,
      connectionName: `doorbuster:${purpose}`,
    });
    // Without a listener, ioredis prints every failed attempt to the console.
    redis.on('error', (error: Error) => this.onError(purpose, error));
    redis.on('sentinelError', (error: Error) => this.onError(purpose, error));
    this.#register(redis, purpose);
    redis.connect().catch((error: Error) => this.onError(purpose, error));
    return redis;
  }

  #register(redis: Redis, purpose: Purpose): void {
    const made: Made = { redis, purpose, attemptAt: performance.now(), left: null, leaveWhenConnected: false };
    redis.options.reconnectOnError = (error) => this.#onReplyError(made, error);
    // BullMQ copies a worker's connection for its blocking reads.
    redis.duplicate = (override) => {
      const copy = Redis.prototype.duplicate.call(redis, override);
      // The original connection reports the same errors.
      copy.on('error', () => {});
      this.#register(copy, purpose);
      return copy;
    };
    redis.on('connecting', () => {
      made.attemptAt = performance.now();
      made.leaveWhenConnected = false;
      this.#made.add(made);
    });
    redis.on('connect', () => {
      if (made.leaveWhenConnected) this.#leave(made);
    });
    redis.on('end', () => this.#made.delete(made));
    this.#made.add(made);
  }

  /**
   * Returns false, so that ioredis does not close the connection for each of a thousand pipelined replies. It also must
   * not resend the command, because a script that failed with such a reply may have written before.
   */
  #onReplyError(made: Made, error: Error): false {
    if (!isNotPrimaryError(error) || made.left === made.redis.stream) return false;
    this.#leave(made);
    this.leaveServer(`${made.purpose}: ${error.message}`);
    return false;
  }

  #leave(made: Made): void {
    const { redis } = made;
    if (redis.status === 'connecting') {
      // ioredis ends a client for good if `disconnect` is called while it asks the Sentinels for the primary.
      made.leaveWhenConnected = true;
    } else if ((redis.status === 'connect' || redis.status === 'ready') && made.left !== redis.stream) {
      made.left = redis.stream;
      redis.disconnect(true);
    }
  }

  /** Closes the connections to every server except the one that the Sentinels name. */
  #leaveUnlessAt({ host, port }: HostAndPort, decided: boolean): void {
    if (isIP(host) === 0) {
      // These Sentinels announce host names, which cannot be compared with the address of a socket.
      if (decided) this.leaveServer(`the Sentinels name ${host}:${port}`);
      return;
    }
    const elsewhere = [...this.#made].filter(({ redis, left }) => {
      if ((redis.status !== 'connect' && redis.status !== 'ready') || left === redis.stream) return false;
      const { remoteAddress, remotePort } = redis.stream as { remoteAddress?: string; remotePort?: number };
      return remoteAddress?.replace(/^::ffff:/, '') !== host || remotePort !== port;
    });
    if (elsewhere.length === 0) return;
    this.onLeave(`the Sentinels name ${host}:${port}`);
    for (const made of elsewhere) this.#leave(made);
  }

  #pingSubscriptions(): void {
    for (const { redis, purpose } of this.#made) {
      // The socketTimeout closes a connection that does not reply.
      if (purpose === 'subscription' && redis.status === 'ready') redis.ping().catch(() => {});
    }
  }

  /** The nodes of a cluster. Each is asked over a connection of its own, which ends after the reply. */
  #clusterNodes(target: RedisTarget & { kind: 'cluster' }): ClusterNodes {
    return new ClusterNodes(
      target.nodes,
      (node) =>
        new Redis({
          ...node,
          ...loginOptions(target),
          ...tlsOptions(target.tls),
          ...COMMON_OPTIONS,
          retryStrategy: () => null,
          connectTimeout: this.limits.connectMs,
          socketTimeout: this.limits.commandMs,
          enableReadyCheck: false,
          maxRetriesPerRequest: 0,
          connectionName: 'doorbuster:slots',
        }),
    );
  }

  #sentinelClients(target: RedisTarget & { kind: 'sentinel' }): Redis[] {
    return target.sentinels.map(({ host, port }) => {
      const redis = new Redis({
        host,
        port,
        ...loginOptions(target.sentinelLogin),
        ...tlsOptions(target.sentinelTls),
        ...COMMON_OPTIONS,
        // An unreachable Sentinel is normal; the others reply.
        retryStrategy: () => 1_000,
        connectTimeout: this.limits.connectMs,
        socketTimeout: this.limits.commandMs,
        enableReadyCheck: false,
        enableOfflineQueue: false,
        maxRetriesPerRequest: 0,
        autoResubscribe: false,
        connectionName: 'doorbuster:sentinel-watch',
      });
      redis.on('error', () => {});
      redis.connect().catch(() => {});
      return redis;
    });
  }
}

/**
 * Creates a single connection for commands, for scripts and tests. Processes use RedisConnections.
 * @param prefix of the keys of a shard, by default of the only one
 */
export function connectForCommands(
  url: string | RedisTarget,
  limits: ConnectionLimits,
  onError: OnRedisError,
  prefix?: KeyPrefix,
): Redis {
  return lone(url, limits, onError, (connections) => connections.forCommands(), prefix);
}

/** Creates a single connection for jobs, for scripts and tests. Processes use RedisConnections. */
export function connectForJobs(url: string | RedisTarget, onError: OnRedisError): Redis {
  return lone(url, LONE_LIMITS, onError, (connections) => connections.forJobs());
}

/** Creates a single connection for pub/sub, for scripts and tests. Processes use RedisConnections. */
export function connectForSubscription(url: string | RedisTarget, onError: OnRedisError): Redis {
  return lone(url, LONE_LIMITS, onError, (connections) => connections.forSubscription());
}

/** What precedes the keys of an installation with one shard. */
export function firstPrefix(target: RedisTarget): KeyPrefix {
  return shardPrefix(0, 1, target.kind === 'cluster', target.kind === 'cluster' ? target.namespace : '');
}

const LONE_LIMITS: ConnectionLimits = { commandMs: 1_500, connectMs: 1_500 };

/** Creates one connection, whose end also ends everything that was created for it. */
function lone(
  url: string | RedisTarget,
  limits: ConnectionLimits,
  onError: OnRedisError,
  connect: (connections: RedisConnections) => Redis,
  prefix?: KeyPrefix,
): Redis {
  const target = typeof url === 'string' ? targetOrThrow(url) : url;
  const connections = new RedisConnections(target, limits, onError, () => {}, prefix ?? firstPrefix(target));
  const redis = connect(connections);
  redis.on('end', () => connections.close());
  return redis;
}

function targetOrThrow(url: string): RedisTarget {
  const parsed = parseRedisUrl(url);
  if ('problem' in parsed) throw new Error(`the Redis URL ${parsed.problem}`);
  return parsed.target;
}
