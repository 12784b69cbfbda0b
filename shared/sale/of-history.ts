/**
 * For a cache of what Postgres never changes but may give again after it and Redis were set back: numbers, versions.
 * @param generation names the current histories of all shards; they end when Redis is filled again
 * @param forget empties the cache
 * @returns a function to be called before each look-up. It forgets when a history has ended since the last call, and
 *   returns the current name: what was read under another one is not kept
 */
export function ofHistory(generation: () => string, forget: () => void): () => string {
  let last = '';
  return () => {
    const current = generation();
    if (current !== last) forget();
    last = current;
    return current;
  };
}
