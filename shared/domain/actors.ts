/**
 * Names in the audit log for what the service does by itself, and in the history of a reservation for a shopper. No key
 * of an operator may have one of them.
 */
export const ACTORS = {
  velocity: 'velocity',
  clock: 'clock',
  shopper: 'shopper',
  /** Gives free units to the region where users wait for them. */
  balance: 'balance',
  /** What a recovery or a reconciliation restates of a reservation; who did it is lost. */
  recovery: 'recovery',
  reconcile: 'reconcile',
  /** Asks again for the erasure of users whom a restored backup still has. */
  restore: 'restore',
  /** Payment providers, by the last part of the path of their webhooks. */
  stripe: 'stripe',
  events: 'events',
  midtrans: 'midtrans',
} as const;
