import type { Redis } from 'ioredis';
import type { ProductId } from '../../shared/domain/ids.js';
import { keys } from '../../shared/redis/keys.js';

/** Tells every API process that a campaign has new terms, so that none goes by old ones for longer than a message takes. */
export class TermsNotifications {
  constructor(
    readonly commands: Redis,
    readonly subscriber: Redis,
  ) {}

  /** Postgres has them. @throws when Redis is away; then everybody forgets everything when it is back */
  async announce(product: ProductId): Promise<void> {
    await this.commands.publish(keys.termsNotifications, product);
  }

  /** @param onMissed news may have been missed: the subscription was down */
  async listen(onChanged: (product: ProductId) => void, onMissed: () => void): Promise<void> {
    this.subscriber.on('message', (channel: string, product: string) => {
      if (channel === keys.termsNotifications) onChanged(product as ProductId);
    });
    this.subscriber.on('close', onMissed);
    this.subscriber.on('ready', onMissed);
    await this.subscriber.subscribe(keys.termsNotifications);
  }
}
