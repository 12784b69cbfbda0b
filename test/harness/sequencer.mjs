import TestSequencer from '@jest/test-sequencer';

const isFault = ({ path }) => path.includes('/test/faults/');

/**
 * Fault tests come last, among themselves: they hold promises of seconds, which a browser on the other core would keep from
 * being kept. The one that waits for a minute begins.
 */
export default class FaultsLast extends TestSequencer {
  sort(tests) {
    const inOrder = super.sort(tests);
    const faults = inOrder.filter(isFault);
    const long = faults.filter(({ path }) => path.endsWith('/postgres.test.ts'));
    return [...inOrder.filter((test) => !isFault(test)), ...long, ...faults.filter((test) => !long.includes(test))];
  }
}
