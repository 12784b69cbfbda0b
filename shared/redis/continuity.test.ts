import { describe, expect, it } from '@jest/globals';
import { firstBreak } from './continuity.js';

const none = new Map<number, string>();

describe('firstBreak', () => {
  it('accepts entries that follow the cursor without a gap', () => {
    expect(firstBreak('100-4', ['100-5', '100-6', '100-7'], none)).toBeNull();
  });

  it('finds the first entry after a gap, also within a batch', () => {
    expect(firstBreak('100-4', ['100-6'], none)).toBe('100-6');
    expect(firstBreak('100-4', ['100-5', '100-7', '100-8'], none)).toBe('100-7');
  });

  it('accepts the first entry of a history that began at the entry before it', () => {
    const beginnings = new Map([[200, '100-5']]);
    expect(firstBreak('100-4', ['100-5', '200-0', '200-1'], beginnings)).toBeNull();
  });

  it('finds a history that began earlier or later than the entry before it', () => {
    expect(firstBreak('100-4', ['100-5', '200-0'], new Map([[200, '100-4']]))).toBe('200-0');
    expect(firstBreak('100-4', ['100-5', '200-0'], new Map([[200, '100-6']]))).toBe('200-0');
  });

  it('finds a history that is not in Postgres, and one that does not start at its first entry', () => {
    expect(firstBreak('100-4', ['200-0'], none)).toBe('200-0');
    expect(firstBreak('100-4', ['200-1'], new Map([[200, '100-4']]))).toBe('200-1');
  });

  it('accepts a history after one in which nothing was appended', () => {
    const beginnings = new Map([
      [200, '100-4'],
      [300, '100-4'],
    ]);
    expect(firstBreak('100-4', ['300-0'], beginnings)).toBeNull();
  });
});
