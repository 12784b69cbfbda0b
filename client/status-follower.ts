import { type Answer, backoffMs, Refusal } from './calls.js';
import { LineEstimate, type LineProgress } from './line-estimate.js';
import type { Connection, SocketLike, Standing } from './types.js';

/** If a socket has received no `welcome` by then, polling begins. */
const PATIENCE_MS = 4_000;
/** If no pong arrives within this time, the connection is dead, for example after sleep or a change of network. */
const PONG_MS = 8_000;
const MAX_RECONNECT_MS = 30_000;
/** A server that sends heartbeats sends a frame every 6 s. After this silence the connection is dead. */
const SILENCE_MS = 12_000;

/** A shopper without a place or unit. */
export const NOWHERE: Standing = {
  status: 'not_queued',
  position: null,
  queue_size: 0,
  estimated_wait_seconds: null,
  poll_after_seconds: 2,
  reservation_id: null,
  order_id: null,
  pay_before: null,
};
/** The statuses that may still change, so they are followed. */
export const FOLLOWED: readonly string[] = ['queued', 'promoted', 'completed'];

export type StatusFollowerDeps = {
  /** null = only poll. */
  open: (() => SocketLike) | null;
  ticket: string;
  pingMs: number;
  ask: (etag: string | null) => Promise<Answer>;
  /** Requests the public data of the line. */
  line: () => Promise<Answer>;
  onStanding: (fields: Partial<Standing>) => void;
  onConnection: (connection: Connection) => void;
  /** The server has sent something. @param timeMs the time of the server; null = it sent none */
  onHeard: (timeMs: number | null) => void;
  onPause: (event: 'paused' | 'resumed') => void;
  /** The server no longer accepts the ticket. */
  onLost: (code: string) => void;
};

type TimerName = 'reconnect' | 'ask' | 'ping' | 'pong' | 'silence';

/**
 * Follows one ticket: over a socket, or by polling at the pace of the server while there is no socket. The socket
 * reconnects by itself, and its `welcome` frame has the current state.
 */
export class StatusFollower {
  #socket: SocketLike | null = null;
  #live = false;
  #ended = false;
  #failures = 0;
  #heardAt = 0;
  #pace = 2;
  #heartbeats = false;
  #etag: string | null = null;
  #asking = false;
  readonly #estimate = new LineEstimate();
  readonly #timers: { [Name in TimerName]?: ReturnType<typeof setTimeout> } = {};

  constructor(readonly deps: StatusFollowerDeps) {}

  start(): void {
    this.#connect();
    this.#set('ask', this.deps.open ? PATIENCE_MS : 0, () => this.#ask());
  }

