/**
 * Entries between the cursor in Postgres and the journal are missing: Postgres was set back, or the journal was cut.
 */
export class JournalGap extends Error {
  override readonly name = 'JournalGap';
  constructor(
    /** The last entry that Postgres has. */
    readonly cursor: string,
    /** The first entry that the journal has after the cursor; null = none, although later entries were acknowledged. */
    readonly found: string | null,
  ) {
    super(`Postgres has the journal up to ${cursor}, and Redis continues with ${found ?? 'nothing'}`);
  }
}

/** The journal belongs to a history that is not the latest one in Postgres. */
export class ForeignHistory extends Error {
  override readonly name = 'ForeignHistory';
  constructor(
    readonly generation: number | null,
    readonly latest: number | null,
  ) {
    super(`this Redis is of generation ${generation ?? 'none'}, Postgres is at generation ${latest ?? 'none'}`);
  }
}
