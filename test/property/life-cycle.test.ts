import { test } from '@jest/globals';
import { expectLivesOfTheModel } from './life-cycle.js';

test('whatever happens in whatever order, the sale does what the model does and Postgres ends with the same rows', () =>
  expectLivesOfTheModel({ fewest: 8 }));
