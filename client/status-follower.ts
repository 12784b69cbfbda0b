import { type Fields, isStanding } from './answers.js';
import { type Answer, backoffMs, Refusal, spread } from './calls.js';
import { LineEstimate, type LineProgress } from './line-estimate.js';
import type { Connection, SocketLike, Standing } from './types.js';

/** If a socket has received no `welcome` by then, polling begins. */
const PATIENCE_MS = 4_000;
/** If no pong arrives within this time, the connection is dead, for example after sleep or a change of network. */
const PONG_MS = 8_000;
const MAX_RECONNECT_MS = 30_000;
/** The server sends a frame every 6 s. After this silence, the connection is dead. */
const SILENCE_MS = 12_000;
/** For a socket to open and to get its `welcome`, also over a slow network. */
const WELCOME_MS = 30_000;
/** Longest pause that the server in front of the service may ask for: it knows nothing of the time to pay. */
const MAX_FOREIGN_PAUSE_MS = 10_000;
/** A socket that lived for so long was no failure. */
const LIVED_MS = 10_000;
const MAX_PACE_SECONDS = 60;
/** How long the data of the line are not requested after they could not be had. */
const LINE_REST_MS = 60_000;

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
  /** What is known already. */
  standing: Standing | null;
  /** How long the service has asked for rest, ms. */
  restMs: number;
  /** null = only poll. */
  open: (() => SocketLike) | null;
  ticket: string;
  pingMs: number;
  /** Requests the standing. @param ticketAlone whether only the ticket may prove who asks */
  ask: (etag: string | null, ticketAlone: boolean) => Promise<Answer>;
  /** Requests the public data of the line. */
  line: () => Promise<Answer>;
  /** How long the place may be estimated from them, ms. */
  estimateMs: () => number;
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
  /** When `welcome` came. */
  #liveAt = 0;
  /** Number of the last frame of this socket. */
  #seq = 0;
  #pace = 2;
  #etag: string | null = null;
  #asking = false;
  /** Until when the data of the line are not requested. */
  #lineRestUntil = 0;
  /** Whether a ping has no pong yet. */
  #pinged = false;
  /** Whether a socket was refused with the code for a ticket that is not valid, which other services use too. */
  #inDoubt = false;
  /** When the next poll is due (`performance.now()`). */
  #askAt = Number.POSITIVE_INFINITY;
  /** Until when a response asked for rest. */
  #restUntil = 0;
  readonly #estimate: LineEstimate;
  readonly #timers: { [Name in TimerName]?: ReturnType<typeof setTimeout> } = {};

  constructor(readonly deps: StatusFollowerDeps) {
    this.#estimate = new LineEstimate(deps.estimateMs);
    this.#restUntil = performance.now() + deps.restMs;
    if (!deps.standing) return;
    this.#estimate.exact(deps.standing, null);
    this.#keepPace(deps.standing);
  }

  start(): void {
    this.#connect();
    this.#askIn(this.deps.open ? PATIENCE_MS : 0);
  }

  stop(): void {
    this.#ended = true;
    this.#drop();
    for (const timer of Object.values(this.#timers)) clearTimeout(timer);
  }

  /** Checks at once, because something may have changed, for example the network. */
  wake(): void {
    if (this.#ended) return;
    if (this.#live) return this.#pinged ? undefined : this.#ping(2_000);
    this.#failures = 0;
    this.#estimate.expire();
    if (!this.#socket) this.#connect();
    this.#askIn(0);
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
    this.#seq = 0;
    this.#set('silence', WELCOME_MS, () => this.#gone(null));
    // The ticket is sent in the first message, because URLs are written to logs.
    socket.onopen = () => socket.send(JSON.stringify({ type: 'subscribe', ticket: this.deps.ticket, heartbeat: true }));
    socket.onmessage = ({ data }: { data: unknown }) => this.#hear(String(data));
    socket.onerror = () => {};
    socket.onclose = ({ code }: { code?: number }) => this.#gone(code ?? null);
  }

  #hear(text: string): void {
    const frame = frameOf(text);
    // Another service sent it, or a frame before this one did not arrive, which may have been the promotion. The next
    // socket begins with the current state.
    if (frame?.seq !== this.#seq + 1) return this.#gone(null);
    const { type, seq, time, ...fields } = frame;
    this.#seq = seq;
    this.#heardAt = performance.now();
    this.#pinged = false;
    clearTimeout(this.#timers.pong);
    this.deps.onHeard(Date.parse(time));
    this.#set('silence', SILENCE_MS, () => this.#gone(null));
    switch (type) {
      case 'welcome':
        this.#estimate.exact(fields, null);
        this.#live = true;
        this.#liveAt = performance.now();
        this.#askNoMore();
        this.#keepPace(fields);
        this.#set('ping', this.deps.pingMs, () => this.#ping(PONG_MS));
        this.deps.onConnection('live');
        return this.deps.onStanding(fields);
      case 'position':
        this.#estimate.exact(fields, null);
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
        return this.#gone(null, Number(fields.after_ms) || 0);
    }
  }

  #ping(answerMs: number): void {
    const since = performance.now();
    this.#pinged = true;
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
    this.#live = this.#pinged = false;
    clearTimeout(this.#timers.silence);
    clearTimeout(this.#timers.ping);
    clearTimeout(this.#timers.pong);
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }

  /** @param leastMs how long the server wants to have rest */
  #gone(code: number | null, leastMs = 0): void {
    if (this.#live && performance.now() - this.#liveAt > LIVED_MS) this.#failures = 0;
    this.#drop();
    if (this.#ended) return;
    // 4401: the ticket is refused. Other services use this code too, so the next poll decides.
    if (code === 4401) this.#inDoubt = true;
    // 4429: there are too many sockets of this ticket, in other tabs. Polling is enough.
    const isRefused = code === 4401 || code === 4429;
    const ms = isRefused ? MAX_RECONNECT_MS : Math.max(leastMs, backoffMs(this.#failures, MAX_RECONNECT_MS));
    this.#failures += 1;
    this.#away(Math.min(ms, MAX_RECONNECT_MS));
  }

  /** Polls for `ms` before the socket reconnects. */
  #away(ms: number): void {
    this.deps.onConnection('polling');
    this.#set('reconnect', ms, () => this.#connect());
    this.#askIn(this.#pace * 1000 * Math.random());
  }

  #lose(code: string): void {
    // A response may come after the end, when there is another ticket.
    if (this.#ended) return;
    this.stop();
    this.deps.onLost(code);
  }

  /**
   * Polls after `ms`, or earlier if a poll is due then, because a socket that comes and goes must not put it off. Never
   * earlier than the last response asked for.
   */
  #askIn(ms: number): void {
    const now = performance.now();
    const at = Math.max(now + ms, this.#restUntil);
    if (at >= this.#askAt) return;
    this.#askAt = at;
    this.#set('ask', at - now, () => this.#ask());
  }

  #askNoMore(): void {
    clearTimeout(this.#timers.ask);
    this.#askAt = Number.POSITIVE_INFINITY;
  }

  async #ask(): Promise<void> {
    if (this.#asking || this.#ended) return;
    this.#asking = true;
    this.#askNoMore();
    const inDoubt = this.#inDoubt;
    this.#inDoubt = false;
    const askedAt = performance.now();
    const share = spread(1);
    const isUseful = !inDoubt && askedAt >= this.#lineRestUntil && this.#estimate.isUseful(this.#pace * 1000 * share);
    try {
      const line = isUseful ? await this.#line() : null;
      const fields = line && this.#estimate.at(line, askedAt);
      if (fields) {
        // The next exact response must correct it, also if it is the same as before.
        this.#etag = null;
        this.#show(fields);
      } else await this.#askExactly(line, inDoubt);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      if (!this.#live && !this.#ended && error.status === 0) this.deps.onConnection('offline');
      if (inDoubt && error.status === 401) return this.#lose('ticket_invalid');
      if (error.isFinal) return this.#lose(error.code);
      const restMs = error.retryAfterMs ?? 0;
      this.#restUntil =
        performance.now() + spread(error.status === 0 ? Math.min(restMs, MAX_FOREIGN_PAUSE_MS) : restMs);
    } finally {
      this.#asking = false;
      // Another poll that became due meanwhile does not count.
      this.#askNoMore();
    }
    if (!this.#live && !this.#ended) this.#askIn(this.#pace * 1000 * share);
  }

  /** @param line its data from before this request */
  async #askExactly(line: LineProgress | null, ticketAlone: boolean): Promise<void> {
    const { status, data, headers } = await this.deps.ask(this.#etag, ticketAlone);
    if (status === 200) this.#estimate.exact(data, line);
    else this.#estimate.unchanged(line);
    this.#etag = headers.get('ETag') ?? this.#etag;
    this.#keepPace(data);
    this.#show(status === 200 ? data : null);
  }

  #keepPace({ poll_after_seconds }: { poll_after_seconds?: unknown }): void {
    this.#pace = Math.min(Math.max(Number(poll_after_seconds) || this.#pace, 1), MAX_PACE_SECONDS);
  }

  /** Reports what was polled, unless the socket is faster. */
  #show(fields: Partial<Standing> | null): void {
    this.deps.onHeard(null);
    if (this.#live || this.#ended) return;
    this.deps.onConnection('polling');
    if (fields) this.deps.onStanding(fields);
  }

  /** The public data of the line, which a CDN may hold; null = they cannot be had. */
  #line(): Promise<LineProgress | null> {
    return this.deps.line().then(
      ({ data }) => data as LineProgress,
      () => {
        this.#lineRestUntil = performance.now() + LINE_REST_MS;
        return null;
      },
    );
  }

  #set(name: TimerName, ms: number, work: () => unknown): void {
    clearTimeout(this.#timers[name]);
    this.#timers[name] = setTimeout(work, ms);
  }
}

/** A frame of the service; null = what it never sends. */
function frameOf(text: string): (Fields & { type: string; seq: number; time: string }) | null {
  try {
    const { type, seq, time, ...fields } = JSON.parse(text);
    const isOurs = typeof type === 'string' && Number.isInteger(seq) && Date.parse(time) > 0;
    return isOurs && (type !== 'welcome' || isStanding(fields)) ? { type, seq, time, ...fields } : null;
  } catch {
    return null;
  }
}
