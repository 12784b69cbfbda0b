/** Rows, names or entries in one statement or command. */
export const BATCH = 1_000;

/** Splits items into lists of at most `BATCH`. */
export function chunks<Item>(items: readonly Item[]): Item[][] {
  const result: Item[][] = [];
  for (let start = 0; start < items.length; start += BATCH) result.push(items.slice(start, start + BATCH));
  return result;
}
