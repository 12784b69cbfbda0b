import { LIMITS } from '../../shared/config/limits.js';
import type { ServerFrame } from '../../shared/contracts/frames.js';
import { estimatedWaitSeconds } from '../../shared/domain/estimate.js';
import type { ProductId, UserId } from '../../shared/domain/ids.js';
import { timeOrNull } from '../../shared/domain/time.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';
import type { ShopperStatusOutcome } from '../../shared/sale/scripts/line.js';
import type { Connection } from './connection.js';
import type { Subscriptions } from './subscriptions.js';

type Waiting = [UserId, Connection[]];

/** Tells those who wait on the sockets of this process their places, and the line who of them is there. */
export class PositionBroadcaster {
  #busy = false;
  #turn = 0;

  constructor(
    readonly sale: SaleStore,
    readonly audience: Subscriptions,
  ) {}

  /** Those whose turn it is, a thousand people in one call at most. While an earlier turn goes on it is left out. */
  async tellNext(): Promise<void> {
    this.#turn = (this.#turn + 1) % LIMITS.positionTurns;
    if (this.#busy) return;
    this.#busy = true;
    try {
      for (const [product, waiting] of this.audience.waiting(this.#turn)) {
        for (let start = 0; start < waiting.length; start += LIMITS.positionsBatch) {
          const chunk = waiting.slice(start, start + LIMITS.positionsBatch);
          await this.#heartbeat(product, chunk);
          await this.#tell(product, chunk);
        }
      }
    } finally {
      this.#busy = false;
    }
  }

  async #heartbeat(product: ProductId, chunk: readonly Waiting[]): Promise<void> {
    const now = performance.now();
    const seen = chunk.flatMap(([user, sessions]): [UserId, number][] => {
      const heard = Math.max(...sessions.map((session) => session.newlyHeard()));
      return heard > 0 ? [[user, Math.max(0, Math.round(now - heard))]] : [];
    });
    if (seen.length > 0) await this.sale.line.heartbeat(product, seen);
  }

  async #tell(product: ProductId, chunk: readonly Waiting[]): Promise<void> {
    const outcome = await this.sale.line.positions(
      product,
      chunk.map(([user]) => user),
    );
    if (outcome.kind === 'not_found') return;
    const gone: Promise<void>[] = [];
    for (const [i, [user, sessions]] of chunk.entries()) {
      const position = outcome.positions[i] ?? 0;
      if (position === 0) {
        gone.push(this.#tellStanding(product, user, sessions));
        continue;
      }
      const estimate = estimatedWaitSeconds(position, outcome.paceMs);
      for (const session of sessions) session.tellPlace(position, outcome.queueSize, estimate);
    }
    // Read together: after a large restock all of them are gone from the line at once.
    await Promise.all(gone);
  }

  /** He waits no more and the news of it did not come through: tell what became of him. */
  async #tellStanding(product: ProductId, user: UserId, sessions: readonly Connection[]): Promise<void> {
    const standing = await this.sale.line.standing(product, user);
    if (standing.kind === 'not_found' || standing.status === 'queued') return;
    await this.audience.hold(standing.durable);
    const frame = frameOf(standing);
    for (const session of sessions) {
      if (frame && session.concerns(standing.reservationId)) session.endWait(frame);
      else session.waitsNoMore();
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
