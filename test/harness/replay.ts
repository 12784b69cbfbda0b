import { beforeEach, expect } from '@jest/globals';

type Replay = { seed: number; path: string };

/** By the full name of a test; "" = every test. Set by scripts/test.mjs. */
const replays = JSON.parse(process.env.DOORBUSTER_TEST_REPLAY ?? '{}') as Record<string, Replay>;

// A second run, or `npm test -- --replay`, tries the counterexample of the first: other values would hide a defect that
// few of them show. Other runs do not load the package in every file.
if (Object.keys(replays).length > 0) {
  const { default: fc } = await import('fast-check');
  beforeEach(() => {
    const replay = replays[expect.getState().currentTestName ?? ''] ?? replays[''];
    if (replay) fc.configureGlobal({ ...replay });
    else fc.resetConfigureGlobal();
  });
}
