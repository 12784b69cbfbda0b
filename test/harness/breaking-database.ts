import type { QueryResult } from 'pg';
import { Database, type Queryable } from '../../shared/postgres/pool.js';

/** A database whose transactions break off after so many statements. */
export class Breaking extends Database {
  left = 0;

  static of(url: string): Breaking {
    const limits = { connections: 3, statementMs: 20_000, connectMs: 5_000 };
    return new Breaking({ url, name: 'tests', ...limits, onError: () => {} });
  }

  override transaction<Value>(
    work: (client: Queryable, results: QueryResult[]) => Promise<Value>,
    first: readonly string[] = [],
  ): Promise<Value> {
    const counted = (client: Queryable): Queryable => ({
      query: (sql, values) => {
        if (this.left === 0) throw new Error('interrupted');
        this.left -= 1;
        return client.query(sql, values);
      },
    });
    return super.transaction((client, results) => work(counted(client), results), first);
  }
}
