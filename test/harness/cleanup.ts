type Cleanup = { what: string; run: () => Promise<void> | void };
const cleanups: Cleanup[] = [];

/** Ends something when the test file is done, or earlier by `runCleanups`; last made first. */
export function atEnd(what: string, run: () => Promise<void> | void): void {
  cleanups.push({ what, run });
}

const endings: (() => Promise<void> | void)[] = [];

/** Ends something after the test that is running, whether it passes or fails. */
export function atEndOfTest(run: () => Promise<void> | void): void {
  endings.push(run);
}

/** Called by leaks.ts after each test. */
export async function runEndings(): Promise<void> {
  await Promise.all(endings.splice(0).map((run) => run()));
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
