import { randomBytes } from 'node:crypto';

/** Secrets as Standard Webhooks defines them: this prefix and 24 to 64 random bytes in base64. */
const PREFIX = 'whsec_';
const MIN_BYTES = 24;
const MAX_BYTES = 64;

export const newWebhookSecret = (): string => PREFIX + randomBytes(32).toString('base64');

export function isWebhookSecret(text: string): boolean {
  if (!/^whsec_[A-Za-z0-9+/]+={0,2}$/.test(text)) return false;
  const bytes = Buffer.from(text.slice(PREFIX.length), 'base64');
  return (
    bytes.length >= MIN_BYTES && bytes.length <= MAX_BYTES && bytes.toString('base64') === text.slice(PREFIX.length)
  );
}
