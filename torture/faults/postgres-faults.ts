import { join } from 'node:path';
import { type Fault, type Lane, lastFor } from './fault.js';

const LANES: readonly Lane[] = ['postgres'];

/** What happens to Postgres. */
export const POSTGRES_FAULTS: readonly Fault[] = [
  {
    name: 'postgres-stop',
    about: 'Postgres is stopped at once (immediate shutdown) and started again',
    lanes: LANES,
    weight: 3,
    async strike({ cluster: { postgres }, random }) {
      await postgres.crash();
      await lastFor(random, 100, 6_000);
      await postgres.start();
    },
  },
  {
    name: 'postgres-freeze',
    about: 'Postgres and its backends stand still (SIGSTOP) and go on',
    lanes: LANES,
    weight: 2,
    async strike({ cluster: { postgres }, random }) {
      postgres.freeze();
      await lastFor(random, 300, 6_000);
      postgres.resume();
    },
  },
  {
    name: 'postgres-restore',
    about: 'Postgres is put back to a backup of some seconds ago; `npm run reconcile -- --after-restore` follows',
    lanes: LANES,
    weight: 2,
    needsReconcile: true,
    setsBack: true,
    async strike({ cluster, history, random, folder }) {
      const { postgres } = cluster;
      const backup = join(folder, 'backup');
      history.event({ what: 'backup', ...(await postgres.promises()) });
      await postgres.backUp(backup);
      await lastFor(random, 500, 6_000);
      history.event({ what: 'postgres-restored' });
      await postgres.crash();
      if (!(await cluster.redisIsInService())) history.event({ what: 'redis-lost', mode: 'filling' });
      await postgres.restore(backup);
      await postgres.start();
      await lastFor(random, 500, 2_000);
      await cluster.reconcileAfterRestore();
    },
  },
];
