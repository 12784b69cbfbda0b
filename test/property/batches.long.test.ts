import { test } from '@jest/globals';
import { expectEveryDecision, expectSameTogether } from './batches.js';

test('requests that are decided together get what they would get one by one', () => expectSameTogether(1_000));

test('the random sales had every decision among them', expectEveryDecision);
