import type { Redis } from 'ioredis';
import { LIMITS } from '../../shared/config/limits.js';
import type { ServerFrame } from '../../shared/contracts/frames.js';
import type { Notification } from '../../shared/contracts/notifications.js';
import type { ProductId, UserId } from '../../shared/domain/ids.js';
import { timeOrNull } from '../../shared/domain/time.js';
import type { Shards } from '../../shared/shards/shards.js';
import { checkoutUrlField, type PayLinks } from '../claim/pay-links.js';
import { CampaignChannel, type CampaignLine } from './campaign-channel.js';
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
  readonly #byLine = new Map<string, { line: CampaignLine; users: Map<UserId, Set<Connection>> }>();
  readonly #channel: CampaignChannel;

  /**
   * @param hold resolves when notifications of a campaign (durable or not) may be sent; null = at once
   */
  constructor(
    shards: SubscriberShards,
    readonly hold: (line: CampaignLine, durable: boolean) => Promise<void> | null,
    onError: (error: Error) => void,
    readonly links: PayLinks,
  ) {
    this.#channel = new CampaignChannel(
      shards.all.map(({ subscriber }) => subscriber),
      ({ product, bucket }) => shards.of(product, bucket).index,
      (line, notification) => this.#onNotification(line, notification),
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
  async add(connection: Connection, line: CampaignLine, user: UserId, isHere: () => boolean): Promise<boolean> {
    await this.#channel.follow(line);
    if (!isHere()) {
      this.#channel.unfollow(line);
      return false;
    }
    connection.line = line;
    const { users } = this.#byLine.get(nameOf(line)) ?? { users: new Map<UserId, Set<Connection>>() };
    this.#byLine.set(nameOf(line), { line, users });
    const connections = users.get(user) ?? new Set();
    users.set(user, connections.add(connection));
    // A set iterates in insertion order, so the first one is the oldest. Tickets of other places have their own limit.
    const ofTicket = [...connections].filter(({ reservation }) => reservation === connection.reservation);
    const [oldest] = ofTicket;
    if (oldest && ofTicket.length > LIMITS.sockets.perTicket) {
      connections.delete(oldest);
      oldest.close('tooMany', 'too many sockets of this ticket');
    }
    return true;
  }

  remove(connection: Connection): void {
    const { line, user } = connection;
    if (!line || !user) return;
    const users = this.#byLine.get(nameOf(line))?.users;
    const connections = users?.get(user);
    connections?.delete(connection);
    if (connections?.size === 0) users?.delete(user);
    if (users?.size === 0) this.#byLine.delete(nameOf(line));
    this.#channel.unfollow(line);
  }

  /** Yields the waiting users by campaign, with those of their connections whose positions are due in this turn. */
  *waiting(turn: number): Iterable<[CampaignLine, [UserId, Connection[]][]]> {
    for (const { line, users } of this.#byLine.values()) {
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
      if (waiting.length > 0) yield [line, waiting];
    }
  }

  #onNotification(line: CampaignLine, notification: Notification): void {
    const held = this.#byLine.has(nameOf(line)) ? this.hold(line, this.#isDurable(line)) : null;
    if (held === null) this.#deliver(line, notification);
    else this.#deliverLater(line, notification, held, HOLD_TRIES);
  }

  #deliverLater(line: CampaignLine, notification: Notification, held: Promise<void>, tries: number): void {
    held.then(
      () => this.#deliver(line, notification),
      () => {
        const again = tries > 1 ? this.hold(line, this.#isDurable(line)) : null;
        if (again) this.#deliverLater(line, notification, again, tries - 1);
      },
    );
  }

  /** Whether the notifications of a campaign wait for Postgres, according to its connections. */
  #isDurable(line: CampaignLine): boolean {
    for (const connections of this.#byLine.get(nameOf(line))?.users.values() ?? []) {
      for (const connection of connections) return connection.durable;
    }
    return false;
  }

  #deliver(line: CampaignLine, notification: Notification): void {
    const users = this.#byLine.get(nameOf(line))?.users;
    if (!users) return;
    if (notification.kind === 'line' || (notification.kind === 'status' && notification.status === 'closed')) {
      for (const connections of users.values())
        for (const connection of connections) connection.endWait({ type: 'closed' });
    } else if (notification.kind === 'status') {
      const frame = { type: notification.status === 'paused' ? 'paused' : 'resumed' } as const;
      for (const connections of users.values())
        for (const connection of connections) if (connection.position !== null) connection.send(frame);
    } else {
      const frame = frameOf(notification, line.product, this.links);
      for (const connection of users.get(notification.user as UserId) ?? []) {
        if (!connection.concerns(notification.reservationId)) continue;
        connection.waitsNoMore();
        connection.send(frame);
      }
    }
  }
}

const nameOf = ({ product, bucket }: CampaignLine) => `${product} ${bucket}`;

function frameOf(
  notification: Exclude<Notification, { kind: 'status' | 'line' }>,
  product: ProductId,
  links: PayLinks,
): ServerFrame {
  const ids = { reservation_id: notification.reservationId, order_id: notification.orderId };
  switch (notification.kind) {
    case 'promoted':
    case 'extended': {
      const link = links.linkOf({ ...notification, product, expiresAtMs: notification.dueMs });
      const fields = { ...ids, ...checkoutUrlField(link) };
      if (notification.kind === 'promoted')
        return { type: 'promoted', ...fields, pay_before: timeOrNull(notification.dueMs) };
      return { type: 'extended', ...fields, pay_before: new Date(notification.dueMs).toISOString() };
    }
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
