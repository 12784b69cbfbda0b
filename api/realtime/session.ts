import type { WebSocket } from 'ws';
import { LIMITS } from '../../shared/config/limits.js';
import { CLOSE_CODES, type ServerFrame } from '../../shared/contracts/frames.js';
import type { ProductId, UserId } from '../../shared/domain/ids.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';

const FRAME_WINDOW_MS = 10_000;

/** One socket: its subscriber once he has shown a ticket, the frames it was sent, and its limits. */
export class Session {
  product: ProductId | null = null;
  user: UserId | null = null;
  /** Last place told; null = not known to be waiting. */
  position: number | null = null;
  queueSize = 0;
  alive = true;
  #seq = 0;
  #framesInWindow = 0;
  #windowEndsAt = 0;
  /** What happened before `welcome` was sent; told after it, so that nothing falls between. */
  #held: ServerFrame[] | null = [];

  constructor(
    readonly socket: WebSocket,
    readonly clock: RedisClock,
    readonly onSent: (type: ServerFrame['type']) => void,
  ) {}

  /** Sends `welcome` and whatever happened while it was prepared. */
  welcome(fields: Record<string, unknown>): void {
    const held = this.#held ?? [];
    this.#held = null;
    this.send({ type: 'welcome', ...fields });
    for (const frame of held) this.send(frame);
  }

  /** Sends a frame, or keeps it until `welcome` is out. A place is left out for a reader who is behind: the next one is newer. */
  send(frame: ServerFrame): void {
    if (this.#held && frame.type !== 'error' && frame.type !== 'pong' && frame.type !== 'reconnect') {
      this.#held.push(frame);
      return;
    }
    if (this.socket.readyState !== this.socket.OPEN) return;
    if (frame.type === 'position' && this.socket.bufferedAmount > LIMITS.socketBufferedBytes) return;
    this.#seq += 1;
    const { type, ...rest } = frame;
    const time = new Date(this.clock.nowMs()).toISOString();
    this.socket.send(JSON.stringify({ type, seq: this.#seq, time, ...rest }));
    this.onSent(type);
  }

  /** Counts a frame of the client; false when there are too many. */
  admitFrame(now: number): boolean {
    if (now >= this.#windowEndsAt) {
      this.#windowEndsAt = now + FRAME_WINDOW_MS;
      this.#framesInWindow = 0;
    }
    this.#framesInWindow += 1;
    return this.#framesInWindow <= LIMITS.socketFramesPer10s;
  }

  close(code: keyof typeof CLOSE_CODES, reason: string): void {
    this.socket.close(CLOSE_CODES[code], reason);
  }
}
