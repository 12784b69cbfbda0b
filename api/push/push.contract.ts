import { z } from 'zod';
import type { RouteContract } from '../http/route.js';

/** A browser makes a public key of 65 bytes and a secret of 16. */
const key = (bytes: number) =>
  z
    .string()
    .max(120, 'must have at most 120 characters')
    .refine(
      (text) => /^[A-Za-z0-9_-]+=*$/.test(text) && Buffer.from(text, 'base64url').length === bytes,
      `must be ${bytes} bytes in base64url`,
    );

export const pushBody = z.object({
  endpoint: z
    .string()
    .max(1_024, 'must have at most 1024 characters')
    .regex(/^[\x21-\x7e]+$/, 'must be a URL')
    .describe('URL of the browser at its push service, of a host in PUSH_SERVICES'),
  keys: z.object({ p256dh: key(65), auth: key(16) }).describe('as `PushSubscription.toJSON()` has them'),
  language: z
    .string()
    .regex(/^[a-z]{2,3}$/, 'must be a language of ISO 639, such as `en` or `ar`')
    .default('en')
    .describe('of the notifications'),
});

export const subscribeContract = {
  operationId: 'subscribeToPush',
  method: 'post',
  path: '/flash-sale/push',
  summary: 'Notify a browser when it is the user’s turn',
  description:
    'The ticket identifies the place in line, which has at most three subscriptions: one more replaces the oldest. Idempotent. The ' +
    'browser gets one notification, by Web Push, when the place gets a unit, or ends without the user’s doing; the subscription is then deleted. ' +
    'docs/push.md has the setup.',
  tag: 'waiting room',
  caller: 'ticket',
  headers: z.object({ 'x-ticket': z.string() }),
  body: pushBody,
  answers: {
    200: {
      description: 'The browser is subscribed.',
      data: z.object({ subscribed: z.literal(true) }),
      headers: ['RateLimit', 'RateLimit-Policy'],
    },
  },
  errors: ['ticket_invalid', 'campaign_not_found', 'not_waiting', 'push_not_available', 'rate_limited'],
} satisfies RouteContract;

export const unsubscribeContract = {
  operationId: 'unsubscribeFromPush',
  method: 'delete',
  path: '/flash-sale/push',
  summary: 'End the notifications of a place',
  description: 'Idempotent. The ticket identifies the place. Ends the subscriptions of all its browsers.',
  tag: 'waiting room',
  caller: 'ticket',
  headers: z.object({ 'x-ticket': z.string() }),
  answers: {
    200: {
      description: 'No browser is subscribed.',
      data: z.object({ subscribed: z.literal(false) }),
      headers: ['RateLimit', 'RateLimit-Policy'],
    },
  },
  errors: ['ticket_invalid', 'push_not_available', 'rate_limited'],
} satisfies RouteContract;
