/**
 * Number of the stored formats: the tables of Postgres, the keys and records of Redis, and backups. Postgres and each
 * shard of Redis have it. A change of any of them raises it, with a line in CHANGELOG.md.
 */
export const FORMAT = 9;

/** An engine with stored data. */
export type StoringEngine = 'Postgres' | 'Redis';

const EMPTY: Record<StoringEngine, string> = {
  Postgres: 'a DATABASE_URL that names an empty database',
  Redis: 'a REDIS_URL that names an empty Redis',
};

/**
 * Says what is wrong with data of another format, and the remedy.
 * @param found the format of the data; 0 = they have no number
 * @param ownData the folder of an engine that `npm start` runs; null = the engine is the operator's
 */
export function foreignFormat(engine: StoringEngine, found: number, ownData: string | null = null): string {
  const kind = found === 0 ? 'no format number' : `format ${found}`;
  const remedy = ownData === null ? EMPTY[engine] : `mv '${ownData}' '${ownData}.format-${found}'`;
  return `The data in ${engine} have ${kind}, this version needs format ${FORMAT}. Nothing was changed. Remedy: ${remedy}`;
}
