import { describe, expect, it } from '@jest/globals';
import type { RawEntry } from '../contracts/journal.js';
import { compareJournalIds } from '../redis/journal-ids.js';
import { JournalTail } from './journal-tail.js';

const restock = (journalId: string, no = '7'): RawEntry => ({
  journalId,
  fields: {
    ...{ kind: 'restocked', no, at: '1', delta: '2', before: '0', total: '2', actor: 'ann', request: '' },
  },
});

/** A journal whose entries a test appends and trims, and a tail of campaign 7. */
function tailOf(ids: readonly string[], histories: Record<number, string> = {}) {
  let entries = ids.map((id) => restock(id));
  const read = async (after: string, limit: number) =>
    entries.filter(({ journalId }) => compareJournalIds(journalId, after) > 0).slice(0, limit);
  const since = async (generation: number) =>
    Object.entries(histories)
      .map(([of, afterId]) => ({ generation: Number(of), afterId }))
      .filter((one) => one.generation > generation);
  const tail = new JournalTail({ read }, 7, { since });
  const cover = async (cursor: string, lastId: string, generation = 1) => {
    const covered = await tail.cover(cursor, { lastId, generation });
    return covered && [...covered.steps()].map(({ at }) => at);
  };
  return {
    ...{ tail, cover },
    append: (...more: RawEntry[]) => entries.push(...more),
    trim: (upTo: string) => {
      entries = entries.filter(({ journalId }) => compareJournalIds(journalId, upTo) > 0);
    },
  };
}

describe('JournalTail', () => {
  it('has the changes of its campaign after the cursor, up to the position of Redis', async () => {
    const { cover, append } = tailOf(['1-3', '1-4', '1-5']);
    append(restock('1-6', '8'), restock('1-7'));
    expect(await cover('1-2', '1-6')).toEqual(['1-3', '1-4', '1-5']);
    expect(await cover('1-4', '1-7')).toEqual(['1-5', '1-7']);
    expect(await cover('1-7', '1-7')).toEqual([]);
    // Redis that lacks its journal is where Postgres is.
    expect(await cover('1-7', '0-0')).toEqual([]);
  });

  it('keeps what was trimmed after it was read', async () => {
    const { cover, append, trim } = tailOf(['1-3', '1-4']);
    expect(await cover('1-2', '1-4')).toEqual(['1-3', '1-4']);
    trim('1-4');
    append(restock('1-5'));
    expect(await cover('1-2', '1-5')).toEqual(['1-3', '1-4', '1-5']);
  });

  it('covers nothing while entries between the cursor and Redis are missing', async () => {
    const { cover, append, trim } = tailOf(['1-5']);
    expect(await cover('1-3', '1-5')).toBeNull();
    expect(await cover('1-4', '1-5')).toEqual(['1-5']);
    append(restock('1-6'), restock('1-7'));
    trim('1-6');
    expect(await cover('1-4', '1-7')).toBeNull();
    expect(await cover('1-6', '1-7')).toEqual(['1-7']);
    trim('1-7');
    expect(await cover('1-6', '1-8')).toBeNull();
  });

  it('continues in a later history only if Postgres knows where it began', async () => {
    expect(await tailOf(['2-0']).cover('1-4', '2-0', 2)).toBeNull();
    expect(await tailOf(['2-0'], { 2: '1-4' }).cover('1-4', '2-0', 2)).toEqual(['2-0']);
    expect(await tailOf(['2-0'], { 2: '1-6' }).cover('1-4', '2-0', 2)).toBeNull();
    expect(await tailOf(['1-5', '1-6', '2-0'], { 2: '1-6' }).cover('1-4', '2-0', 2)).toEqual(['1-5', '1-6', '2-0']);
    // Redis was filled, and its journal is empty.
    expect(await tailOf([], { 2: '1-4' }).cover('1-4', '0-0', 2)).toEqual([]);
    expect(await tailOf([], { 2: '1-6' }).cover('1-4', '0-0', 2)).toBeNull();
    expect(await tailOf([]).cover('1-4', '0-0', 2)).toBeNull();
  });
});
