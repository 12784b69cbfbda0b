import { test } from '@jest/globals';
import { expectLineAndUnitsKept } from './dying-buckets.js';

test('whatever dies in whatever step, the line is served in its order and no unit is made or lost', () =>
  expectLineAndUnitsKept({ fewest: 5 }));
