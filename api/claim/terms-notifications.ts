import type { Redis } from 'ioredis';
import type { ProductId } from '../../shared/domain/ids.js';
import { keys } from '../../shared/redis/keys.js';

/** Notifies every API process of changed terms, so that none uses outdated terms for longer than a message takes. */
export class TermsNotifications {
  constructor(
    readonly commands: Redis,
    readonly subscriber: Redis,
  ) {}

  /**
   * Publishes that the terms of a product have changed in Postgres.
   * @throws Error if Redis is unavailable; every process then evicts all terms when it reconnects
   */
  async announce(product: ProductId): Promise<void> {
    await this.commands.publish(keys.termsNotifications, product);
  }

  /**
   * @param onMissed called when the subscription is interrupted or restored, because notifications may have been missed
   */
  async listen(onChanged: (product: ProductId) => void, onMissed: () => void): Promise<void> {
    this.subscriber.on('message', (channel: string, product: string) => {
      if (channel === keys.termsNotifications) onChanged(product as ProductId);
    });
    this.subscriber.on('close', onMissed);
    this.subscriber.on('ready', onMissed);
    await this.subscriber.subscribe(keys.termsNotifications);
  }
}
