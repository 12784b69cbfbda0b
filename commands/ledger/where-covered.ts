import type { Verdict } from '../../shared/contracts/verdict.js';
import { Uncovered } from '../../shared/image/journal-tail.js';
import type { Database } from '../../shared/postgres/pool.js';

/** A database whose rows can be compared, and what is printed about it. */
export type Source = { database: Database; read: { read_from?: string; as_of?: string } };

/**
 * Compares the rows of the first database that the journal continues: the replica may stop meanwhile.
 * @param onNext called with the reason when the next one is read
 * @throws Uncovered when the journal continues none of them
 */
export async function whereCovered(
  [source, ...others]: readonly Source[],
  compare: (database: Database) => Promise<Verdict>,
  onNext: (reason: string) => void,
): Promise<Verdict & Source['read']> {
  if (!source) throw new Error('there is no database to read');
  try {
    return { ...(await compare(source.database)), ...source.read };
  } catch (error) {
    if (others.length === 0 || !(error instanceof Uncovered)) throw error;
    onNext(error.message);
    return whereCovered(others, compare, onNext);
  }
}
