import { isIP } from 'node:net';
import { Redis, type RedisOptions } from 'ioredis';
import { type HostAndPort, parseRedisUrl, type RedisTarget, type Tls } from './redis-target.js';
import { SentinelWatch } from './sentinel-watch.js';

export type OnRedisError = (purpose: string, error: Error) => void;
export type ConnectionLimits = {
  /** A connection for commands on which nothing arrives for so long, although it should, is closed. */
  commandMs: number;
  connectMs: number;
};

/** A server is left at most this often. */
const LEAVE_EVERY_MS = 250;
/**
 * A connection that is closing is destroyed after this: replies that are under way still arrive, but a server that
 * cannot be reached does not delay the reconnect or the end of the process.
 */
const CLOSE_MS = 100;
/** Above the longest block of BullMQ (10 s): a jobs connection that stays silent for longer has lost its server. */
const JOBS_SILENCE_MS = 15_000;
/** A subscription is silent when nothing happens, so it is asked for a sign of life. */
const PING_SUBSCRIPTIONS_EVERY_MS = 2_000;
const SUBSCRIPTION_SILENCE_MS = 5_000;
/** A restart loads for an unknown time; asking more rarely only delays the return. */
const LOADING_RETRY_MS = 250;

/** Reconnecting goes on forever, at most a quarter of a second apart, so that service recovers without an operator. */
const reconnectDelayMs = (attempt: number): number => Math.min(250, 50 * 2 ** Math.min(attempt, 6));

/**
 * Replies of a server that is not, or no longer, the primary in service. Scripts and Redis 6 wrap the word:
 * `ERR Error running script …: -READONLY …`. A blocked client gets UNBLOCKED when its server is demoted.
 */
const NOT_PRIMARY = /^(?:ERR .*-)?(?:READONLY|MASTERDOWN|LOADING|UNKILLABLE)\b|^UNBLOCKED .*instance state changed/;

export function isNotPrimaryError(error: Error): boolean {
  return NOT_PRIMARY.test(error.message);
}

type Purpose = 'commands' | 'jobs' | 'subscription';
type Made = {
  redis: Redis;
  purpose: Purpose;
  /** When the present or last attempt to connect began. */
  attemptAt: number;
  /** The socket that is closing: what still arrives on it no longer matters. */
  left: unknown;
  leaveWhenConnected: boolean;
};

/**
 * Makes every connection of a process to Redis and makes all of them leave a server together. After a failover the old
 * primary may stay reachable: one connection that learns of the demotion moves the others, of which some never would
 * (a subscription, a blocking read that a replica answers as well).
 *
 * The three kinds are named for what happens while Redis is away. The only place where a connection is made.
 */
export class RedisConnections {
  readonly #made = new Set<Made>();
  readonly #sentinels: SentinelWatch | null;
  readonly #pings: NodeJS.Timeout;
  #leftAt = Number.NEGATIVE_INFINITY;
  /** When leaving was last asked for: connections that were begun later are not meant. */
  #leaveBefore = Number.NEGATIVE_INFINITY;
  #leaveLater: NodeJS.Timeout | null = null;
  #closed = false;

  constructor(
    readonly target: RedisTarget,
    readonly limits: ConnectionLimits,
    readonly onError: OnRedisError,
    /** All connections leave their server. */
    readonly onLeave: (reason: string) => void = () => {},
  ) {
    this.#sentinels =
      target.kind === 'sentinel'
        ? new SentinelWatch(target.name, this.#sentinelClients(target), (address, decided) =>
            this.#leaveUnlessAt(address, decided),
          )
        : null;
    this.#pings = setInterval(() => this.#pingSubscriptions(), PING_SUBSCRIPTIONS_EVERY_MS).unref();
  }

