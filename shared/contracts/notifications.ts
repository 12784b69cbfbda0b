/**
 * Notifications that scripts publish on the channel of a campaign: `kind|user|reservation|order|due|qty`. The process
 * that holds the user's socket sends a frame for it. Losing a notification is harmless, because queue-status returns
 * the same state.
 */
export const NOTIFICATION_KINDS = [
  'promoted',
  'extended',
  'redeemed',
  'released',
  'expired',
  'voided',
  'left',
  'closed',
] as const;
export type NotificationKind = (typeof NOTIFICATION_KINDS)[number];
export type Notification =
  /** `qty`: of `promoted` and `extended` only; NaN = unknown */
  | { kind: NotificationKind; user: string; reservationId: string; orderId: string; dueMs: number; qty: number }
  | { kind: 'status'; status: string }
  /** The line is closed for all waiting users. The campaign is not closed. */
  | { kind: 'line' };

/** @returns null for a message that this version does not know */
export function parseNotification(message: string): Notification | null {
  const [kind, user, a, b, due, qty] = message.split('|');
  if (kind === 'status' && a) return { kind, status: a };
  if (kind === 'line') return { kind };
  if (!kind || !user || !a || b === undefined || !(NOTIFICATION_KINDS as readonly string[]).includes(kind)) return null;
  return { kind: kind as NotificationKind, user, reservationId: a, orderId: b, dueMs: Number(due), qty: Number(qty) };
}
