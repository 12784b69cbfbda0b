/**
 * What scripts publish on a campaign's news channel: `kind|user|reservation|order|due`. Notification wakes the process that holds
 * a socket; a client that missed it finds the same in queue-status, so losing one is harmless.
 */
export const NOTIFICATION_KINDS = ['promoted', 'redeemed', 'released', 'expired', 'voided', 'left', 'closed'] as const;
export type NotificationKind = (typeof NOTIFICATION_KINDS)[number];
export type Notification =
  | { kind: NotificationKind; user: string; reservationId: string; orderId: string; dueMs: number }
  | { kind: 'status'; status: string }
  /** The line is closed for all who wait, the campaign is not. */
  | { kind: 'line' };

/** null for a message of a version that this one does not know. */
export function parseNotification(message: string): Notification | null {
  const [kind, user, a, b, due] = message.split('|');
  if (kind === 'status' && a) return { kind, status: a };
  if (kind === 'line') return { kind };
  if (!kind || !user || !a || b === undefined || !(NOTIFICATION_KINDS as readonly string[]).includes(kind)) return null;
  return { kind: kind as NotificationKind, user, reservationId: a, orderId: b, dueMs: Number(due) };
}
