import { type Attempt, defaultStore, KeptAttempt } from './attempt.js';
import { type Answer, type Call, Calls, Refusal } from './calls.js';
import { Emitter } from './emitter.js';
import { solveWork } from './proof-of-work.js';
import { StatusFollower } from './status-follower.js';
import type { CampaignView, Connection, SaleEvents, SaleOptions, SocketLike, Standing } from './types.js';

export { MemoryStore } from './attempt.js';
export { Refusal } from './calls.js';
export { solveWork } from './proof-of-work.js';
export type * from './types.js';

/** A token lives 30 s and is tolerated longer; this leaves time for a slow network. */
const TOKEN_FRESH_MS = 25_000;
const NOWHERE: Standing = {
  status: 'not_queued',
  position: null,
  queue_size: 0,
  estimated_wait_seconds: null,
  poll_after_seconds: 2,
  reservation_id: null,
  order_id: null,
  pay_before: null,
};
/** In these something may still happen, so they are followed. */
const FOLLOWED: readonly string[] = ['queued', 'promoted', 'completed'];

/**
 * One shopper in one sale. The wish to buy has a key that is kept before the first try, so a lost answer, a reload or a
 * second tab never makes it two wishes. It ends with a refusal or with the standing's end; the next attempt is a new one.
 */
export class Sale extends Emitter<SaleEvents> {
  /** The last one known; null = not known yet. */
  standing: Standing | null = null;
  /** How news comes; null = nothing is followed. */
  connection: Connection | null = null;
  readonly #calls: Calls;
  readonly #kept: KeptAttempt;
  #line: StatusFollower | null = null;
  #intention: Attempt | null = null;
  #attempting: Promise<Standing> | null = null;
  #token: { fields: Record<string, unknown>; readAt: number } | null = null;
  #serverAheadMs = 0;

