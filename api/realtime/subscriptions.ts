import type { Redis } from 'ioredis';
import { LIMITS } from '../../shared/config/limits.js';
import type { ServerFrame } from '../../shared/contracts/frames.js';
import type { Notification } from '../../shared/contracts/notifications.js';
import type { ProductId, UserId } from '../../shared/domain/ids.js';
import { timeOrNull } from '../../shared/domain/time.js';
import { CampaignChannel } from './campaign-channel.js';
import type { Connection } from './connection.js';

/** A notification that cannot be sent yet is tried again; after that its shopper learns of it by asking or reconnecting. */
const HOLD_TRIES = 20;

/** Who follows which campaign on the sockets of this process; tells them the news of it. */
export class Subscriptions {
  readonly #byProduct = new Map<ProductId, Map<UserId, Set<Connection>>>();
  readonly #feed: CampaignChannel;

  /**
   * @param hold resolves when what has happened in a campaign may be sent (durable or not); null = at once
   */
  constructor(
    subscriber: Redis,
    readonly hold: (durable: boolean) => Promise<void> | null,
    onError: (error: Error) => void,
  ) {
    this.#feed = new CampaignChannel(subscriber, (product, news) => this.#onNews(product, news), onError);
  }

  /**
   * From here on the session is told the news of its campaign. What comes before it was welcomed is held back by the
   * session: follow first, read second.
   * @param isHere whether the socket is still open when the news will come
   * @returns false when it is not
   */
  async add(session: Connection, product: ProductId, user: UserId, isHere: () => boolean): Promise<boolean> {
    await this.#feed.follow(product);
    if (!isHere()) {
      this.#feed.unfollow(product);
      return false;
    }
    session.product = product;
    const users = this.#byProduct.get(product) ?? new Map<UserId, Set<Connection>>();
    this.#byProduct.set(product, users);
    const sessions = users.get(user) ?? new Set();
    users.set(user, sessions.add(session));
    const [oldest] = sessions;
    if (oldest && sessions.size > LIMITS.socketsPerTicket) {
      // A set keeps the order in which its members came.
      sessions.delete(oldest);
      oldest.close('tooMany', 'too many sockets of this ticket');
    }
    return true;
  }

  remove(session: Connection): void {
    const { product, user } = session;
    if (!product || !user) return;
    const users = this.#byProduct.get(product);
    const sessions = users?.get(user);
    sessions?.delete(session);
    if (sessions?.size === 0) users?.delete(user);
    if (users?.size === 0) this.#byProduct.delete(product);
    this.#feed.unfollow(product);
  }

  /** Who waits here, by campaign: users with those of their sessions whose turn it is to be told their places. */
  *waiting(turn: number): Iterable<[ProductId, [UserId, Connection[]][]]> {
    for (const [product, users] of this.#byProduct) {
      const waiting: [UserId, Connection[]][] = [];
      for (const [user, sessions] of users) {
        let told: Connection[] | null = null;
        for (const session of sessions) {
          if (session.turn !== turn || session.position === null) continue;
          told ??= [];
          told.push(session);
        }
        if (told) waiting.push([user, told]);
      }
      if (waiting.length > 0) yield [product, waiting];
    }
  }

  #onNews(product: ProductId, news: Notification): void {
    const held = this.#byProduct.has(product) ? this.hold(this.#isDurable(product)) : null;
    if (held === null) this.#deliver(product, news);
    else this.#deliverLater(product, news, held, HOLD_TRIES);
  }

  #deliverLater(product: ProductId, news: Notification, held: Promise<void>, tries: number): void {
    held.then(
      () => this.#deliver(product, news),
      () => {
        const again = tries > 1 ? this.hold(this.#isDurable(product)) : null;
        if (again) this.#deliverLater(product, news, again, tries - 1);
      },
    );
  }

  /** Whether a campaign waits for Postgres, as its sessions learned when they subscribed. */
  #isDurable(product: ProductId): boolean {
    for (const sessions of this.#byProduct.get(product)?.values() ?? []) {
      for (const session of sessions) return session.durable;
    }
    return false;
  }

  #deliver(product: ProductId, news: Notification): void {
    const users = this.#byProduct.get(product);
    if (!users) return;
    if (news.kind === 'line' || (news.kind === 'status' && news.status === 'closed')) {
      for (const sessions of users.values()) for (const session of sessions) session.endWait({ type: 'closed' });
    } else if (news.kind !== 'status') {
      const frame = frameOf(news);
      for (const session of users.get(news.user as UserId) ?? []) {
        if (!session.concerns(news.reservationId)) continue;
        session.waitsNoMore();
        session.send(frame);
      }
    }
  }
}

function frameOf(news: Exclude<Notification, { kind: 'status' | 'line' }>): ServerFrame {
  const ids = { reservation_id: news.reservationId, order_id: news.orderId };
  switch (news.kind) {
    case 'promoted':
      return { type: 'promoted', ...ids, pay_before: timeOrNull(news.dueMs) };
    case 'left':
    case 'closed':
      return { type: news.kind };
    case 'voided':
      // To a shopper a voided reservation is one that was taken back.
      return { type: 'released', ...ids };
    default:
      return { type: news.kind, ...ids };
  }
}
