import { test } from '@jest/globals';
import { expectSameTogether } from './batches.js';

test('requests that are decided together get what they would get one by one', () => expectSameTogether(100));
