/** Whether this run of the suite is one on clusters (`npm test -- --redis cluster`). */
export const ON_CLUSTER = process.env.DOORBUSTER_TEST_REDIS === 'cluster';
