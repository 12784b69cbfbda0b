import { Redis, type RedisOptions } from 'ioredis';

type OnError = (purpose: string, error: Error) => void;

/**
 * The three kinds of connection, named for what happens when Redis is away. The only place where one is made.
 * Reconnecting goes on for ever, at most a quarter of a second apart, so that service is back by itself.
 */
const reconnect = (attempt: number): number => Math.min(250, 50 * 2 ** Math.min(attempt, 6));

/** For requests: fails at once when Redis is away and after a deadline when it hangs. A shopper is waiting. */
export function connectForCommands(
  url: string,
  limits: { commandMs: number; connectMs: number },
  onError: OnError,
): Redis {
  return connect(url, 'commands', onError, {
    enableAutoPipelining: true,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    // A connection on which nothing comes back is cut, and with it all that waits on it. A timer for each command would cost as
    // much as writing it; calls of requests have a shorter limit of their own (deadline.ts).
    socketTimeout: limits.commandMs,
    connectTimeout: limits.connectMs,
    // A command that got no answer may have been executed; sending it again is the caller's decision.
    autoResendUnfulfilledCommands: false,
  });
}

/** For BullMQ: waits for Redis to come back, since what the job does is due however late it is. */
export function connectForJobs(url: string, onError: OnError): Redis {
  return connect(url, 'jobs', onError, { maxRetriesPerRequest: null });
}

/** For pub/sub: subscribes again after every reconnect. What was missed meanwhile must be read elsewhere. */
export function connectForSubscription(url: string, onError: OnError): Redis {
  return connect(url, 'subscription', onError, { maxRetriesPerRequest: null, autoResubscribe: true });
}

function connect(url: string, purpose: string, onError: OnError, options: RedisOptions): Redis {
  const redis: Redis = new Redis(url, {
    ...options,
    replyMapping: 'legacy',
    connectionName: `doorbuster:${purpose}`,
    retryStrategy: reconnect,
    noDelay: true,
    lazyConnect: true,
  });
  // Without a listener ioredis prints every failed attempt to the console.
  redis.on('error', (error: Error) => onError(purpose, error));
  redis.connect().catch((error: Error) => onError(purpose, error));
  return redis;
}
