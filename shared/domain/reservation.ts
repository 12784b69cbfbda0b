/** States of a redemption row. */
export const REDEMPTION_STATUSES = ['reserved', 'redeemed', 'released', 'expired', 'refunded', 'voided'] as const;
export type RedemptionStatus = (typeof REDEMPTION_STATUSES)[number];

/** The states of a shopper in queue-status. */
export const STANDINGS = [
  'not_queued',
  'queued',
  'promoted',
  'completed',
  'redeemed',
  'released',
  'expired',
  'left',
  'closed',
] as const;
export type Standing = (typeof STANDINGS)[number];

/** Why no user is promoted from a line (lua/line_head.lua). `handing_over`: a promotion is about to happen. */
export const LINE_REASONS = [
  'no_line',
  'nobody_waits',
  'draft',
  'not_started',
  'paused',
  'ended',
  'nothing_free',
  'head_wants_more',
  'codes_used_up',
  'nobody_there',
  'handing_over',
] as const;
