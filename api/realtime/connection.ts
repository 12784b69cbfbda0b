import type { WebSocket } from 'ws';
import { LIMITS } from '../../shared/config/limits.js';
import { CLOSE_CODES, type ServerFrame } from '../../shared/contracts/frames.js';
import type { ProductId, ReservationId, UserId } from '../../shared/domain/ids.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';

const FRAME_WINDOW_MS = 10_000;
/** A close frame and its reply take one round trip. */
const CLOSE_PATIENCE_MS = 2_000;
/** So that one that is lost on a bad network costs nobody his place. */
const PINGS_A_PRESENCE = 3;

/** One socket: its subscriber once he has shown a ticket, the frames it was sent, and its limits. */
export class Connection {
  product: ProductId | null = null;
  user: UserId | null = null;
  /** The place or unit that the ticket is for; null = each of the user's (a ticket of an earlier version). */
  reservation: ReservationId | null = null;
  /** How often the campaign wants to see who waits; 0 = not at all. */
  presenceMs = 0;
  /** Whether the campaign's notifications wait for Postgres. */
  durable = false;
  /** Last place told; null = not known to be waiting. */
  position: number | null = null;
  #queueSize = 0;
  #estimate: number | null = null;
  /** By `performance.now()`: when the client last showed life, what of that was passed on, and pings. */
  #heardAt = performance.now();
  #passedOnAt = 0;
  #pingedAt = performance.now();
  #unansweredSince: number | null = null;
  #toldAt = Number.NEGATIVE_INFINITY;
  #seq = 0;
  #framesInWindow = 0;
  #windowEndsAt = 0;
  /** What happened before `welcome` was sent; told after it, so that nothing falls between. */
  #held: ServerFrame[] | null = [];

  constructor(
    readonly socket: WebSocket,
    readonly clock: RedisClock,
    readonly onSent: (type: ServerFrame['type']) => void,
    /** In which part of a second it is told its place. */
    readonly turn: number,
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

  /** Whether what happens to this unit is for the ticket that was shown. @param reservation "" = there is no unit */
  concerns(reservation: string): boolean {
    return this.reservation === null || reservation === '' || this.reservation === reservation;
  }

  waits(position: number, queueSize: number, estimate: number | null): void {
    this.position = position;
    this.#queueSize = queueSize;
    this.#estimate = estimate;
  }

  waitsNoMore(): void {
    this.position = null;
  }

  /** Says how a wait ended, once. */
  endWait(frame: ServerFrame): void {
    if (this.position === null) return;
    this.position = null;
    this.send(frame);
  }

  /** Says the place if it is another than he knows. */
  tellPlace(position: number, queueSize: number, estimate: number | null): void {
    if (this.position === null) return;
    if (this.position === position && this.#queueSize === queueSize && this.#estimate === estimate) return;
    const now = performance.now();
    if (now - this.#toldAt < LIMITS.positionPauseMs) return;
    this.#toldAt = now;
    this.waits(position, queueSize, estimate);
    this.send({ type: 'position', position, queue_size: queueSize, estimated_wait_seconds: estimate });
  }

  /** The client showed life. */
  heard(now: number): void {
    this.#heardAt = now;
    this.#unansweredSince = null;
  }

  /** When he was last heard, if presence matters and nobody asked since; else 0. */
  newlyHeard(): number {
    if (this.presenceMs === 0 || this.#heardAt <= this.#passedOnAt) return 0;
    this.#passedOnAt = this.#heardAt;
    return this.#heardAt;
  }

  /** Asks whether he is there when it is time to. Who has not answered for `everyMs` is cut off. */
  ping(now: number, everyMs: number): void {
    if (this.#unansweredSince !== null && now - this.#unansweredSince >= everyMs) {
      this.socket.terminate();
      return;
    }
    const soonMs = this.presenceMs > 0 && this.position !== null ? this.presenceMs / PINGS_A_PRESENCE : everyMs;
    if (now - this.#pingedAt < Math.min(everyMs, soonMs)) return;
    this.#pingedAt = now;
    this.#unansweredSince ??= now;
    this.socket.ping();
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

  /** Asks the client to close, and closes a moment later if it does not. */
  close(code: keyof typeof CLOSE_CODES, reason: string): void {
    this.socket.close(CLOSE_CODES[code], reason);
    setTimeout(() => this.socket.terminate(), CLOSE_PATIENCE_MS).unref();
  }

  /** Closes without reading what the client has sent besides. */
  cutOff(code: keyof typeof CLOSE_CODES, reason: string): void {
    this.close(code, reason);
    this.socket.pause();
  }
}
