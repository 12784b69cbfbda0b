import { type Fields, isCampaign, isLine, isPromise, isStanding } from './answers.js';
import { type Attempt, defaultStore, KeptAttempt, randomId } from './attempt.js';
import { type Answer, type Call, Calls, Refusal } from './calls.js';
import { DeviceToken } from './device-token.js';
import { Emitter } from './emitter.js';
import { solveWork } from './proof-of-work.js';
import { ServerClock } from './server-clock.js';
import { FOLLOWED, NOWHERE, StatusFollower } from './status-follower.js';
import type {
  CampaignView,
  Connection,
  PayableStanding,
  PushSubscriptionFields,
  SaleEvents,
  SaleOptions,
  SocketLike,
  Standing,
} from './types.js';

export { type Attempt, MemoryStore } from './attempt.js';
export { Refusal } from './calls.js';
export { solveWork } from './proof-of-work.js';
export type * from './types.js';

/** A position by the public data of the line is requested exactly after this time at the latest. */
const MAX_ESTIMATE_MS = 60_000;
/** Assumed until the campaign is known. */
const SHORT_HOLD_SECONDS = 30;

/**
 * One shopper in one sale. The idempotency key of an attempt is stored before the first try, so a lost response, a
 * reload or a second tab never makes a second purchase. An attempt ends when the service refuses it, or when the
 * standing reaches a final status. The next attempt gets a new key. As long as a try may have taken a unit, the key is
 * kept, and stays aside after a refusal until another attempt has its own.
 */
export class Sale extends Emitter<SaleEvents> {
  /** The last known standing; null = not known yet. */
  standing: Standing | null = null;
  /** How changes arrive; null = nothing is followed. */
  connection: Connection | null = null;
  /** When the server last sent something about the standing, by `Date.now()`; null = not yet. */
  heardAtMs: number | null = null;
  readonly #calls: Calls;
  readonly #kept: KeptAttempt;
  #follower: StatusFollower | null = null;
  #pending: Attempt | null = null;
  #attempting: Promise<Standing> | null = null;
  /** Whether a try of the pending attempt may have had an effect that this client does not know. */
  #inDoubt = false;
  /** The reservation of the last `pay` event. */
  #payable: string | null = null;
  readonly #token: DeviceToken;
  readonly #clock = new ServerClock();
  #campaign: { view: CampaignView; etag: string | null } | null = null;

