import type { Redis } from 'ioredis';
import { type Notification, parseNotification } from '../../shared/contracts/notifications.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { onShardMessage, subscribeInShard, unsubscribeInShard } from '../../shared/redis/channels.js';
import { keys } from '../../shared/redis/keys.js';

type Followed = { product: ProductId; subscriber: Redis; count: number; ready: Promise<void> };

/** Receives the notifications of all campaigns with subscribers in this process, over one connection for each shard. */
export class CampaignChannel {
  readonly #followed = new Map<string, Followed>();

  constructor(
    /** By shard. */
    subscribers: readonly Redis[],
    /** The connection to the shard of a campaign. */
    readonly subscriberOf: (product: ProductId) => Redis,
    readonly onNotification: (product: ProductId, notification: Notification) => void,
    readonly onError: (error: Error) => void,
  ) {
    for (const subscriber of subscribers) {
      onShardMessage(subscriber, (channel, message) => {
        const followed = this.#followed.get(channel);
        const notification = followed && parseNotification(message);
        if (followed && notification) this.onNotification(followed.product, notification);
      });
    }
  }

  /** Subscribes to a campaign; resolves when the subscription is active. Each call needs one `unfollow`. */
  async follow(product: ProductId): Promise<void> {
    const channel = keys.news(product);
    let followed = this.#followed.get(channel);
    if (!followed) {
      const subscriber = this.subscriberOf(product);
      followed = { product, subscriber, count: 0, ready: subscribeInShard(subscriber, channel) };
      this.#followed.set(channel, followed);
    }
    followed.count += 1;
    await followed.ready;
  }

  /** Follows the campaigns that have moved to another shard there. */
  followMoved(): void {
    for (const [channel, followed] of this.#followed) {
      const subscriber = this.subscriberOf(followed.product);
      if (subscriber === followed.subscriber) continue;
      unsubscribeInShard(followed.subscriber, channel).catch(this.onError);
      followed.subscriber = subscriber;
      followed.ready = subscribeInShard(subscriber, channel);
      followed.ready.catch(this.onError);
    }
  }

  unfollow(product: ProductId): void {
    const channel = keys.news(product);
    const followed = this.#followed.get(channel);
    if (!followed) return;
    followed.count -= 1;
    if (followed.count > 0) return;
    this.#followed.delete(channel);
    unsubscribeInShard(followed.subscriber, channel).catch(this.onError);
  }
}
