import { z } from 'zod';

const MIN_SECRET = 16;
const MIN_WEBHOOK_BYTES = 24;

const secrets = (pattern: RegExp, form: string) =>
  z.string().transform((value, context): string[] =>
    value.split(',').map((entry) => {
      const secret = entry.trim();
      if (!pattern.test(secret)) context.addIssue({ code: 'custom', message: `must be ${form}, comma-separated` });
      return secret;
    }),
  );

/** The variables of payment providers, part of the table in environment.ts. */
export const PAYMENT_ENVIRONMENT = {
  STRIPE_WEBHOOK_SECRETS: secrets(
    new RegExp(`^whsec_\\S{${MIN_SECRET},}$`),
    `whsec_ and at least ${MIN_SECRET} characters`,
  )
    .optional()
    .describe(
      'signing secrets of Stripe’s webhook endpoints, comma-separated: `whsec_` and at least 16 characters; turns on `POST /payments/stripe` (docs/payments.md)',
    ),
  PAYMENT_WEBHOOK_SECRETS: secrets(
    /^whsec_[A-Za-z0-9+/]{32,}=*$/,
    `whsec_<base64 of ${MIN_WEBHOOK_BYTES} bytes or more>`,
  )
    .optional()
    .describe(
      'secrets of payment webhooks with a Standard Webhooks signature, comma-separated `whsec_<base64>`; turns on `POST /payments/events`',
    ),
  MIDTRANS_SERVER_KEY: z
    .string()
    .min(MIN_SECRET, `must have at least ${MIN_SECRET} characters`)
    .optional()
    .describe('server key of Midtrans; turns on `POST /payments/midtrans`'),
};

export const PAYMENT_SECRETS = ['STRIPE_WEBHOOK_SECRETS', 'PAYMENT_WEBHOOK_SECRETS', 'MIDTRANS_SERVER_KEY'] as const;

/** The payment providers that may call. Empty or null = they may not. */
export type PaymentConfig = {
  stripeSecrets: readonly string[];
  webhookSecrets: readonly string[];
  midtransKey: string | null;
};

type Given = {
  STRIPE_WEBHOOK_SECRETS?: string[] | undefined;
  PAYMENT_WEBHOOK_SECRETS?: string[] | undefined;
  MIDTRANS_SERVER_KEY?: string | undefined;
};

export function paymentsOf(e: Given): PaymentConfig {
  return {
    stripeSecrets: e.STRIPE_WEBHOOK_SECRETS ?? [],
    webhookSecrets: e.PAYMENT_WEBHOOK_SECRETS ?? [],
    midtransKey: e.MIDTRANS_SERVER_KEY ?? null,
  };
}
