import { describe, expect, it } from '@jest/globals';
import { diagnose as diagnoseLook, type Look } from './diagnosis.js';

const GENERATION = 100;

/** Nothing was persisted between the two readings of the cursor, unless a test says so. */
const diagnose = (look: Omit<Look, 'cursorAfter'> & { cursorAfter?: string }) =>
  diagnoseLook({ cursorAfter: look.postgres.cursor, ...look });

const opened = { generation: GENERATION, server: 'primary', afterId: '90-7', opened: true };
/** Begun by a worker that did not finish. */
const unopened = { generation: 120, server: 'replica', afterId: '100-12', opened: false };

/** A server in service: the cursor at entry 10, entries 11 and 12 in the journal. */
const inService: Omit<Look, 'cursorAfter'> = {
  server: 'primary',
  epoch: { generation: GENERATION, server: 'primary' },
  journal: { firstId: '100-11', lastId: '100-12', entries: 2 },
  postgres: { cursor: '100-10', latest: opened, current: opened, shards: 1, mapVersion: 0, recovered: false },
  firstBegins: '90-7',
};
const empty = { firstId: null, lastId: '0-0', entries: 0 };
const promoted = { server: 'replica' };

describe('diagnose', () => {
  it('finds a verified server whose journal continues the cursor in service', () => {
    expect(diagnose(inService).kind).toBe('in_service');
    expect(diagnose({ ...inService, journal: { firstId: null, lastId: '100-10', entries: 0 } }).kind).toBe(
      'in_service',
    );
  });

  it('finds a server in service whose committed entries are not trimmed yet', () => {
    expect(diagnose({ ...inService, journal: { firstId: '100-4', lastId: '100-12', entries: 9 } }).kind).toBe(
      'in_service',
    );
  });

  it('recovers an empty Redis from Postgres', () => {
    expect(diagnose({ ...inService, epoch: null, journal: empty })).toMatchObject({ kind: 'recover', intact: false });
  });

  it('verifies a restarted or promoted server that has everything', () => {
    expect(diagnose({ ...inService, ...promoted })).toMatchObject({ kind: 'recover', intact: true, behind: false });
  });

  it('refills a restarted server whose journal ends before the cursor', () => {
    const journal = { firstId: null, lastId: '100-9', entries: 0 };
    expect(diagnose({ ...inService, ...promoted, journal })).toMatchObject({ kind: 'recover', intact: false });
  });

  it('verifies a restarted server in whose history nothing was appended yet', () => {
    const postgres = { ...inService.postgres, cursor: '90-7' };
    expect(diagnose({ ...inService, ...promoted, journal: empty, postgres })).toMatchObject({ intact: true });
  });

  it('refills a server that was restored from an older history', () => {
    const look = { ...inService, ...promoted, epoch: { generation: 90, server: 'primary' } };
    expect(diagnose(look)).toMatchObject({ kind: 'recover', intact: false });
  });

  it('keeps an old primary out that another server has superseded', () => {
    expect(diagnose({ ...inService, epoch: { generation: 90, server: 'primary' } }).kind).toBe('superseded');
  });

  it('finds Postgres behind when entries between the cursor and the journal are gone', () => {
    const postgres = { ...inService.postgres, cursor: '100-6' };
    expect(diagnose({ ...inService, postgres }).kind).toBe('postgres_behind');
    const trimmed = { firstId: null, lastId: '100-12', entries: 0 };
    expect(diagnose({ ...inService, postgres, journal: trimmed }).kind).toBe('postgres_behind');
  });

  it('finds Postgres behind when it lacks the history of a verified server', () => {
    const look = { ...inService, epoch: { generation: 110, server: 'primary' } };
    expect(diagnose(look).kind).toBe('postgres_behind');
  });

  it('finds Postgres behind when it has no history, and Redis has one', () => {
    const postgres = { ...inService.postgres, cursor: '0-0', latest: null, current: null };
    expect(diagnose({ ...inService, postgres }).kind).toBe('postgres_behind');
    expect(diagnose({ ...inService, ...promoted, postgres })).toMatchObject({ intact: true, behind: true });
  });

  it('never refills a restarted server from a Postgres that was set back', () => {
    const postgres = { ...inService.postgres, cursor: '100-6' };
    expect(diagnose({ ...inService, ...promoted, postgres })).toMatchObject({ intact: true, behind: true });
  });

  it('finishes a recovery that a worker left', () => {
    const postgres = {
      cursor: '90-7',
      latest: { ...opened, opened: false },
      current: { ...opened, generation: 90 },
      shards: 1,
      mapVersion: 0,
      recovered: false,
    };
    expect(diagnose({ ...inService, postgres, journal: empty })).toMatchObject({ kind: 'recover', intact: true });
  });

  it('recovers entries that a process saved late', () => {
    const postgres = { ...inService.postgres, recovered: true };
    expect(diagnose({ ...inService, postgres })).toMatchObject({ kind: 'recover', intact: true });
  });

  it('ignores a history that was begun and never opened', () => {
    const postgres = { ...inService.postgres, latest: unopened };
    expect(diagnose({ ...inService, postgres })).toMatchObject({ kind: 'recover', intact: true, behind: false });
    expect(diagnose({ ...inService, ...promoted, postgres })).toMatchObject({ kind: 'recover', intact: true });
    const lacking = { firstId: null, lastId: '100-9', entries: 0 };
    expect(diagnose({ ...inService, ...promoted, postgres, journal: lacking })).toMatchObject({ intact: false });
  });

  it('never refills from a Postgres that was set back, also after an interrupted recovery', () => {
    const postgres = { ...inService.postgres, cursor: '100-6', latest: unopened };
    expect(diagnose({ ...inService, ...promoted, postgres })).toMatchObject({ intact: true, behind: true });
    expect(diagnose({ ...inService, epoch: null, postgres })).toMatchObject({ intact: true, behind: true });
  });

  it('finds Postgres behind when it lacks the end of the history before', () => {
    const journal = { firstId: '100-0', lastId: '100-2', entries: 3 };
    const postgres = { ...inService.postgres, cursor: '90-5' };
    expect(diagnose({ ...inService, journal, postgres }).kind).toBe('postgres_behind');
    expect(diagnose({ ...inService, journal, postgres: { ...postgres, cursor: '90-7' } }).kind).toBe('in_service');
  });

  it('finds Postgres behind when it lacks the history of the first entry', () => {
    const journal = { firstId: '95-3', lastId: '100-2', entries: 9 };
    const postgres = { ...inService.postgres, cursor: '90-5' };
    expect(diagnose({ ...inService, journal, postgres, firstBegins: null }).kind).toBe('postgres_behind');
    expect(diagnose({ ...inService, epoch: null, journal, postgres, firstBegins: null })).toMatchObject({
      behind: true,
    });
  });

  it('does not take entries for missing that were persisted and trimmed while it looked', () => {
    const journal = { firstId: null, lastId: '100-20', entries: 0 };
    expect(diagnose({ ...inService, journal, cursorAfter: '100-20' }).kind).toBe('in_service');
    expect(diagnose({ ...inService, journal, cursorAfter: '100-25' }).kind).toBe('in_service');
    expect(diagnose({ ...inService, journal, cursorAfter: '100-15' }).kind).toBe('postgres_behind');
  });
});
