/**
 * The state of a shopper in a sale, with the field names of the API. queue-status, `welcome` and checkout return these
 * fields.
 */
export type Standing = {
  status: 'not_queued' | 'queued' | 'promoted' | 'completed' | 'redeemed' | 'released' | 'expired' | 'left' | 'closed';
  /** From 1; null = not in line. */
  position: number | null;
  /** By how many places `position` may be wrong; missing = it is exact. */
  position_error?: number | undefined;
  queue_size: number;
  /** null = unknown. */
  estimated_wait_seconds: number | null;
  poll_after_seconds: number;
  reservation_id: string | null;
  order_id: string | null;
  /** RFC 3339; null = nothing to pay. */
  pay_before: string | null;
  /** The code, if the campaign hands out codes. */
  code?: string | null;
  /** Where to pay until `pay_before`, if the campaign has a `checkout_url` and this device has the ticket. */
  checkout_url?: string;
};

/** The standing of a shopper who has a unit and must pay for it. */
export type PayableStanding = Standing & { reservation_id: string; order_id: string; pay_before: string };

/** The public data of a campaign. */
export type CampaignView = {
  product_id: string;
  name: string;
  status: 'scheduled' | 'open' | 'paused' | 'ended';
  starts_at: string;
  ends_at: string | null;
  server_time: string;
  /** Whether shoppers who find no free unit wait in a line. */
  has_line: boolean;
  /** No unit is free; with a line: none is held either. */
  sold_out: boolean;
  /** Time to pay; 0 = nothing to pay. */
  hold_seconds?: number;
  /** How the campaign wants to look (docs/sale-page.md). */
  branding?: Record<string, unknown>;
};

/** How changes arrive: over the socket, by polling, or not at the moment. */
export type Connection = 'live' | 'polling' | 'offline';

/** A subscription to Web Push, as `PushSubscription.toJSON()` of browsers returns it. */
export type PushSubscriptionFields = { endpoint?: string; keys?: Record<string, string> };

/** A retry of a call: the reason and the delay. */
export type Retry = { code: string; after_ms: number };

type Maybe<Value> = Value | null | undefined;

/** The store of the key and the ticket. `localStorage` and React Native's AsyncStorage have these methods. */
export type KeyStore = {
  getItem(name: string): Maybe<string> | Promise<Maybe<string>>;
  setItem(name: string, value: string): unknown;
  removeItem(name: string): unknown;
};

/** The parts of a WebSocket that the client uses. Those of browsers, React Native and `ws` fit. */
export type SocketLike = {
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
  send(text: string): void;
  close(): void;
};

export type SaleOptions = {
  productId: string;
  /** The id of the user in the shop. */
  userId: string;
  /** Address of the API, without a slash at the end; "" = the origin of the page. */
  baseUrl?: string;
  /**
   * Default: in browsers a store that all tabs share. Where that is full, forbidden or missing: `localStorage`,
   * `sessionStorage`, or else memory. What a given store does not take is kept in memory.
   */
  store?: KeyStore;
  /** Default: the global WebSocket; null = only poll. */
  WebSocket?: (new (url: string) => SocketLike) | null;
  fetch?: typeof fetch;
  /** A fingerprint of the device; default: a random one, kept in the store. */
  deviceId?: string;
  /** The value of `Authorization`, with `SHOPPER_IDENTITY=jwt`: `Bearer <jwt>`. */
  authorization?: () => Maybe<string> | Promise<Maybe<string>>;
  /**
   * The hand-over of the shop, with `SHOPPER_IDENTITY=signed`. Called for each request, so it may return a renewed one.
   */
  handOver?: () => Maybe<string> | Promise<Maybe<string>>;
  /**
   * Solves a challenge. The returned fields are added to the checkout or the token request, which is then repeated;
   * null = no solution. Default: does the proof of work. An app with platform attestation returns `{platform}`
   * (docs/attestation.md) for challenges of kind `platform`, and `solveWork(challenge)` for others.
   */
  onChallenge?: (challenge: unknown) => Promise<Record<string, unknown> | null>;
  /** How long `attempt`, `leave` and `release` retry before they give up. The key stays stored. Default: 120 s. */
  retryForMs?: number;
  /** The time limit of one call. Default: 10 s. */
  timeoutMs?: number;
  /** How often a ping checks the socket. Default: 25 s. */
  pingMs?: number;
};

/** The events of `sale.on`, with their arguments. */
export type SaleEvents = {
  /** Any field of the standing has changed. `before`: null for the first standing. */
  change: [standing: Standing, before: Standing | null];
  /** The place in line, or the length of the line, has changed. */
  position: [standing: Standing, before: Standing | null];
  /**
   * The shopper has a unit and must pay for it: at once after `attempt`, after a promotion, or found by `resume`.
   * Emitted once for each reservation.
   */
  pay: [standing: PayableStanding, before: Standing | null];
  connection: [connection: Connection];
  retry: [retry: Retry];
  /** The sale was paused or continues. Only waiting shoppers with a socket learn of it at once. */
  paused: [];
  resumed: [];
  /** The service no longer accepts the ticket. The next attempt has the same key, and gets back what is still there. */
  lost: [code: string];
} & { [Status in Standing['status']]: [standing: Standing, before: Standing | null] };
