import type { WebSocket } from 'ws';
import { LIMITS } from '../../shared/config/limits.js';
import { CLOSE_CODES, type ServerFrame } from '../../shared/contracts/frames.js';
import type { ReservationId, UserId } from '../../shared/domain/ids.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';

import type { CampaignLine } from './campaign-channel.js';
import type { LeftElsewhere } from './leave-elsewhere.js';

const FRAME_WINDOW_MS = 10_000;
/** How long the client has to reply to a close frame, which takes one round trip. */
const CLOSE_PATIENCE_MS = 2_000;
/** Pings per `presenceMs`, so that one lost ping does not make a user step back. */
const PINGS_A_PRESENCE = 3;

/** One socket with its limits, and with its user and campaign after it has sent a ticket. */
export class Connection {
  line: CampaignLine | null = null;
  user: UserId | null = null;
  /** The place or unit of the ticket; null = no ticket yet. */
  reservation: ReservationId | null = null;
  /** The text of the ticket, if a process of another role lets the user leave the line; "" = this one does. */
  ticket = '';
  /** What that process has answered, and when (monotonic); null = it was not asked. */
  leaving: { outcome: LeftElsewhere; atMs: number } | 'asked' | null = null;
  /** How long a waiting user may be unseen before they step back, milliseconds; 0 = any time. */
  presenceMs = 0;
  /** Whether the campaign's notifications wait for Postgres. */
  durable = false;
  /** Last known position; null = not known to be waiting. */
  position: number | null = null;
  /** Whether the client asked for heartbeats. */
  heartbeats = false;
  #queueSize = 0;
  #estimate: number | null = null;
  /** Times by `performance.now()`: last activity of the client, last activity that was reported, and pings. */
  #activeAt = performance.now();
  #reportedAt = 0;
  #pingedAt = performance.now();
  #unansweredSince: number | null = null;
  #positionSentAt = Number.NEGATIVE_INFINITY;
  #sentAt = 0;
  #seq = 0;
  #framesInWindow = 0;
  #windowEndsAt = 0;
  /** Frames that arose before `welcome` was sent; they follow it, so that none is lost. null = `welcome` is sent. */
  #held: ServerFrame[] | null = [];

  constructor(
    readonly socket: WebSocket,
    readonly clock: RedisClock,
    readonly onSent: (type: ServerFrame['type']) => void,
    /** The part of a second in which its position is sent. */
    readonly turn: number,
  ) {}

  /** Sends `welcome` and then the held frames. */
  welcome(fields: Record<string, unknown>): void {
    const held = this.#held ?? [];
    this.#held = null;
    this.send({ type: 'welcome', ...fields });
    for (const frame of held) this.send(frame);
  }

  /**
   * Sends a frame, or holds it until `welcome` is sent. Skips a position if the client reads too slowly, because the
   * next one is newer.
   */
  send(frame: ServerFrame): void {
    if (this.#held && frame.type !== 'error' && frame.type !== 'pong' && frame.type !== 'reconnect') {
      this.#held.push(frame);
      return;
    }
    if (this.socket.readyState !== this.socket.OPEN) return;
    if (frame.type === 'position' && this.socket.bufferedAmount > LIMITS.sockets.bufferedBytes) return;
    this.#seq += 1;
    const { type, ...rest } = frame;
    const time = new Date(this.clock.nowMs()).toISOString();
    this.socket.send(JSON.stringify({ type, seq: this.#seq, time, ...rest }));
    this.#sentAt = performance.now();
    this.onSent(type);
  }

  /** Whether the ticket of this connection covers a reservation. @param reservation "" = none */
  concerns(reservation: string): boolean {
    return reservation === '' || this.reservation === reservation;
  }

  waits(position: number, queueSize: number, estimate: number | null): void {
    this.position = position;
    this.#queueSize = queueSize;
    this.#estimate = estimate;
  }

  waitsNoMore(): void {
    this.position = null;
  }

  /** Sends the outcome of a wait, once. */
  endWait(frame: ServerFrame): void {
    if (this.position === null) return;
    this.position = null;
    this.send(frame);
  }

  /**
   * Sends the position if it changed since the last frame.
   * @param error by how many places it may be wrong; 0 = it is exact
   */
  sendPosition(position: number, error: number, queueSize: number, estimate: number | null): void {
    if (this.position === null) return;
    if (this.position === position && this.#queueSize === queueSize && this.#estimate === estimate) return;
    const now = performance.now();
    if (now - this.#positionSentAt < LIMITS.sockets.positionPauseMs) return;
    this.#positionSentAt = now;
    this.waits(position, queueSize, estimate);
    const margin = error > 0 ? { position_error: error } : {};
    this.send({ type: 'position', position, ...margin, queue_size: queueSize, estimated_wait_seconds: estimate });
  }

  /** Records activity of the client. */
  markActive(now: number): void {
    this.#activeAt = now;
    this.#unansweredSince = null;
  }

  /**
   * Returns the time of the last activity, by `performance.now()`; 0 = already returned, or presence is not required.
   */
  takeActivity(): number {
    if (this.presenceMs === 0 || this.#activeAt <= this.#reportedAt) return 0;
    this.#reportedAt = this.#activeAt;
    return this.#activeAt;
  }

  /** Sends a ping if one is due. Terminates the connection if a ping has been unanswered for `everyMs`. */
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

  /** Sends a heartbeat if the client asked for it and no frame was sent for `everyMs`. */
  heartbeat(now: number, everyMs: number): void {
    if (this.heartbeats && this.#held === null && now - this.#sentAt >= everyMs) this.send({ type: 'heartbeat' });
  }

  /** Counts a frame of the client. @returns false if there are too many */
  admitFrame(now: number): boolean {
    if (now >= this.#windowEndsAt) {
      this.#windowEndsAt = now + FRAME_WINDOW_MS;
      this.#framesInWindow = 0;
    }
    this.#framesInWindow += 1;
    return this.#framesInWindow <= LIMITS.sockets.framesPer10s;
  }

  /** Sends a close frame and terminates the connection after `CLOSE_PATIENCE_MS`. */
  close(code: keyof typeof CLOSE_CODES, reason: string): void {
    this.socket.close(CLOSE_CODES[code], reason);
    setTimeout(() => this.socket.terminate(), CLOSE_PATIENCE_MS).unref();
  }

  /** As `close`, and stops reading from the client. */
  cutOff(code: keyof typeof CLOSE_CODES, reason: string): void {
    this.close(code, reason);
    this.socket.pause();
  }
}
