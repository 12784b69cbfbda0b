import type { Redis } from 'ioredis';
import { type Notification, parseNotification } from '../../shared/contracts/notifications.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { keys } from '../../shared/redis/keys.js';

/** Receives the notifications of all campaigns with subscribers in this process, over one Redis connection. */
export class CampaignChannel {
  readonly #subscribers = new Map<string, { product: ProductId; count: number; ready: Promise<unknown> }>();

  constructor(
    readonly subscriber: Redis,
    readonly onNotification: (product: ProductId, notification: Notification) => void,
    readonly onError: (error: Error) => void,
  ) {
    subscriber.on('message', (channel: string, message: string) => {
      const entry = this.#subscribers.get(channel);
      const notification = entry && parseNotification(message);
      if (entry && notification) this.onNotification(entry.product, notification);
    });
  }

  /** Subscribes to a campaign; resolves when the subscription is active. Each call needs one `unfollow`. */
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