  constructor(readonly options: SaleOptions) {
    super();
    this.#calls = new Calls({
      ...options,
      baseUrl: options.baseUrl ?? '',
      fetch: options.fetch ?? ((...args) => fetch(...args)),
      timeoutMs: options.timeoutMs ?? 10_000,
    });
    this.#kept = new KeptAttempt(options.store ?? defaultStore(), options.productId, options.userId);
  }

  /**
   * Whether this device has the ticket of the place or unit. Without it the standing has the place only, and `leave` and
   * `release` are refused: the user checked out on another device.
   */
  get holdsTicket(): boolean {
    return Boolean(this.#intention?.ticket);
  }

  /** The server's time in milliseconds, once `campaign` was called; this device's before. */
  now(): number {
    return Date.now() + this.#serverAheadMs;
  }

  /** What anybody may know of the sale. @throws Refusal */
  async campaign(): Promise<CampaignView> {
    const before = Date.now();
    const { data } = await this.#calls.once({ method: 'GET', path: `/flash-sale/campaign?${this.#query()}` });
    const view = data as CampaignView;
    this.#serverAheadMs = Date.parse(view.server_time) - (before + Date.now()) / 2;
    return view;
  }

  /** Gets what a checkout needs beforehand, so that the moment of the start costs one call less. @throws Refusal */
  async prepare(): Promise<void> {
    await this.#freshToken();
  }

  /** Goes on with what was kept: after a reload, in a second tab. Never begins anything. */
  async resume(): Promise<Standing | null> {
    this.#intention = await this.#kept.read();
    if (!this.#intention) return null;
    // Without a ticket the answer to its checkout was never read; the same key gets it.
    if (!this.#intention.ticket) return this.attempt(this.#intention.qty);
    try {
      this.#take((await this.#status(null)).data);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      if (!error.passes) return this.#lose(error.code).then(() => null);
    }
    this.#follow();
    return this.standing;
  }

  /**
   * Tries to get a unit, or a place in line, and insists on an answer. While one attempt is under way, another is the
   * same one. An attempt that was begun before and never answered is ended first, with its own quantity.
   * @throws Refusal: the service refused, or did not answer for `retryForMs`
   */
  attempt(qty = 1): Promise<Standing> {
    this.#attempting ??= this.#attempt(qty).finally(() => {
      this.#attempting = null;
    });
    return this.#attempting;
  }

  /** Leaves the line. @throws Refusal */
  async leave(): Promise<void> {
    await this.#insist({ method: 'DELETE', path: '/flash-sale/queue', headers: this.#ticket() });
    this.#take({ status: 'left', position: null });
  }

  /** Gives the reservation up. @throws Refusal */
  async release(reason?: string): Promise<void> {
    const body = { reservation_id: this.standing?.reservation_id, ...(reason ? { reason } : {}) };
    const call = { method: 'POST', path: '/flash-sale/release', headers: this.#ticket(), body };
    const { data } = await this.#insist(call);
    this.#take({ status: data.status as Standing['status'] });
  }

  /** The network or the screen is back: looks at once instead of waiting. */
  wake(): void {
    this.#calls.wake();
    this.#line?.wake();
  }

  /** Ends sockets and timers. What was kept stays for the next time. */
  stop(): void {
    this.#calls.stopped = true;
    this.#calls.wake();
    this.#line?.stop();
    this.#line = null;
  }

  async #attempt(qty: number): Promise<Standing> {
    if (this.standing && FOLLOWED.includes(this.standing.status)) return this.standing;
    // What has ended is given up; the next wish has a key of its own.
    if (this.standing && this.#intention) await this.#kept.forget(this.#intention.key);
    const intention = await this.#kept.claim(qty);
    this.#intention = intention;
    try {
      const { data, headers } = await this.#checkout(intention);
      const { ticket, ...fields } = data;
      // The ticket of a place that another device took is not returned.
      if (ticket) {
        this.#intention = { ...intention, ticket: String(ticket) };
        await this.#kept.keepTicket(intention, String(ticket));
      }
      // A repeated answer tells how it was then.
      const old = headers.get('Idempotent-Replayed') !== null;
      const now = old ? await this.#status(null).catch(() => null) : null;
      this.#take(now ? now.data : fields);
    } catch (error) {
      if (error instanceof Refusal && !error.passes) {
        await this.#kept.forget(intention.key);
        this.#intention = null;
      }
      throw error;
    }
    this.#follow();
    return this.standing ?? NOWHERE;
  }

  async #checkout({ key, qty }: Attempt): Promise<Answer> {
    const { productId, userId } = this.options;
    let proof: Record<string, unknown> = {};
    let mended = 0;
    for (;;) {
      try {
        return await this.#calls.insist(
          async () =>
            this.#calls.once({
              method: 'POST',
              path: '/flash-sale/checkout',
              headers: { 'Idempotency-Key': key },
              body: { product_id: productId, user_id: userId, qty, ...(await this.#freshToken()), ...proof },
            }),
          this.#retryForMs,
          (retry) => this.emit('retry', retry),
        );
      } catch (error) {
        // A stale token and a challenge are no refusals: what is missing is got, and the same wish is sent again.
        if (!(error instanceof Refusal) || mended >= 3) throw error;
        mended += 1;
        if (/^attestation_/.test(error.code)) this.#token = null;
        else {
          const solved = await this.#solve(error);
          // What the platform of the app has signed makes a token.
          if (solved.platform) await this.#proveDevice({ product_id: productId, ...solved });
          else proof = solved;
        }
      }
    }
  }

  async #freshToken(): Promise<Record<string, unknown>> {
    if (!this.#token || Date.now() - this.#token.readAt > TOKEN_FRESH_MS) {
      const path = `/flash-sale/token?device_fp=${encodeURIComponent(await this.#device())}`;
      try {
        this.#keepToken(await this.#calls.once({ method: 'GET', path }));
      } catch (error) {
        await this.#proveDevice(await this.#solve(error));
      }
    }
    return this.#token?.fields ?? {};
  }

  async #proveDevice(proof: Record<string, unknown>): Promise<void> {
    const body = { device_fp: await this.#device(), ...proof };
    this.#keepToken(await this.#calls.once({ method: 'POST', path: '/flash-sale/token', body }));
  }

  #keepToken({ data }: Answer): void {
    this.#token = { fields: data, readAt: Date.now() };
  }

  async #device(): Promise<string> {
    return this.options.deviceId ?? (await this.#kept.device());
  }

  /** The solution of the challenge in a refusal. @throws the refusal, when it has no challenge or there is no solver */
  async #solve(error: unknown): Promise<Record<string, unknown>> {
    if (!(error instanceof Refusal) || error.code !== 'challenge_required') throw error;
    const { challenge } = error.problem;
    const solved = await (this.options.onChallenge ?? solveWork)(challenge ?? {});
    if (!solved) throw error;
    return solved;
  }

  #status(etag: string | null): Promise<Answer> {
    return this.#calls.once({
      method: 'GET',
      path: `/flash-sale/queue-status?${this.#query()}&user_id=${encodeURIComponent(this.options.userId)}`,
      headers: { ...this.#ticket(), ...(etag ? { 'If-None-Match': etag } : {}) },
    });
  }

  #insist(call: Call): Promise<Answer> {
    return this.#calls.insist(
      () => this.#calls.once(call),
      this.#retryForMs,
      (retry) => this.emit('retry', retry),
    );
  }

  get #retryForMs(): number {
    return this.options.retryForMs ?? 120_000;
  }

  #query(): string {
    return `product_id=${encodeURIComponent(this.options.productId)}`;
  }

  #ticket(): Record<string, string> {
    const ticket = this.#intention?.ticket;
    return ticket ? { 'X-Ticket': ticket } : {};
  }

  /** Takes over what is new of the standing and tells it. */
  #take(fields: Partial<Standing>): void {
    const before = this.standing;
    const now: Standing = { ...(before ?? NOWHERE), ...fields };
    if (now.status !== 'queued') now.position = null;
    this.standing = now;
    if (!FOLLOWED.includes(now.status)) this.#unfollow();
    if (JSON.stringify(before) === JSON.stringify(now)) return;
    if (before?.status !== now.status) this.emit(now.status, now, before);
    if (before?.position !== now.position || before?.queue_size !== now.queue_size) this.emit('position', now, before);
    this.emit('change', now, before);
  }

  #follow(): void {
    this.#unfollow();
    if (this.#calls.stopped || (this.standing && !FOLLOWED.includes(this.standing.status))) return;
    const Socket =
      this.options.WebSocket === undefined
        ? (globalThis as { WebSocket?: new (url: string) => SocketLike }).WebSocket
        : this.options.WebSocket;
    const base = this.options.baseUrl || (globalThis as { location?: { origin: string } }).location?.origin || '';
    this.#line = new StatusFollower({
      // A socket needs the ticket.
      open: Socket && this.holdsTicket ? () => new Socket(`${base.replace(/^http/, 'ws')}/flash-sale/ws`) : null,
      ticket: this.#intention?.ticket ?? '',
      pingMs: this.options.pingMs ?? 25_000,
      ask: (etag) => this.#status(etag),
      onStanding: (fields) => this.#take(fields),
      onConnection: (connection) => {
        if (this.connection === connection) return;
        this.connection = connection;
        this.emit('connection', connection);
      },
      onLost: (code) => this.#lose(code),
    });
    this.#line.start();
  }

  #unfollow(): void {
    this.#line?.stop();
    this.#line = null;
    this.connection = null;
  }

  async #lose(code: string): Promise<void> {
    if (this.#intention) await this.#kept.forget(this.#intention.key);
    this.#intention = null;
    this.standing = null;
    this.#unfollow();
    this.emit('lost', code);
  }
}
