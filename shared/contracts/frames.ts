import { z } from 'zod';

/** Frames that a client may send on /flash-sale/ws. */
export const clientFrame = z.discriminatedUnion('type', [
  z.object({ type: z.literal('subscribe'), ticket: z.string().max(1024) }),
  z.object({ type: z.literal('ping') }),
  z.object({ type: z.literal('leave') }),
]);
export type ClientFrame = z.infer<typeof clientFrame>;

/** What the server sends; each frame also has `seq`, counting from 1 on its socket, and `time`. */
export type ServerFrame =
  | ({ type: 'welcome' } & Record<string, unknown>)
  | { type: 'position'; position: number; queue_size: number; estimated_wait_seconds: number | null }
  | { type: 'promoted'; reservation_id: string; order_id: string; pay_before: string | null }
  | { type: 'redeemed' | 'released' | 'expired'; reservation_id: string; order_id: string }
  | { type: 'closed' }
  | { type: 'left' }
  | { type: 'pong' }
  | { type: 'reconnect'; after_ms: number }
  | { type: 'error'; code: string };

/** WebSocket close codes of ours and what they mean. */
export const CLOSE_CODES = {
  goingAway: 1001,
  policyViolation: 1008,
  tooBig: 1009,
  tryAgainLater: 1013,
  ticketInvalid: 4401,
  notSubscribedInTime: 4408,
  tooManyFrames: 4429,
} as const;
