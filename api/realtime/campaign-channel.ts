import type { Redis } from 'ioredis';
import { type Notification, parseNotification } from '../../shared/contracts/notifications.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { keys } from '../../shared/redis/keys.js';

/** Notification of the campaigns somebody here is subscribed to, over one Redis connection. */
export class CampaignChannel {
  readonly #subscribers = new Map<string, { product: ProductId; count: number; ready: Promise<unknown> }>();

  constructor(
    readonly subscriber: Redis,
    readonly onNews: (product: ProductId, news: Notification) => void,
    readonly onError: (error: Error) => void,
  ) {
    subscriber.on('message', (channel: string, message: string) => {
      const entry = this.#subscribers.get(channel);
      const news = entry && parseNotification(message);
      if (entry && news) this.onNews(entry.product, news);
    });
  }

  /** Resolves when news will arrive. Pair with `unfollow`. */
  async follow(product: ProductId): Promise<void> {
    const channel = keys.news(product);
    let entry = this.#subscribers.get(channel);
    if (!entry) {
      entry = { product, count: 0, ready: this.subscriber.subscribe(channel) };
      this.#subscribers.set(channel, entry);
    }
    entry.count += 1;
    await entry.ready;
  }

  unfollow(product: ProductId): void {
    const channel = keys.news(product);
    const entry = this.#subscribers.get(channel);
    if (!entry) return;
    entry.count -= 1;
    if (entry.count > 0) return;
    this.#subscribers.delete(channel);
    this.subscriber.unsubscribe(channel).catch(this.onError);
  }
}
