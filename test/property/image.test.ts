import { test } from '@jest/globals';
import { expectSameAtEveryPrefix } from './journal-prefixes.js';

test('at every prefix of the journal of a random sale, rewound Redis equals Postgres', () =>
  expectSameAtEveryPrefix({ fewest: 5, most: 100 }));
