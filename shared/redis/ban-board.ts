import type { Redis } from 'ioredis';
import type { Ban } from '../domain/ban.js';
import { keys } from './keys.js';

/** A caller who has to wait before the next code, `<user>` or `<user>|<network>`: sent to every process, kept nowhere else. */
export type Pause = { user: string; untilMs: number };
export type BanNews = { kind: 'put'; ban: Ban } | { kind: 'lifted'; id: string } | { kind: 'pause'; pause: Pause };

/**
 * Carries bans to every API process as they are made, and keeps them in Redis until Postgres has them. Postgres is the
 * truth of what operators see; a process that starts while it is away finds them here.
 */
export class BanBoard {
  constructor(
    readonly commands: Redis,
    readonly subscriber: Redis,
  ) {}

  /** @throws when Redis is away */
  async put(ban: Ban): Promise<void> {
    await this.commands.hset(keys.bans, ban.id, JSON.stringify(ban));
    await this.#tell({ kind: 'put', ban });
  }

  async lift(id: string): Promise<void> {
    await this.commands.hdel(keys.bans, id);
    await this.#tell({ kind: 'lifted', id });
  }

  async pause(pause: Pause): Promise<void> {
    await this.#tell({ kind: 'pause', pause });
  }

  async all(): Promise<Ban[]> {
    return Object.values(await this.commands.hgetall(keys.bans)).map((text) => JSON.parse(text) as Ban);
  }

  /** Takes away what is over or stands in Postgres as lifted; tells nobody. */
  async forget(ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.commands.hdel(keys.bans, ...ids);
  }

  /** @param onMissed news may have been missed: the subscription was down */
  async listen(onNews: (news: BanNews) => void, onMissed: () => void): Promise<void> {
    this.subscriber.on('message', (channel: string, message: string) => {
      if (channel === keys.banNews) onNews(JSON.parse(message) as BanNews);
    });
    this.subscriber.on('ready', onMissed);
    await this.subscriber.subscribe(keys.banNews);
  }

  async #tell(news: BanNews): Promise<void> {
    await this.commands.publish(keys.banNews, JSON.stringify(news));
  }
}
