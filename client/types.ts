/** Where a shopper stands, by its wire names: what queue-status, `welcome` and checkout have in common. */
export type Standing = {
  status: 'not_queued' | 'queued' | 'promoted' | 'completed' | 'redeemed' | 'released' | 'expired' | 'left' | 'closed';
  /** From 1; null = not in line. */
  position: number | null;
  queue_size: number;
  /** null = unknown. */
  estimated_wait_seconds: number | null;
  poll_after_seconds: number;
  reservation_id: string | null;
  order_id: string | null;
  /** RFC 3339; null = nothing is to be paid. */
  pay_before: string | null;
  /** Of campaigns that hand codes out. */
  code?: string | null;
};

/** What anybody may know of a campaign. */
export type CampaignView = {
  product_id: string;
  name: string;
  status: 'scheduled' | 'open' | 'paused' | 'ended';
  starts_at: string;
  ends_at: string | null;
  server_time: string;
};

/** How news comes: over the socket, by asking, or not at all at the moment. */
export type Connection = 'live' | 'polling' | 'offline';

/** A call that is made again: why, and after how long. */
export type Retry = { code: string; after_ms: number };

type Maybe<Value> = Value | null | undefined;

/** Where the key and the ticket are kept; `localStorage` and React Native's AsyncStorage fit. */
export type KeyStore = {
  getItem(name: string): Maybe<string> | Promise<Maybe<string>>;
  setItem(name: string, value: string): unknown;
  removeItem(name: string): unknown;
};

/** The part of a WebSocket that is used; the browser's, React Native's and that of `ws` have it. */
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
  /** As the shop knows its user. */
  userId: string;
  /** Address of the API, without a slash at its end; "" = where the page came from. */
  baseUrl?: string;
  /**
   * Default: in browsers one that all tabs share, elsewhere `localStorage` if there is one, otherwise the memory of
   * this object.
   */
  store?: KeyStore;
  /** Default: the global one; null = only ask. */
  WebSocket?: (new (url: string) => SocketLike) | null;
  fetch?: typeof fetch;
  /** A fingerprint of the device; default: a random one, kept in the store. */
  deviceId?: string;
  /** The value of `Authorization`, with `SHOPPER_IDENTITY=jwt`: `Bearer <jwt>`. */
  authorization?: () => Maybe<string> | Promise<Maybe<string>>;
  /** The hand-over of the shop, with `SHOPPER_IDENTITY=signed`; asked for at each call, so it may be renewed. */
  handOver?: () => Maybe<string> | Promise<Maybe<string>>;
  /**
   * Answers a challenge: what it returns is added to the checkout, or to the request for a token, which is sent again;
   * null = there is no solution. Default: does the work that is asked for. An app that its platform vouches for returns
   * `{platform}` (docs/attestation.md) for challenges of kind `platform`, and `solveWork(challenge)` for others.
   */
  onChallenge?: (challenge: unknown) => Promise<Record<string, unknown> | null>;
  /** How long calls are made again before `attempt`, `leave` or `release` gives up. The key stays. Default: 120 s. */
  retryForMs?: number;
  /** One call. Default: 10 s. */
  timeoutMs?: number;
  /** How often the socket is tried with a ping. Default: 25 s. */
  pingMs?: number;
};

/** What `sale.on` tells, with its arguments. */
export type SaleEvents = {
  /** Anything of the standing is another. `before` is null for the first one. */
  change: [standing: Standing, before: Standing | null];
  position: [standing: Standing, before: Standing | null];
  connection: [connection: Connection];
  retry: [retry: Retry];
  /** A ticket that is no longer taken; the next attempt begins anew. */
  lost: [code: string];
} & { [Status in Standing['status']]: [standing: Standing, before: Standing | null] };
