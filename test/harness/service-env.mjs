// The settings of the processes that tests start, and the keys that tests sign with.
import { createHash } from 'node:crypto';

export const ADMIN_SECRET = 'admin-secret-of-the-tests';
export const SERVICE_SECRET = 'service-secret-of-the-tests';
/** Keys that production would take too. @param {string} name */
const keyOf = (name) => createHash('sha256').update(`the ${name} key of the tests`).digest();
export const ATTESTATION_KEY = keyOf('attestation');
export const TICKET_KEY = keyOf('ticket');
export const PAY_LINK_KEYS = `c1:${keyOf('checkout link').toString('base64')}`;

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