  stop(): void {
    this.#ended = true;
    this.#drop();
    for (const timer of Object.values(this.#timers)) clearTimeout(timer);
  }

  /** Checks at once, because something may have changed, for example the network. */
  wake(): void {
    if (this.#ended) return;
    if (this.#live) return this.#ping(2_000);
    this.#failures = 0;
    this.#estimate.expire();
    if (!this.#socket) this.#connect();
    this.#ask();
  }

  #connect(): void {
    if (this.#ended || !this.deps.open) return;
    clearTimeout(this.#timers.reconnect);
    let socket: SocketLike;
    try {
      socket = this.deps.open();
    } catch {
      return this.#gone(null);
    }
    this.#socket = socket;
    // The ticket is sent in the first message, because URLs are written to logs.
    socket.onopen = () => socket.send(JSON.stringify({ type: 'subscribe', ticket: this.deps.ticket, heartbeat: true }));
    socket.onmessage = ({ data }: { data: unknown }) => this.#hear(String(data));
    socket.onerror = () => {};
    socket.onclose = ({ code }: { code?: number }) => this.#gone(code ?? null);
  }

  #hear(text: string): void {
    let frame: { type: string } & Record<string, unknown>;
    try {
      frame = JSON.parse(text);
    } catch {
      // A proxy sent it. It is no sign of life: without one the socket counts as lost, and polling begins.
      return;
    }
    this.#heardAt = performance.now();
    clearTimeout(this.#timers.pong);
    const { type, seq: _, time, ...fields } = frame;
    const timeMs = Date.parse(String(time));
    this.deps.onHeard(timeMs || null);
    this.#heartbeats ||= type === 'heartbeat';
    if (this.#heartbeats) this.#set('silence', SILENCE_MS, () => this.#gone(null));
    switch (type) {
      case 'welcome':
        this.#estimate.exact(fields);
        this.#live = true;
        this.#failures = 0;
        clearTimeout(this.#timers.ask);
        this.#pace = Number(fields.poll_after_seconds) || this.#pace;
        this.#set('ping', this.deps.pingMs, () => this.#ping(PONG_MS));
        this.deps.onConnection('live');
        return this.deps.onStanding(fields);
      case 'position':
        this.#estimate.exact(fields);
        return this.deps.onStanding({ status: 'queued', ...fields });
      case 'promoted':
      case 'redeemed':
      case 'released':
      case 'expired':
      case 'closed':
      case 'left':
        return this.deps.onStanding({ status: type, position: null, ...fields });
      // The status stays that of the unit: `promoted`, or `completed` by a checkout.
      case 'extended':
        return this.deps.onStanding(fields);
      case 'paused':
      case 'resumed':
        return this.deps.onPause(type);
      case 'reconnect':
        this.#drop();
        return this.#away(Math.min(Number(fields.after_ms) || 0, MAX_RECONNECT_MS));
    }
  }

  #ping(answerMs: number): void {
    const since = performance.now();
    this.#socket?.send('{"type":"ping"}');
    this.#set('ping', this.deps.pingMs, () => this.#ping(PONG_MS));
    this.#set('pong', answerMs, () => {
      // The socket is dropped without waiting, because a close would wait for the other side.
      if (this.#heardAt < since) this.#gone(null);
    });
  }

  #drop(): void {
    const socket = this.#socket;
    this.#socket = null;
    this.#live = false;
    this.#heartbeats = false;
    clearTimeout(this.#timers.silence);
    clearTimeout(this.#timers.ping);
    clearTimeout(this.#timers.pong);
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }

  #gone(code: number | null): void {
    this.#drop();
    if (this.#ended) return;
    if (code === 4401) return this.#lose('ticket_invalid');
    // 4429: there are too many sockets of this ticket, in other tabs. Polling is enough.
    this.#away(code === 4429 ? MAX_RECONNECT_MS : backoffMs(this.#failures, MAX_RECONNECT_MS));
    this.#failures += 1;
  }

  /** Polls for `ms` before the socket reconnects. */
  #away(ms: number): void {
    this.deps.onConnection('polling');
    this.#set('reconnect', ms, () => this.#connect());
    this.#set('ask', this.#pace * 1000 * Math.random(), () => this.#ask());
  }

  #lose(code: string): void {
    this.stop();
    this.deps.onLost(code);
  }

  async #ask(): Promise<void> {
    if (this.#asking || this.#ended) return;
    this.#asking = true;
    let waitMs = 0;
    try {
      if (!(await this.#followLine())) await this.#askExactly();
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      if (!this.#live && !this.#ended && error.status === 0) this.deps.onConnection('offline');
      if (error.isFinal) return this.#lose(error.code);
      waitMs = error.retryAfterMs ?? 0;
    } finally {
      this.#asking = false;
    }
    if (!this.#live && !this.#ended) {
      // Never earlier than the response asked for, with a random part so that clients do not poll at the same moment.
      this.#set('ask', Math.max(waitMs, this.#pace * 1000 * (1 + Math.random() / 5)), () => this.#ask());
    }
  }

  async #askExactly(): Promise<void> {
    const { status, data, headers } = await this.deps.ask(this.#etag);
    if (status === 200) this.#estimate.exact(data);
    else this.#estimate.unchanged();
    this.#etag = headers.get('ETag') ?? this.#etag;
    this.#pace = Number(data.poll_after_seconds) || this.#pace;
    this.#show(status === 200 ? data : null);
  }

  /** Reports what was polled, unless the socket is faster. */
  #show(fields: Partial<Standing> | null): void {
    this.deps.onHeard(null);
    if (this.#live || this.#ended) return;
    this.deps.onConnection('polling');
    if (fields) this.deps.onStanding(fields);
  }

  /**
   * Follows the place by the public data of the line, which a CDN may hold.
   * @returns false when the exact standing has to be requested
   */
  async #followLine(): Promise<boolean> {
    if (!this.#estimate.suffices) return false;
    try {
      const { data } = await this.deps.line();
      const fields = this.#estimate.at(data as LineProgress);
      if (!fields) return false;
      this.#show(fields);
      return true;
    } catch {
      return false;
    }
  }

  #set(name: TimerName, ms: number, work: () => unknown): void {
    clearTimeout(this.#timers[name]);
    this.#timers[name] = setTimeout(work, ms);
  }
}
