/**
 * What Postgres, Redis and the ledger hold after a run, when everything is settled. Times are milliseconds since 1970.
 */
export type FinalState = {
  /** When the run began, on the same clock as the times below. */
  beganAt: number;
  observedAt: number;
  campaigns: CampaignRow[];
  redemptions: RedemptionRow[];
  tickets: TicketRow[];
  /** Idempotency keys whose answer is in no other row. */
  answers: string[];
  rejects: RejectRow[];
  ledgers: Record<string, LedgerVerdict>;
  /** One read of each API for each campaign; null = it could not be read. */
  stats: { product: string; api: string; stats: Stats | null }[];
  /** Users in the line of each campaign in Redis. */
  lines: Record<string, string[]>;
  /** The shards in which Postgres has each campaign, one for each bucket, and those of Redis that have it. */
  places: Record<string, { postgres: number[]; redis: number[] }>;
  /** What an API returns for users who hold or await something. */
  standings: { product: string; user: string; status: string | null; reservation: string | null }[];
};

export type CampaignRow = {
  product_id: string;
  name: string;
  status: string;
  total_limit: number | null;
  taken: number;
  per_user_limit: number;
  max_qty: number;
  refund_policy: string;
  confirmation: string;
  presence_seconds: number | null;
};

export type RedemptionRow = {
  product_id: string;
  redemption_id: string;
  user_id: string;
  order_id: string;
  qty: number;
  slot: number;
  status: string;
  burned: boolean;
  /** Units that were given back while the reservation kept `qty`. */
  released_qty: number;
  refunded_qty: number;
  burned_qty: number;
  reacquired: boolean;
  line_no: number | null;
  code_no: number | null;
  reserved_at: number;
  pay_before: number | null;
  released_at: number | null;
  reason: string | null;
  payment_ref: string | null;
  idempotency_key: string | null;
};

/** How many units a reservation had when it was made. */
export const unitsMade = ({ qty, released_qty, refunded_qty }: RedemptionRow): number =>
  qty + released_qty + refunded_qty;

export type TicketRow = {
  product_id: string;
  line_no: number;
  user_id: string;
  qty: number;
  status: string;
  reservation_id: string;
  joined_at: number;
  ended_at: number | null;
  idempotency_key: string | null;
};

export type RejectRow = { journal_id: string; fields: Record<string, string>; reason: string };

export type LedgerVerdict = { lost: number; duplicated: number; over_cap: number; drift: number } & Record<
  string,
  unknown
>;

export type Stats = {
  total: number | null;
  free: number | null;
  held: number;
  redeemed: number;
  burned: number;
  waiting: number;
  journal_backlog: number;
  drift: number;
};
