import type { Redis } from 'ioredis';
import { LIMITS } from '../../shared/config/limits.js';
import type { ServerFrame } from '../../shared/contracts/frames.js';
import type { Notification } from '../../shared/contracts/notifications.js';
import type { ProductId, UserId } from '../../shared/domain/ids.js';
import { timeOrNull } from '../../shared/domain/time.js';
import type { Shards } from '../../shared/shards/shards.js';
import { CampaignChannel } from './campaign-channel.js';
import type { Connection } from './connection.js';

/**
 * How often a notification that may not be sent yet is tried again. After that, the shopper learns of the change by
 * polling or reconnecting.
 */
const HOLD_TRIES = 20;

/** The connections that receive the notifications of campaigns, by shard. */
export type SubscriberShards = Pick<Shards<{ index: number; subscriber: Redis }>, 'all' | 'of' | 'map'>;

/** The connections of this process by campaign and user. Sends them the notifications of their campaign. */
export class Subscriptions {
  readonly #byProduct = new Map<ProductId, Map<UserId, Set<Connection>>>();
  readonly #channel: CampaignChannel;

  /**
   * @param hold resolves when notifications of a campaign (durable or not) may be sent; null = at once
   */
  constructor(
    shards: SubscriberShards,
    readonly hold: (product: ProductId, durable: boolean) => Promise<void> | null,
    onError: (error: Error) => void,
  ) {
    this.#channel = new CampaignChannel(
      shards.all.map(({ subscriber }) => subscriber),
      (product) => shards.of(product).subscriber,
      (product, notification) => this.#onNotification(product, notification),
      onError,
    );
    shards.map.onMoved(() => this.#channel.followMoved());
  }

  /**
   * Adds a connection to the subscribers of its campaign. Call it before reading the standing: the connection holds
   * notifications until `welcome` is sent.
   * @param isHere whether the socket is still open once the subscription is active
   * @returns false if the socket is closed
   */
  async add(connection: Connection, product: ProductId, user: UserId, isHere: () => boolean): Promise<boolean> {
    await this.#channel.follow(product);
    if (!isHere()) {
      this.#channel.unfollow(product);
      return false;
    }
    connection.product = product;
    const users = this.#byProduct.get(product) ?? new Map<UserId, Set<Connection>>();
    this.#byProduct.set(product, users);
    const connections = users.get(user) ?? new Set();
    users.set(user, connections.add(connection));
    const [oldest] = connections;
    if (oldest && connections.size > LIMITS.socketsPerTicket) {
      // A set iterates in insertion order, so the first member is the oldest.
      connections.delete(oldest);
      oldest.close('tooMany', 'too many sockets of this ticket');
    }
    return true;
  }

  remove(connection: Connection): void {
    const { product, user } = connection;
    if (!product || !user) return;
    const users = this.#byProduct.get(product);
    const connections = users?.get(user);
    connections?.delete(connection);
    if (connections?.size === 0) users?.delete(user);
    if (users?.size === 0) this.#byProduct.delete(product);
    this.#channel.unfollow(product);
  }

  /** Yields the waiting users by campaign, with those of their connections whose positions are due in this turn. */
  *waiting(turn: number): Iterable<[ProductId, [UserId, Connection[]][]]> {
    for (const [product, users] of this.#byProduct) {
      const waiting: [UserId, Connection[]][] = [];
      for (const [user, connections] of users) {
        let due: Connection[] | null = null;
        for (const connection of connections) {
          if (connection.turn !== turn || connection.position === null) continue;
          due ??= [];
          due.push(connection);
        }
        if (due) waiting.push([user, due]);
      }
      if (waiting.length > 0) yield [product, waiting];
    }
  }

  #onNotification(product: ProductId, notification: Notification): void {
    const held = this.#byProduct.has(product) ? this.hold(product, this.#isDurable(product)) : null;
    if (held === null) this.#deliver(product, notification);
    else this.#deliverLater(product, notification, held, HOLD_TRIES);
  }

  #deliverLater(product: ProductId, notification: Notification, held: Promise<void>, tries: number): void {
    held.then(
      () => this.#deliver(product, notification),
      () => {
        const again = tries > 1 ? this.hold(product, this.#isDurable(product)) : null;
        if (again) this.#deliverLater(product, notification, again, tries - 1);
      },
    );
  }

  /** Whether the notifications of a campaign wait for Postgres, according to its connections. */
  #isDurable(product: ProductId): boolean {
    for (const connections of this.#byProduct.get(product)?.values() ?? []) {
      for (const connection of connections) return connection.durable;
    }
    return false;
  }

  #deliver(product: ProductId, notification: Notification): void {
    const users = this.#byProduct.get(product);
    if (!users) return;
    if (notification.kind === 'line' || (notification.kind === 'status' && notification.status === 'closed')) {
      for (const connections of users.values())
        for (const connection of connections) connection.endWait({ type: 'closed' });
    } else if (notification.kind !== 'status') {
      const frame = frameOf(notification);
      for (const connection of users.get(notification.user as UserId) ?? []) {
        if (!connection.concerns(notification.reservationId)) continue;
        connection.waitsNoMore();
        connection.send(frame);
      }
    }
  }
}

function frameOf(notification: Exclude<Notification, { kind: 'status' | 'line' }>): ServerFrame {
  const ids = { reservation_id: notification.reservationId, order_id: notification.orderId };
  switch (notification.kind) {
    case 'promoted':
      return { type: 'promoted', ...ids, pay_before: timeOrNull(notification.dueMs) };
    case 'left':
    case 'closed':
      return { type: notification.kind };
    case 'voided':
      // A shopper sees a voided reservation as released.
      return { type: 'released', ...ids };
    default:
      return { type: notification.kind, ...ids };
  }
}
