import { LIMITS } from '../../shared/config/limits.js';
import type { OpenPool } from '../../shared/datastores/connect.js';
import type { Log } from '../../shared/observability/log.js';
import type { Database } from '../../shared/postgres/pool.js';
import { ReadReplica } from '../../shared/postgres/read-replica.js';
import type { HeaderName } from '../http/route.js';

/** A table for one read of an operator, and the headers of the response: with a replica, how complete it is. */
export type LargeReads<Table> = () => Promise<{ table: Table; headers: string[] }>;

export const AS_OF = 'Doorbuster-As-Of' satisfies HeaderName;

/** Makes reads that the replica of DATABASE_READ_URL serves if there is one, else the given pool. */
export type Replica = Record<
  'readsOf' | 'transfersOf',
  <Table>(primary: Database, tableOf: (database: Database) => Table) => LargeReads<Table>
>;

/** `url`: of the replica; null = none. */
export type ReplicaDeps = { url: string | null; database: Database; openPool: OpenPool; log: Log };

/** The pools of the replica. Without one, everything is read from the primary, and no header is sent. */
export function connectReplica({ url, database, openPool, log }: ReplicaDeps): Replica {
  if (url === null) {
    const readsOfPrimary: Replica['readsOf'] = (primary, tableOf) => {
      const table = tableOf(primary);
      return async () => ({ table, headers: [] });
    };
    return { readsOf: readsOfPrimary, transfersOf: readsOfPrimary };
  }
  const pages = openPool({
    url,
    name: 'doorbuster-api-replica',
    connections: LIMITS.postgres.replicaReads,
    statementMs: LIMITS.postgres.statementMs,
  });
  const transfers = openPool({
    url,
    name: 'doorbuster-api-replica-transfers',
    connections: LIMITS.codes.transfers,
    statementMs: LIMITS.codes.transferMs,
  });
  const replica = new ReadReplica(database, pages, LIMITS.postgres, (reason) =>
    log.warn({ reason }, 'a read that the replica should serve goes to the primary'),
  );
  const readsOf =
    (pool: Database): Replica['readsOf'] =>
    (primary, tableOf) => {
      const tables = { primary: tableOf(primary), replica: tableOf(pool) };
      return async () => {
        const { source, asOf } = await replica.current();
        return { table: tables[source], headers: [AS_OF, asOf] };
      };
    };
  return { readsOf: readsOf(pages), transfersOf: readsOf(transfers) };
}
