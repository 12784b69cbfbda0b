import { expect, test } from '@jest/globals';
import type { UserId } from '../../shared/domain/ids.js';
import { Erasures } from '../../shared/postgres/erasures.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale } from '../harness/sale.js';

/** When a worker looks at erasures that operators asked for. */
const { database, sql } = await startPersistence(await startSale());
const erasures = new Erasures(database);
const WAIT = { leastMs: 15_000, mostMs: 3_600_000 };
const ask = (user: string) => erasures.ask(user as UserId, false, { actor: 'olga', requestId: 'q1' });

/** Seconds until a worker looks at it again. */
async function secondsOf(id: string): Promise<number> {
  const { rows } = await sql.query(
    'select extract(epoch from next_look_at - now())::float as s from erasures where erasure_id = $1',
    [id],
  );
  return Math.round(rows[0].s);
}

test('a worker takes what is due, each erasure once, and again after a pause', async () => {
  const asked = [await ask('ann'), await ask('bob'), await ask('cid')];
  const taken = [await erasures.take(2, 5_000), await erasures.take(2, 5_000), await erasures.take(2, 5_000)];
  expect(taken.map(({ length }) => length)).toEqual([2, 1, 0]);
  expect(
    taken
      .flat()
      .map(({ id }) => id)
      .sort(),
  ).toEqual(asked.toSorted());
  expect(await secondsOf(String(asked[0]))).toBe(5);
  await sql.query('update erasures set next_look_at = now()');
  await erasures.finish(database, String(asked[0]));
  expect((await erasures.take(9, 5_000)).map(({ user }) => user).sort()).toEqual(['bob', 'cid']);
});

test('an erasure that waits is looked at after a tenth of its age, and at once when it is asked for again', async () => {
  const id = await ask('dot');
  const after = async (age: string) => {
    await sql.query('update erasures set requested_at = now() - $2::interval where erasure_id = $1', [id, age]);
    await erasures.later(id, WAIT);
    return secondsOf(id);
  };
  expect([await after('0'), await after('10 minutes'), await after('30 days')]).toEqual([15, 60, 3_600]);
  expect(await ask('dot')).toBe(id);
  expect((await erasures.take(9, 5_000)).map(({ user }) => user)).toContain('dot');
});
