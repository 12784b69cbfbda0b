import type { Redis } from 'ioredis';

/**
 * Pub/sub of one shard. Where keys have a tag, its channels are sharded: a cluster carries their messages on the nodes
 * of the shard alone, and their names get the prefix of the connection, as keys do. Without a tag they are plain
 * channels. Notifications for all processes (bans, terms, codes) use plain channels of the home
 * shard.
 */
const isSharded = ({ options }: Redis): boolean => (options.keyPrefix ?? '') !== '';

export async function publishInShard(redis: Redis, channel: string, message: string): Promise<void> {
  await (isSharded(redis) ? redis.spublish(channel, message) : redis.publish(channel, message));
}

/** Subscribes to a channel of the shard of this connection. */
export async function subscribeInShard(subscriber: Redis, channel: string): Promise<void> {
  await (isSharded(subscriber) ? subscriber.ssubscribe(channel) : subscriber.subscribe(channel));
}

export async function unsubscribeInShard(subscriber: Redis, channel: string): Promise<void> {
  await (isSharded(subscriber) ? subscriber.sunsubscribe(channel) : subscriber.unsubscribe(channel));
}

/** @param receive gets the name of the channel as it was given to `subscribeInShard` */
export function onShardMessage(subscriber: Redis, receive: (channel: string, message: string) => void): void {
  const { length } = subscriber.options.keyPrefix ?? '';
  subscriber.on(isSharded(subscriber) ? 'smessage' : 'message', (channel: string, message: string) =>
    receive(channel.slice(length), message),
  );
}
