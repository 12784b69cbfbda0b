/** Rows, names or entries in one statement, command or page. */
export const BATCH = 1_000;
