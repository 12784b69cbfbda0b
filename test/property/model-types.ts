/** What the model of the sale (model.ts) speaks of, and how its status changes. */
export type Terms = {
  perUserLimit: number;
  maxQty: number;
  holdSeconds: number;
  lineEnabled: boolean;
  lineMax: number;
  latePayment: 'refuse' | 'reacquire';
  refundPolicy: 'return' | 'burn';
  /** Who waits must be seen. */
  presence: boolean;
};
export type State = 'reserved' | 'redeemed' | 'released' | 'expired' | 'refunded' | 'burned' | 'voided';
export type Promised = {
  id: string;
  user: string;
  qty: number;
  slot: number;
  state: State;
  lineNo: number;
  order: string;
  /** Number of the coupon code; null = none. */
  code: number | null;
  /** Version of the terms it was made under. */
  terms: number;
  /** The clock has passed its deadline. The smaller, the earlier. */
  overdue: number | null;
  reacquired: boolean;
  payment: string | null;
  reason: string | null;
  /** Units that were given back while it kept `qty`; burned: those of the refunded ones that are lost. */
  released: number;
  refunded: number;
  burned: number;
  made: number;
};
export type Ticket = {
  lineNo: number;
  user: string;
  qty: number;
  id: string;
  order: string;
  /** The code that the user brought. */
  code: number | null;
  status: 'waiting' | 'promoted' | 'left' | 'closed';
  /** Joined while presence was not required (none), seen lately or not, or not for so long that the place is lost. */
  presence: 'none' | 'seen' | 'unseen' | 'gone';
  /** When the user was missed; the smaller, the earlier. */
  missed: number;
  /** The user stepped back from the place. */
  away: boolean;
  /** The line was closed and the campaign continues: any user may use the code again. */
  codeIsFree: boolean;
  made: number;
};
export type Status = 'draft' | 'scheduled' | 'open' | 'paused' | 'closed';
export type Action = 'open' | 'pause' | 'resume' | 'close' | 'start' | 'finish' | 'publish';
export type CampaignType = 'shared' | 'pool' | 'unique';
export type Checkout = {
  user: string;
  qty: number;
  key: string;
  device: string | null;
  order: string;
  id: string;
  claim: Claim | null;
};
/**
 * A redemption: by a code, 0 = the campaign's one code, and by which terms it was judged, negative = they exclude the
 * user.
 */
export type Claim = { code: number; terms: number };

/**
 * The status after an action: the same when nothing changes, null when the action is not possible from there. The start
 * of this sale is always past.
 * @param over whether its end has come
 */
export function statusAfter(action: Action, status: Status, over: boolean): Status | null {
  const begun = status === 'open' || status === 'scheduled';
  switch (action) {
    case 'open':
      return status === 'paused' || status === 'closed' ? null : 'open';
    case 'publish':
      return status === 'draft' ? 'open' : status;
    case 'pause':
      return begun || status === 'paused' ? 'paused' : null;
    case 'resume':
      return begun ? status : status === 'paused' ? 'open' : null;
    case 'close':
      return 'closed';
    case 'start':
      return status === 'scheduled' ? 'open' : status;
    case 'finish':
      return over && status !== 'draft' ? 'closed' : status;
  }
}