  /** For requests: fails at once while Redis is away and after a deadline when it hangs. A shopper is waiting. */
  forCommands(): Redis {
    return this.#connect('commands', {
      enableAutoPipelining: true,
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      // A connection on which nothing comes back is closed, and with it everything that waits on it. A timer for each command
      // would cost as much as writing it; calls of requests have a shorter limit of their own (deadline.ts).
      socketTimeout: this.limits.commandMs,
      // A command without a reply may have been executed; sending it again is the caller's decision.
      autoResendUnfulfilledCommands: false,
    });
  }

  /** For BullMQ and blocking reads: waits for Redis to return, since the job is due however late it is. */
  forJobs(): Redis {
    return this.#connect('jobs', { maxRetriesPerRequest: null, socketTimeout: JOBS_SILENCE_MS });
  }

  /** For pub/sub: subscribes again after every reconnect. Messages sent meanwhile are lost and must be read elsewhere. */
  forSubscription(): Redis {
    return this.#connect('subscription', {
      maxRetriesPerRequest: null,
      autoResubscribe: true,
      socketTimeout: SUBSCRIPTION_SILENCE_MS,
    });
  }

  /**
   * Closes every connection that was made before now, BullMQ's copies included, so that each finds the primary again.
   * Happens at most once in 250 ms; a call that comes sooner is carried out at the end of that time, and leaves alone the
   * connections that were made anew in between.
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

  /** Ends all of them for good. */
  close(): void {
    this.#closed = true;
    clearInterval(this.#pings);
    if (this.#leaveLater) clearTimeout(this.#leaveLater);
    this.#sentinels?.stop();
    for (const { redis } of this.#made) redis.disconnect();
  }

  #connect(purpose: Purpose, options: RedisOptions): Redis {
    const redis = new Redis({
      ...addressOptions(this.target, this.limits),
      ...options,
      ...COMMON_OPTIONS,
      connectTimeout: this.limits.connectMs,
      connectionName: `doorbuster:${purpose}`,
    });
    // Without a listener ioredis prints every failed attempt to the console.
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
      // Its errors are those of the connection it was copied from.
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
   * Always false: ioredis would close the connection once for each of a thousand pipelined replies. It is never told to send
   * the command again, since a script that failed with such a reply may have written before.
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
      // ioredis ends a client for good when `disconnect` is called while it asks the Sentinels for the primary.
      made.leaveWhenConnected = true;
    } else if ((redis.status === 'connect' || redis.status === 'ready') && made.left !== redis.stream) {
      made.left = redis.stream;
      redis.disconnect(true);
    }
  }

  /** Closes the connections to any server but the one that the Sentinels name. */
  #leaveUnlessAt({ host, port }: HostAndPort, decided: boolean): void {
    if (isIP(host) === 0) {
      // Sentinels that announce host names: they cannot be compared with the address of a socket.
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
      // A connection that does not answer is closed by its socketTimeout.
      if (purpose === 'subscription' && redis.status === 'ready') redis.ping().catch(() => {});
    }
  }

  #sentinelClients(target: RedisTarget & { kind: 'sentinel' }): Redis[] {
    return target.sentinels.map(({ host, port }) => {
      const redis = new Redis({
        host,
        port,
        ...loginOptions(target.sentinelLogin),
        ...tlsOptions(target.sentinelTls),
        ...COMMON_OPTIONS,
        // One Sentinel that is away is normal; the others answer.
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

const COMMON_OPTIONS = {
  replyMapping: 'legacy',
  retryStrategy: reconnectDelayMs,
  noDelay: true,
  lazyConnect: true,
  disconnectTimeout: CLOSE_MS,
  maxLoadingRetryTime: LOADING_RETRY_MS,
} as const satisfies RedisOptions;

function addressOptions(target: RedisTarget, limits: ConnectionLimits): RedisOptions {
  const common = { ...loginOptions(target), ...tlsOptions(target.tls), db: target.db };
  if (target.kind === 'server') return { ...common, ...target.server };
  return {
    ...common,
    sentinels: [...target.sentinels],
    name: target.name,
    role: 'master',
    // Not ioredis's failoverDetector, which ends clients for good when a failover meets a reconnect: see SentinelWatch.
    failoverDetector: false,
    enableTLSForSentinelMode: target.tls !== null,
    sentinelRetryStrategy: reconnectDelayMs,
    sentinelCommandTimeout: limits.commandMs,
    ...(target.sentinelLogin.username ? { sentinelUsername: target.sentinelLogin.username } : {}),
    ...(target.sentinelLogin.password ? { sentinelPassword: target.sentinelLogin.password } : {}),
    ...(target.sentinelTls ? { sentinelTLS: tlsOptions(target.sentinelTls).tls ?? {} } : {}),
  };
}

function loginOptions({ username, password }: { username: string | null; password: string | null }): RedisOptions {
  return { ...(username === null ? {} : { username }), ...(password === null ? {} : { password }) };
}

function tlsOptions(tls: Tls | null): RedisOptions {
  if (tls === null) return {};
  return { tls: tls.ca === null ? {} : { ca: tls.ca } };
}

/** For one connection by itself; processes use RedisConnections. */
export function connectForCommands(url: string | RedisTarget, limits: ConnectionLimits, onError: OnRedisError): Redis {
  return lone(url, limits, onError, (connections) => connections.forCommands());
}

/** For one connection by itself; processes use RedisConnections. */
export function connectForJobs(url: string | RedisTarget, onError: OnRedisError): Redis {
  return lone(url, LONE_LIMITS, onError, (connections) => connections.forJobs());
}

/** For one connection by itself; processes use RedisConnections. */
export function connectForSubscription(url: string | RedisTarget, onError: OnRedisError): Redis {
  return lone(url, LONE_LIMITS, onError, (connections) => connections.forSubscription());
}

const LONE_LIMITS: ConnectionLimits = { commandMs: 1_500, connectMs: 1_500 };

/** Its end is the end of everything that was made for it. */
function lone(
  url: string | RedisTarget,
  limits: ConnectionLimits,
  onError: OnRedisError,
  connect: (connections: RedisConnections) => Redis,
): Redis {
  const connections = new RedisConnections(typeof url === 'string' ? targetOrThrow(url) : url, limits, onError);
  const redis = connect(connections);
  redis.on('end', () => connections.close());
  return redis;
}

function targetOrThrow(url: string): RedisTarget {
  const parsed = parseRedisUrl(url);
  if ('problem' in parsed) throw new Error(`the URL of Redis ${parsed.problem}`);
  return parsed.target;
}
