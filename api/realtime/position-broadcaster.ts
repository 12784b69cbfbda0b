import { LIMITS } from '../../shared/config/limits.js';
import type { ServerFrame } from '../../shared/contracts/frames.js';
import { estimatedWaitSeconds } from '../../shared/domain/estimate.js';
import type { UserId } from '../../shared/domain/ids.js';
import { timeOrNull } from '../../shared/domain/time.js';
import type { SalesOf } from '../../shared/sale/sales.js';
import type { ShopperStatusOutcome } from '../../shared/sale/scripts/line.js';
import type { CampaignLine } from './campaign-channel.js';
import type { Connection } from './connection.js';
import type { Subscriptions } from './subscriptions.js';

type Waiting = [UserId, Connection[]];

/** Sends their positions to the waiting users with sockets in this process, and reports their presence to the line. */
export class PositionBroadcaster {
  #busy = false;
  #turn = 0;
  /** When each turn last got positions (monotonic, ms). */
  readonly #sentAt = new Float64Array(LIMITS.sockets.positionTurns).fill(Number.NEGATIVE_INFINITY);

  constructor(
    readonly sales: SalesOf,
    readonly subscriptions: Subscriptions,
    /** Whether this process is overloaded, so that each socket gets a position every ten seconds only. */
    readonly isOverloaded: () => boolean,
    readonly nowMs: () => number = () => performance.now(),
  ) {}

  /**
   * Serves the connections of the next turn, in batches of `positionsBatch`. Does nothing while an earlier turn runs,
   * so that every turn comes, however long Redis needs.
   */
  async broadcastNext(): Promise<void> {
    if (this.#busy) return;
    this.#busy = true;
    this.#turn = (this.#turn + 1) % LIMITS.sockets.positionTurns;
    const now = this.nowMs();
    const sends =
      !this.isOverloaded() || now - Number(this.#sentAt[this.#turn]) >= LIMITS.sockets.positionEveryOverloadedMs;
    if (sends) this.#sentAt[this.#turn] = now;
    try {
      for (const [line, waiting] of this.subscriptions.waiting(this.#turn)) {
        for (let start = 0; start < waiting.length; start += LIMITS.sockets.positionsBatch) {
          const chunk = waiting.slice(start, start + LIMITS.sockets.positionsBatch);
          await this.#reportPresence(line, chunk);
          if (sends) await this.#sendPositions(line, chunk);
        }
      }
    } finally {
      this.#busy = false;
    }
  }

  async #reportPresence({ product, bucket }: CampaignLine, chunk: readonly Waiting[]): Promise<void> {
    const now = performance.now();
    const seen = chunk.flatMap(([user, connections]): [UserId, number][] => {
      const activeAt = Math.max(...connections.map((connection) => connection.takeActivity()));
      return activeAt > 0 ? [[user, Math.max(0, Math.round(now - activeAt))]] : [];
    });
    if (seen.length > 0) await this.sales.of(product, bucket).line.heartbeat(product, seen);
  }

  async #sendPositions(line: CampaignLine, chunk: readonly Waiting[]): Promise<void> {
    const { product, bucket } = line;
    const outcome = await this.sales.of(product, bucket).line.positions(
      product,
      chunk.map(([user]) => user),
    );
    if (outcome.kind === 'not_found') return;
    const gone: Promise<void>[] = [];
    for (const [i, [user, connections]] of chunk.entries()) {
      const position = outcome.positions[i] ?? 0;
      if (position === 0) {
        gone.push(this.#sendOutcome(line, user, connections));
        continue;
      }
      const estimate = estimatedWaitSeconds(position, outcome.paceMs);
      const error = outcome.errors?.[i] ?? 0;
      for (const connection of connections) connection.sendPosition(position, error, outcome.queueSize, estimate);
    }
    // Reads these concurrently, because after a large restock many users leave the line at once.
    await Promise.all(gone);
  }

  /** Sends the outcome to a user who has left the line, in case the notification was lost. */
  async #sendOutcome(line: CampaignLine, user: UserId, connections: readonly Connection[]): Promise<void> {
    const { product, bucket } = line;
    const standing = await this.sales.of(product, bucket).line.standing(product, user);
    if (standing.kind === 'not_found' || standing.status === 'queued') return;
    await this.subscriptions.hold(line, standing.durable);
    const frame = frameOf(standing);
    for (const connection of connections) {
      if (frame && connection.concerns(standing.reservationId)) connection.endWait(frame);
      else connection.waitsNoMore();
    }
  }
}

function frameOf(standing: Extract<ShopperStatusOutcome, { kind: 'standing' }>): ServerFrame | null {
  const ids = { reservation_id: standing.reservationId, order_id: standing.orderId };
  switch (standing.status) {
    case 'promoted':
    case 'completed':
      return { type: 'promoted', ...ids, pay_before: timeOrNull(standing.dueMs) };
    case 'redeemed':
    case 'released':
    case 'expired':
      return { type: standing.status, ...ids };
    case 'left':
    case 'closed':
      return { type: standing.status };
    default:
      return null;
  }
}
