// The settings of the processes that tests start, and the keys that tests sign with.
import { createHash } from 'node:crypto';

export const ADMIN_SECRET = 'admin-secret-of-the-tests';
export const SERVICE_SECRET = 'service-secret-of-the-tests';
/** Keys that production would take too. @param {string} name */
const keyOf = (name) => createHash('sha256').update(`the ${name} key of the tests`).digest();
export const ATTESTATION_KEY = keyOf('attestation');
export const TICKET_KEY = keyOf('ticket');
export const PAY_LINK_KEYS = `c1:${keyOf('checkout link').toString('base64')}`;
export const STRIPE_SECRET = 'whsec_a-stripe-secret-of-the-tests';
export const WEBHOOK_SECRET = `whsec_${Buffer.from('a webhook secret of the tests').toString('base64')}`;
export const MIDTRANS_KEY = 'SB-Mid-server-of-the-tests';
/** Turns on the webhooks of payment providers. */
export const PROVIDER_ENV = {
  STRIPE_WEBHOOK_SECRETS: `whsec_an-older-stripe-secret,${STRIPE_SECRET}`,
  PAYMENT_WEBHOOK_SECRETS: WEBHOOK_SECRET,
  MIDTRANS_SERVER_KEY: MIDTRANS_KEY,
};

/**
 * What the service that files share has beside the defaults. Each setting adds something and changes nothing for a file
 * that does not use it: an address in `X-Forwarded-For`, webhooks to receivers on this machine, pictures of sale pages,
 * payment providers, and as many codes of one user or network as a test needs. limits.test.ts and code-guessing.test.ts
 * have the limits of codes, with a service of their own.
 */
export const SHARED_SETTINGS = {
  TRUST_PROXY: '1',
  WEBHOOK_ALLOW_PRIVATE: '1',
  IMAGE_ORIGINS: 'https://images.example,https://static.example,https://img.example',
  VALIDATE_PER_MINUTE_PER_USER: '100000',
  REDEEM_PER_MINUTE_PER_USER: '100000',
  UNKNOWN_CODES_PER_MINUTE: '1000000',
  ...PROVIDER_ENV,
};

/**
 * The environment of a process of ours against these engines. PORT 0: the system chooses.
 * @param {string} redisUrl
 * @param {string} databaseUrl
 * @param {NodeJS.ProcessEnv} [extra]
 * @returns {NodeJS.ProcessEnv}
 */
export function serviceEnv(redisUrl, databaseUrl, extra = {}) {
  return {
    PATH: process.env.PATH,
    NODE_ENV: 'test',
    // By this, what an interrupted test left running is found.
    DOORBUSTER_TEST_DIR: process.env.DOORBUSTER_TEST_DIR,
    HOST: '127.0.0.1',
    PORT: '0',
    REDIS_URL: redisUrl,
    DATABASE_URL: databaseUrl,
    ADMIN_API_KEYS: `tester:${ADMIN_SECRET}`,
    SERVICE_API_KEYS: `payments:${SERVICE_SECRET}`,
    ATTESTATION_KEYS: `a1:${ATTESTATION_KEY.toString('base64')}`,
    TICKET_KEYS: `t1:${TICKET_KEY.toString('base64')}`,
    PAY_LINK_KEYS,
    // A busy machine of tests is no overload.
    DEGRADE_AT: '0',
    ...extra,
  };
}
