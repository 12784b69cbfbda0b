import { type Answer, backoffMs, Refusal } from './calls.js';
import type { Connection, SocketLike, Standing } from './types.js';

/** A socket that has not been welcomed by then is helped out by asking. */
const PATIENCE_MS = 4_000;
/** A pong that takes longer means a dead connection: a laptop slept, a network changed. */
const PONG_MS = 8_000;
const MAX_RECONNECT_MS = 30_000;

export type StatusFollowerDeps = {
  /** null = only ask. */
  open: (() => SocketLike) | null;
  ticket: string;
  pingMs: number;
  ask: (etag: string | null) => Promise<Answer>;
  onStanding: (fields: Partial<Standing>) => void;
  onConnection: (connection: Connection) => void;
  /** The ticket is not taken any more. */
  onLost: (code: string) => void;
};

type TimerName = 'reconnect' | 'ask' | 'ping' | 'pong';

/**
 * Follows one ticket: over a socket while there is one, by asking at the advertised pace while there is none. The
 * socket comes back by itself, and its `welcome` tells what was missed.
 */
export class StatusFollower {
  #socket: SocketLike | null = null;
  #live = false;
  #ended = false;
  #failures = 0;
  #heardAt = 0;
  #pace = 2;
  #etag: string | null = null;
  #asking = false;
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

  /** Something may have changed, the network for one: looks at once. */
  wake(): void {
    if (this.#ended) return;
    if (this.#live) return this.#ping(2_000);
    this.#failures = 0;
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
    // The ticket goes in the first message, since addresses are written into logs.
    socket.onopen = () => socket.send(JSON.stringify({ type: 'subscribe', ticket: this.deps.ticket }));
    socket.onmessage = ({ data }: { data: unknown }) => this.#hear(String(data));
    socket.onerror = () => {};
    socket.onclose = ({ code }: { code?: number }) => this.#gone(code ?? null);
  }

  #hear(text: string): void {
    this.#heardAt = Date.now();
    clearTimeout(this.#timers.pong);
    const { type, seq: _, time: __, ...fields } = JSON.parse(text) as { type: string } & Record<string, unknown>;
    switch (type) {
      case 'welcome':
        this.#live = true;
        this.#failures = 0;
        clearTimeout(this.#timers.ask);
        this.#pace = Number(fields.poll_after_seconds) || this.#pace;
        this.#set('ping', this.deps.pingMs, () => this.#ping(PONG_MS));
        this.deps.onConnection('live');
        return this.deps.onStanding(fields);
      case 'position':
        return this.deps.onStanding({ status: 'queued', ...fields });
      case 'promoted':
      case 'redeemed':
      case 'released':
      case 'expired':
      case 'closed':
      case 'left':
        return this.deps.onStanding({ status: type, position: null, ...fields });
      case 'reconnect':
        this.#drop();
        return this.#away(Number(fields.after_ms) || 0);
    }
  }

  #ping(answerMs: number): void {
    const since = Date.now();
    this.#socket?.send('{"type":"ping"}');
    this.#set('ping', this.deps.pingMs, () => this.#ping(PONG_MS));
    this.#set('pong', answerMs, () => {
      // Closing waits for the other side, which is not there; so it is let go.
      if (this.#heardAt < since) this.#gone(null);
    });
  }

  #drop(): void {
    const socket = this.#socket;
    this.#socket = null;
    this.#live = false;
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
    // 4429: another tab has taken its place; asking serves as well.
    this.#away(code === 4429 ? MAX_RECONNECT_MS : backoffMs(this.#failures, MAX_RECONNECT_MS));
    this.#failures += 1;
  }

  /** Without a socket for so long: asks meanwhile. */
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
      const { status, data, headers } = await this.deps.ask(this.#etag);
      this.#etag = headers.get('ETag') ?? this.#etag;
      this.#pace = Number(data.poll_after_seconds) || this.#pace;
      if (!this.#live && !this.#ended) {
        this.deps.onConnection('polling');
        if (status === 200) this.deps.onStanding(data);
      }
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      if (!this.#live && !this.#ended && error.status === 0) this.deps.onConnection('offline');
      if (error.status >= 400 && error.status < 500 && error.status !== 429) return this.#lose(error.code);
      waitMs = error.retryAfterMs ?? 0;
    } finally {
      this.#asking = false;
    }
    if (!this.#live && !this.#ended) {
      // Never sooner than the response asked for, and not all clients at the same moment.
      this.#set('ask', Math.max(waitMs, this.#pace * 1000 * (1 + Math.random() / 5)), () => this.#ask());
    }
  }

  #set(name: TimerName, ms: number, work: () => unknown): void {
    clearTimeout(this.#timers[name]);
    this.#timers[name] = setTimeout(work, ms);
  }
}
