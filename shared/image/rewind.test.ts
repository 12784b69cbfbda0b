import { expect, test } from '@jest/globals';
import { type Before, type FirstChange, rewindPlace } from './rewind.js';

/** The first changes after the position. */
const changes = (...steps: (Before & { at: string })[]): FirstChange =>
  ((fact, of) => steps.find((step) => step.fact === fact && step.of === of)) as FirstChange;
const place = (lineNo: number) => ({ lineNo, reservation: null });

test('a place that ended with its line is as Postgres has it, if the line was that long', () => {
  const closing = changes({ fact: 'line', of: '', upTo: 5, at: '1-7' });
  expect(rewindPlace('ann', null, place(5), closing)).toEqual(place(5));
  expect(rewindPlace('ann', null, place(6), closing)).toBeNull();
  expect(rewindPlace('ann', null, null, closing)).toBeNull();
});

test('a user who joined after the end of the line may have had a place in it, one who joined before it had none', () => {
  const joined = (at: string): Before & { at: string } => ({ fact: 'place', of: 'ann', before: null, at });
  const closing: Before & { at: string } = { fact: 'line', of: '', upTo: 5, at: '1-7' };
  expect(rewindPlace('ann', place(6), place(5), changes(closing, joined('1-8')))).toEqual(place(5));
  expect(rewindPlace('ann', null, place(5), changes(closing, joined('1-6')))).toBeNull();
});
