import { describe, expect, test } from '@jest/globals';
import { servedBesideTheLine, servedPast } from './order.mjs';

const person = (user: string, asked: number, placed: number, direct = false) => ({ user, asked, placed, direct });

describe('the order of service', () => {
  test('a user who asked after a waiting user had a place is served past that user', () => {
    const people = [person('first', 0, 10), person('second', 11, 20)];
    expect(servedPast(people, new Set(['second']))).toEqual([{ user: 'second', past: 'first' }]);
  });

  test('users who asked at the same time may be served in any order', () => {
    const people = [person('one', 0, 10), person('other', 9, 12)];
    expect(servedPast(people, new Set(['other']))).toEqual([]);
  });

  test('a user may be served after all those before have a unit', () => {
    const people = [person('first', 0, 10), person('second', 11, 20), person('third', 21, 30)];
    expect(servedPast(people, new Set(['first', 'second']))).toEqual([]);
  });

  test('a unit at once beside a user in line counts even if that user is served later', () => {
    const people = [person('waits', 0, 10), person('lucky', 11, 12, true)];
    expect(servedBesideTheLine(people)).toEqual([{ user: 'lucky', past: 'waits' }]);
    expect(servedPast(people, new Set(['waits', 'lucky']))).toEqual([]);
  });

  test('a unit at once before the first place is in order', () => {
    expect(servedBesideTheLine([person('early', 0, 5, true), person('waits', 1, 10)])).toEqual([]);
  });
});
