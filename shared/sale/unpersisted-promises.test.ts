import { describe, expect, it } from '@jest/globals';
import type { RawEntry } from '../contracts/journal.js';
import { UnpersistedPromises } from './unpersisted-promises.js';

const entry = (journalId: string): RawEntry => ({ journalId, fields: { kind: 'answered', id: journalId } });
const EVER = Number.POSITIVE_INFINITY;

function keeping(ids: readonly string[], limit = 1_000): UnpersistedPromises {
  const promises = new UnpersistedPromises(limit);
  for (const id of ids) promises.remember(id, () => entry(id));
  return promises;
}
const idsIn = (promises: UnpersistedPromises, after = '0-0', before = EVER, limit = 1_000) =>
  promises.after(after, before, limit).map(({ journalId }) => journalId);

describe('UnpersistedPromises', () => {
  it('keeps entries in the order of their ids, however they come', () => {
    const ids = ['7-10', '7-9', '7-2', '8-0', '7-11', '8-1'];
    expect(idsIn(keeping(ids))).toEqual(['7-2', '7-9', '7-10', '7-11', '8-0', '8-1']);
  });

  it('forgets what Postgres has committed, and nothing that came out of order behind it', () => {
    const promises = keeping(['7-1', '7-4', '7-3', '7-2', '7-5']);
    promises.committed('7-3');
    expect(idsIn(promises)).toEqual(['7-4', '7-5']);
    promises.remember('7-2', () => entry('7-2'));
    expect(promises.size).toBe(3);
    promises.committed('7-4');
    expect(idsIn(promises)).toEqual(['7-5']);
    promises.committed('6-900');
    expect(promises.size).toBe(1);
    promises.committed('8-0');
    expect(promises.size).toBe(0);
  });

  it('returns what is later than an id, of older generations only, at most as many as are asked for', () => {
    const promises = keeping(['7-8', '7-9', '7-10', '9-0', '9-1', '12-0']);
    expect(idsIn(promises, '7-9')).toEqual(['7-10', '9-0', '9-1', '12-0']);
    expect(idsIn(promises, '7-9', 12)).toEqual(['7-10', '9-0', '9-1']);
    expect(idsIn(promises, '7-9', 9)).toEqual(['7-10']);
    expect(idsIn(promises, '7-8', EVER, 2)).toEqual(['7-9', '7-10']);
    expect(idsIn(promises, '12-0')).toEqual([]);
    expect(promises.after('9-0', EVER, 1)).toEqual([entry('9-1')]);
  });

  it('describes an entry only when it is asked for', () => {
    const promises = new UnpersistedPromises(10);
    let described = 0;
    for (const id of ['1-0', '1-1', '1-2']) {
      promises.remember(id, () => {
        described += 1;
        return entry(id);
      });
    }
    promises.committed('1-0');
    expect(described).toBe(0);
    promises.after('1-1', EVER, 10);
    expect(described).toBe(1);
  });

  it('forgets those that are safe elsewhere', () => {
    const promises = keeping(['1-0', '1-1', '1-2', '1-3']);
    promises.forget(['1-1', '1-3', '1-9']);
    expect(idsIn(promises)).toEqual(['1-0', '1-2']);
  });

  it('drops the oldest tenth beyond its limit', () => {
    const ids = Array.from({ length: 21 }, (_, i) => `1-${i}`);
    const promises = keeping(ids, 20);
    expect(idsIn(promises)).toEqual(ids.slice(2));
    promises.remember('1-21', () => entry('1-21'));
    expect(promises.size).toBe(20);
  });

  describe('facts that are acknowledged again', () => {
    const acknowledge = (promises: UnpersistedPromises, name: string, lastId: string) =>
      promises.acknowledge(name, lastId, entry);

    it('keeps the latest of each name until the commit, beside the entries', () => {
      const promises = keeping(['7-1', '7-2']);
      for (let n = 0; n < 50; n += 1) acknowledge(promises, 'a', '7-1');
      acknowledge(promises, 'b', '7-2');
      acknowledge(promises, 'a', '7-3');
      expect(idsIn(promises)).toEqual(['7-1', '7-2', '7-2-b', '7-3-a']);
      promises.committed('7-2');
      expect(idsIn(promises)).toEqual(['7-3-a']);
      acknowledge(promises, 'c', '7-2');
      expect(promises.size).toBe(1);
      promises.committed('7-3');
      expect(promises.size).toBe(0);
    });

    it('returns those later than an id and of older generations, and forgets those that are saved', () => {
      const promises = keeping(['7-4']);
      acknowledge(promises, 'a', '7-3');
      acknowledge(promises, 'b', '7-5');
      acknowledge(promises, 'c', '9-0');
      expect(idsIn(promises, '7-3', 9)).toEqual(['7-4', '7-5-b']);
      expect(idsIn(promises, '7-3', EVER, 2)).toEqual(['7-4', '7-5-b']);
      promises.forget(['7-4', '7-5-b']);
      expect(idsIn(promises)).toEqual(['7-3-a', '9-0-c']);
    });

    it('drops the oldest tenth of the facts beyond its limit, and no entry', () => {
      const promises = keeping(['1-0'], 10);
      for (let n = 0; n <= 10; n += 1) acknowledge(promises, `f${n}`, '1-9');
      expect(promises.size).toBe(11);
      expect(idsIn(promises)).toContain('1-0');
      expect(idsIn(promises)).not.toContain('1-9-f0');
    });
  });
});
