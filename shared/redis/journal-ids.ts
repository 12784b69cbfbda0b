/** The id before every entry, where a reader of a new journal starts. */
export const JOURNAL_START = '0-0';

/** Compares two journal ids (`generation-n`); negative = the first is earlier. */
export function compareJournalIds(a: string, b: string): number {
  const [aGeneration, aNumber] = journalPlace(a);
  const [bGeneration, bNumber] = journalPlace(b);
  return aGeneration - bGeneration || aNumber - bNumber;
}

/** Returns the earliest of at least one journal id. */
export function earliest(ids: readonly string[]): string {
  return ids.reduce((first, id) => (compareJournalIds(id, first) < 0 ? id : first));
}

/** Returns the generation and the number of a journal id, or of an id that begins with one (`generation-n-name`). */
export function journalPlace(journalId: string): [generation: number, n: number] {
  const dash = journalId.indexOf('-');
  return [Number(journalId.slice(0, dash)), Number.parseInt(journalId.slice(dash + 1), 10)];
}

/** Returns the generation of an entry's history: the first part of its id. */
export function generationOf(journalId: string): number {
  return journalPlace(journalId)[0];
}

/** Generations of different shards differ by their remainder of this, the largest number of shards. */
export const GENERATIONS_APART = 64;

/** Whether the entry was appended in this shard. */
export const isOfShard = (journalId: string, shard: number): boolean =>
  generationOf(journalId) % GENERATIONS_APART === shard;

/** Returns the number of an entry in its history: the second part of its id. */
export function numberOf(journalId: string): number {
  return journalPlace(journalId)[1];
}

/** Returns the id of the next entry in the same history. */
export function nextId(journalId: string): string {
  const [generation, number] = journalPlace(journalId);
  return `${generation}-${number + 1}`;
}
