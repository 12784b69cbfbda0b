/** The fields of GET /admin/overview that the page shows. */
export type Status = 'draft' | 'scheduled' | 'open' | 'paused' | 'closed';
export type CampaignNow = {
  id: string;
  product_id: string;
  name: string;
  type: 'shared' | 'unique' | 'pool';
  status: Status;
  starts_at: string;
  ends_at: string | null;
  pause: { by: string; at: string; reason: string | null } | null;
  codes: number;
  hidden: boolean;
  in_redis: boolean;
  total: number | null;
  free: number | null;
  held: number;
  redeemed: number;
  burned: number;
  waiting: number;
  persisted: number;
  drift: number;
  confirmed_per_second: number;
};
/** Sums over all campaigns. */
export type Totals = {
  campaigns: Record<Status, number>;
  held: number;
  redeemed: number;
  burned: number;
  waiting: number;
  confirmed_per_second: number;
  complete: boolean;
};
export type LineNow = {
  waiting: number;
  free: number | null;
  reason: string;
  head: { position: number | null; user_id: string; qty: number; since: string }[];
};
export type QueueNow = {
  waiting: number;
  active: number;
  delayed: number;
  failed: number;
  /** null = no job waits */
  oldest_seconds: number | null;
  /** Why the last attempt of the oldest job failed; null = it did not. */
  reason: string | null;
};
export type Overview = {
  time: string;
  journal_backlog: number;
  oldest_unpersisted_seconds: number;
  workers: string[];
  /** What the process that responds does not do now, because it is overloaded. */
  switched_off?: string[];
  queues: Record<string, QueueNow>;
  campaigns: CampaignNow[];
  totals: Totals | null;
  next: number | null;
  terms: Record<string, unknown> | null;
  line: LineNow | null;
};
