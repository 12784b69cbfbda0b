type Cleanup = { what: string; run: () => Promise<void> | void };
const cleanups: Cleanup[] = [];

/** Ends something when the test file is done, or earlier by `runCleanups`; last made first. */
export function atEnd(what: string, run: () => Promise<void> | void): void {
  cleanups.push({ what, run });
}

/** Called by leaks.ts when a test file is done, and after each test by files whose tests share nothing. */
export async function runCleanups(): Promise<void> {
  const failures: string[] = [];
  for (const { what, run } of cleanups.splice(0).reverse()) {
    try {
      await run();
    } catch (error) {
      failures.push(`${what}: ${error}`);
    }
  }
  if (failures.length > 0) throw new Error(`not ended cleanly:\n${failures.join('\n')}`);
}
