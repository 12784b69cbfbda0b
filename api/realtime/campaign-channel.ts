import type { Redis } from 'ioredis';
import { type Notification, parseNotification } from '../../shared/contracts/notifications.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { onShardMessage, subscribeInShard, unsubscribeInShard } from '../../shared/redis/channels.js';
import { keys } from '../../shared/redis/keys.js';

/** A campaign, or the bucket of a divided one that has the user. */
export type CampaignLine = { product: ProductId; bucket: number };

type Followed = { line: CampaignLine; shard: number; count: number; ready: Promise<void> };

/**
 * Receives the notifications of all campaigns with subscribers in this process, over one connection for each shard. A
 * bucket has the channel of its campaign in its own shard.
 */
export class CampaignChannel {
  /** By shard and channel. */
  readonly #followed = new Map<string, Followed>();

  constructor(
    /** By shard. */
    readonly subscribers: readonly Redis[],
    /** The index of the shard in which a line is. */
    readonly shardOf: (line: CampaignLine) => number,
    readonly onNotification: (line: CampaignLine, notification: Notification) => void,
    readonly onError: (error: Error) => void,
  ) {
    for (const [shard, subscriber] of subscribers.entries()) {
      onShardMessage(subscriber, (channel, message) => {
        const followed = this.#followed.get(`${shard} ${channel}`);
        const notification = followed && parseNotification(message);
        if (followed && notification) this.onNotification(followed.line, notification);
      });
    }
  }

  /** Subscribes to a campaign; resolves when the subscription is active. Each call needs one `unfollow`. */
  async follow(line: CampaignLine): Promise<void> {
    const shard = this.shardOf(line);
    const name = nameOf(shard, line);
    let followed = this.#followed.get(name);
    if (!followed) {
      followed = { line, shard, count: 0, ready: subscribeInShard(this.#subscriber(shard), keys.news(line.product)) };
      this.#followed.set(name, followed);
    }
    followed.count += 1;
    await followed.ready;
  }

  /** Follows the campaigns that have moved to another shard there. */
  followMoved(): void {
    for (const [name, followed] of [...this.#followed]) {
      const shard = this.shardOf(followed.line);
      if (shard === followed.shard) continue;
      const channel = keys.news(followed.line.product);
      unsubscribeInShard(this.#subscriber(followed.shard), channel).catch(this.onError);
      this.#followed.delete(name);
      this.#followed.set(nameOf(shard, followed.line), followed);
      followed.shard = shard;
      followed.ready = subscribeInShard(this.#subscriber(shard), channel);
      followed.ready.catch(this.onError);
    }
  }

  unfollow(line: CampaignLine): void {
    const name = nameOf(this.shardOf(line), line);
    const followed = this.#followed.get(name);
    if (!followed) return;
    followed.count -= 1;
    if (followed.count > 0) return;
    this.#followed.delete(name);
    unsubscribeInShard(this.#subscriber(followed.shard), keys.news(line.product)).catch(this.onError);
  }

  #subscriber(shard: number): Redis {
    return this.subscribers[shard] as Redis;
  }
}

const nameOf = (shard: number, { product }: CampaignLine) => `${shard} ${keys.news(product)}`;
