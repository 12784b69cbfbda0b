import { integer } from './environment-values.js';

const days = (least: number) => integer(least, 3_650);

/** How long data are kept, days. Part of the environment. */
export const RETENTION_ENVIRONMENT = {
  PERSONAL_DATA_KEEP_DAYS: days(0)
    .default(0)
    .describe(
      'days after the end of a campaign until its users are replaced by pseudonyms, and devices, keys and reasons are removed; 0 = never',
    ),
  AUDIT_KEEP_DAYS: days(0).default(0).describe('how long entries of the audit log are kept, days; 0 = for ever'),
  WEBHOOK_ATTEMPTS_KEEP_DAYS: days(0)
    .default(0)
    .describe('how long attempts to deliver events are kept, days; 0 = until newer ones replace them'),
  PAYMENT_EVENTS_KEEP_DAYS: days(1)
    .default(90)
    .describe(
      'how long events of payment providers are kept, days; a payment that needs an action is kept until it is settled; an older one that comes again is processed again',
    ),
};

/** Days; 0 = no limit. */
export type RetentionConfig = {
  personalDataDays: number;
  auditDays: number;
  webhookAttemptsDays: number;
  paymentEventsDays: number;
};

export function retentionOf(e: {
  PERSONAL_DATA_KEEP_DAYS: number;
  AUDIT_KEEP_DAYS: number;
  WEBHOOK_ATTEMPTS_KEEP_DAYS: number;
  PAYMENT_EVENTS_KEEP_DAYS: number;
}): RetentionConfig {
  return {
    personalDataDays: e.PERSONAL_DATA_KEEP_DAYS,
    auditDays: e.AUDIT_KEEP_DAYS,
    webhookAttemptsDays: e.WEBHOOK_ATTEMPTS_KEEP_DAYS,
    paymentEventsDays: e.PAYMENT_EVENTS_KEEP_DAYS,
  };
}
