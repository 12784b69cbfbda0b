/** Rows, names or entries of one statement or command. */
export const BATCH = 1_000;

/** Items in lists of at most `BATCH`. */
export function chunks<Item>(items: readonly Item[]): Item[][] {
  const result: Item[][] = [];
  for (let start = 0; start < items.length; start += BATCH) result.push(items.slice(start, start + BATCH));
  return result;
}