  constructor(readonly options: SaleOptions) {
    super();
    this.#calls = new Calls({
      ...options,
      baseUrl: options.baseUrl ?? '',
      fetch: options.fetch ?? ((...args) => fetch(...args)),
      timeoutMs: options.timeoutMs ?? 10_000,
      // While responses are slow, the first one alone would leave the clock seconds behind.
      answered: (headers, askedAtMs) => this.#clock.learnFrom(headers, null, askedAtMs),
    });
    this.#kept = new KeptAttempt(options.store ?? defaultStore(), options.productId, options.userId);
    this.#token = new DeviceToken(this.#calls, {
      device: async () => options.deviceId ?? this.#kept.device(),
      solve: options.onChallenge ?? solveWork,
    });
  }

  /**
   * Whether this device has the ticket of the place or unit. If not, the user checked out on another device: the
   * standing then has only the place, and `leave` and `release` are refused.
   */
  get holdsTicket(): boolean {
    return Boolean(this.#pending?.ticket);
  }

  /** The server's time in ms; before the first `campaign` call, the time of this device. */
  now(): number {
    return this.#clock.now();
  }

  /**
   * Requests the public data of the sale. @throws Refusal
   * @param fresh asks the server, or the CDN, although the browser still has data of less than a second ago
   */
  async campaign(fresh = false): Promise<CampaignView> {
    const before = performance.now();
    const known = this.#campaign;
    const { status, data, headers } = await this.#calls.once({
      method: 'GET',
      path: `/flash-sale/campaign?${this.#query()}`,
      fits: isCampaign,
      // Before the start, each response makes the clock more exact.
      headers: known?.etag && known.view.status !== 'scheduled' ? { 'If-None-Match': known.etag } : {},
      ...(fresh ? { cache: 'no-cache' as const } : {}),
    });
    if (status === 304 && known) {
      // Null if the header is missing or no time.
      const checkedAt = new Date(headers.get('Date') ?? '').toJSON() as string | null;
      if (checkedAt) known.view = { ...known.view, server_time: checkedAt };
      return known.view;
    }
    const view = data as CampaignView;
    this.#clock.learnFrom(headers, view.server_time, before);
    this.#campaign = { view, etag: headers.get('ETag') };
    return view;
  }

  /** Requests the device token in advance, which saves a call at the start of the sale. @throws Refusal */
  async prepare(): Promise<void> {
    await this.#token.fields();
  }

  /** The attempt with its ticket, for another device of the same shopper. Who has it can pay or leave the line. */
  get transfer(): Attempt | null {
    return this.#pending?.ticket ? { ...this.#pending } : null;
  }

  /** Takes the `transfer` of another device, if this one has no attempt. `resume` continues it. */
  async adopt(transfer: Attempt): Promise<void> {
    await this.#kept.claim(transfer);
  }

  /** Continues the stored attempt, after a reload or in a second tab. Never begins a new one. */
  async resume(): Promise<Standing | null> {
    this.#pending = await this.#kept.read();
    if (!this.#pending) return null;
    // Without a ticket, the response to the checkout was never read. The same key returns it.
    if (!this.#pending.ticket) return this.#pending.ended ? null : this.attempt(this.#pending.qty);
    let restMs = 0;
    try {
      this.#applyStatus((await this.#status(null)).data);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      if (error.isFinal) return this.#lose(error.code);
      restMs = error.retryAfterMs ?? 0;
    }
    this.#follow(restMs);
    return this.standing;
  }

  /**
   * Tries to get a unit or a place in line, and retries until there is a response. A second call while one runs returns
   * the same promise. If an earlier attempt never got a response, it is continued instead, with its own quantity.
   * @throws Refusal when the service refused, or did not respond for `retryForMs`
   */
  attempt(qty = 1): Promise<Standing> {
    this.#attempting ??= this.#attempt(qty).finally(() => {
      this.#attempting = null;
    });
    return this.#attempting;
  }

  /** Leaves the line. @throws Refusal */
  async leave(): Promise<void> {
    const fits = ({ status }: Fields) => status === 'left';
    await this.#withTicket({ method: 'DELETE', path: '/flash-sale/queue', fits });
    this.#applyStatus({ status: 'left', position: null });
  }

  /** Gives up the reservation. @throws Refusal */
  async release(reason?: string): Promise<void> {
    const body = { reservation_id: this.standing?.reservation_id, ...(reason ? { reason } : {}) };
    const fits = ({ status }: Fields) => status === 'released' || status === 'expired';
    const { data } = await this.#withTicket({ method: 'POST', path: '/flash-sale/release', body, fits });
    this.#applyStatus({ status: data.status as Standing['status'] });
  }

  /**
   * Lets the server notify this browser by Web Push when the shopper gets a unit, or the line ends. The place in line
   * must be known.
   * @param subscription what `PushSubscription.toJSON()` of the browser returns
   * @param language tag of the language of the notification, such as `en`
   * @throws Refusal
   */
  async subscribeToPush(subscription: PushSubscriptionFields, language?: string): Promise<void> {
    const { endpoint, keys } = subscription;
    const body = { endpoint, keys, ...(language ? { language } : {}) };
    const fits = ({ subscribed }: Fields) => subscribed === true;
    await this.#withTicket({ method: 'POST', path: '/flash-sale/push', body, fits });
  }

  /** Ends the notifications about this place, in every browser. @throws Refusal */
  async unsubscribeFromPush(): Promise<void> {
    const fits = ({ subscribed }: Fields) => subscribed === false;
    await this.#withTicket({ method: 'DELETE', path: '/flash-sale/push', fits });
  }

  /** Checks at once instead of waiting. Call it when the network or the screen is back. */
  wake(): void {
    this.#calls.wake();
    this.#follower?.wake();
  }

  /** Ends sockets and timers. The stored attempt stays. */
  stop(): void {
    this.#calls.stopped = true;
    this.#calls.wake();
    this.#follower?.stop();
    this.#follower = null;
  }

  async #attempt(qty: number): Promise<Standing> {
    if (this.standing && FOLLOWED.includes(this.standing.status)) return this.standing;
    // An attempt with a final standing is replaced, and so is one that was refused, if the quantity is another one.
    const before = this.#pending;
    const over = before && (this.standing || (before.ended && before.qty !== qty)) ? before.key : null;
    this.standing = null;
    const newKey = randomId();
    const attempt = await this.#kept.claim({ key: newKey, qty }, over);
    this.#inDoubt = attempt.key !== newKey;
    this.#pending = attempt;
    try {
      const { data, headers } = await this.#checkout(attempt);
      const { ticket, ...fields } = data;
      // The response has no ticket if another device took the place.
      if (ticket) {
        this.#pending = { ...attempt, ticket: String(ticket) };
        await this.#kept.keepTicket(this.#pending);
      }
      // A replayed response may be out of date, so the current status is requested.
      const old = headers.get('Idempotent-Replayed') !== null;
      const now = old ? await this.#status(null).catch(() => null) : null;
      this.#applyStatus(now ? now.data : fields);
    } catch (error) {
      if (error instanceof Refusal && !error.passes) {
        // In doubt only what the service remembers ends it: the same key had returned what an earlier try took. A proxy
        // may still deliver that try, so the next press sends this key again.
        if (error.isFinal || !this.#inDoubt) await this.#kept.end(attempt.key, this.#inDoubt);
        const ended = error.isFinal || [400, 422].includes(error.status);
        this.#pending = this.#inDoubt ? { ...attempt, ended } : null;
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
        return await this.#withRetry(async () => ({
          method: 'POST',
          path: '/flash-sale/checkout',
          headers: { 'Idempotency-Key': key },
          fits: isPromise,
          body: { ...(await this.#token.fields()), ...proof, product_id: productId, user_id: userId, qty },
        }));
      } catch (error) {
        // An expired token or a challenge does not end the attempt: the client gets a token or solves the challenge,
        // and repeats the checkout with the same key.
        if (!(error instanceof Refusal) || mended >= 3) throw error;
        mended += 1;
        if (/^attestation_/.test(error.code)) this.#token.drop();
        else {
          const solved = await this.#token.solve(error);
          // An attestation of the app's platform is exchanged for a token.
          if (solved.platform) await this.#token.prove({ product_id: productId, ...solved });
          else proof = solved;
        }
      }
    }
  }

  #status(etag: string | null, ticketAlone = false): Promise<Answer> {
    return this.#calls.once({
      method: 'GET',
      anonymous: ticketAlone,
      path: `/flash-sale/queue-status?${this.#query()}&user_id=${encodeURIComponent(this.options.userId)}`,
      headers: { ...this.#ticket(), ...(etag ? { 'If-None-Match': etag } : {}) },
      fits: isStanding,
    });
  }

  #withRetry(call: () => Call | Promise<Call>): Promise<Answer> {
    return this.#calls.withRetry(
      async () => this.#calls.once(await call()),
      this.options.retryForMs ?? 120_000,
      (retry) => {
        this.#inDoubt = true;
        this.emit('retry', retry);
      },
    );
  }

  /** A call by the holder of the ticket. If the ticket is not valid any more, the next attempt gets a new one. */
  async #withTicket(call: Call): Promise<Answer> {
    let sent: string | undefined;
    try {
      return await this.#withRetry(() => {
        sent = this.#pending?.ticket;
        return { ...call, headers: this.#ticket() };
      });
    } catch (error) {
      const isRefused = error instanceof Refusal && error.code === 'ticket_invalid';
      // There may be a newer one.
      if (isRefused && sent && sent === this.#pending?.ticket) this.#lose(error.code);
      throw error;
    }
  }

  #query(): string {
    return `product_id=${encodeURIComponent(this.options.productId)}`;
  }

  #ticket(): Record<string, string> {
    const ticket = this.#pending?.ticket;
    return ticket ? { 'X-Ticket': ticket } : {};
  }

  /** Applies new fields to the standing, and emits the changes. */
  #applyStatus(fields: Partial<Standing>): void {
    this.heardAtMs = Date.now();
    const before = this.standing;
    // An exact position comes without an error.
    const now: Standing = { ...NOWHERE, ...before, position_error: undefined, ...fields };
    if (now.status !== 'queued') now.position = null;
    this.standing = now;
    if (!FOLLOWED.includes(now.status)) this.#unfollow();
    if (JSON.stringify(before) === JSON.stringify(now)) return;
    if (before?.status !== now.status) this.emit(now.status, now, before);
    const moved = before?.position !== now.position || before?.queue_size !== now.queue_size;
    if (moved && now.position !== null) this.emit('position', now, before);
    this.#offerPayment(now, before);
    this.emit('change', now, before);
  }

  /** Emits `pay` once for each unit that has to be paid, whether it came at once or by promotion. */
  #offerPayment(now: Standing, before: Standing | null): void {
    const { status, reservation_id, order_id, pay_before } = now;
    if ((status !== 'completed' && status !== 'promoted') || !reservation_id || !order_id || !pay_before) return;
    if (reservation_id === this.#payable) return;
    this.#payable = reservation_id;
    this.emit('pay', now as PayableStanding, before);
  }

  /** @param restMs how long the service has asked for rest */
  #follow(restMs = 0): void {
    this.#unfollow();
    if (this.#calls.stopped || (this.standing && !FOLLOWED.includes(this.standing.status))) return;
    const Socket =
      this.options.WebSocket === undefined
        ? (globalThis as { WebSocket?: new (url: string) => SocketLike }).WebSocket
        : this.options.WebSocket;
    const base = this.options.baseUrl || (globalThis as { location?: { origin: string } }).location?.origin || '';
    this.#follower = new StatusFollower({
      standing: this.standing,
      restMs,
      // A socket is opened only with a ticket.
      open: Socket && this.holdsTicket ? () => new Socket(`${base.replace(/^http/, 'ws')}/flash-sale/ws`) : null,
      ticket: this.#pending?.ticket ?? '',
      pingMs: this.options.pingMs ?? 25_000,
      ask: (etag, ticketAlone) => this.#status(etag, ticketAlone),
      line: () => this.#calls.once({ method: 'GET', path: `/flash-sale/line?${this.#query()}`, fits: isLine }),
      // Users who leave the line are not in its data, so that a turn may come unseen: for a third of its time at most.
      estimateMs: () =>
        Math.min(MAX_ESTIMATE_MS, ((this.#campaign?.view.hold_seconds || SHORT_HOLD_SECONDS) * 1000) / 3),
      onStanding: (fields) => this.#applyStatus(fields),
      onHeard: (timeMs) => {
        this.heardAtMs = Date.now();
        if (timeMs !== null) this.#clock.hear(timeMs);
      },
      onPause: (event) => this.emit(event),
      onConnection: (connection) => {
        if (this.connection === connection) return;
        this.connection = connection;
        this.emit('connection', connection);
      },
      onLost: (code) => this.#lose(code),
    });
    this.#follower.start();
  }

  #unfollow(): void {
    this.#follower?.stop();
    this.#follower = null;
    this.connection = null;
  }

  /** The stored attempt stays: the next one sends its key again, and gets its unit or place with a new ticket. */
  #lose(code: string): null {
    this.#pending = null;
    this.standing = null;
    this.#unfollow();
    this.emit('lost', code);
    return null;
  }
}
