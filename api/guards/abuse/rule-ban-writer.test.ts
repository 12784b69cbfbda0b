import { expect, test } from '@jest/globals';
import type { Ban } from '../../../shared/domain/ban.js';
import { RuleBanWriter } from './rule-ban-writer.js';

const ban = (id: number): Ban => ({
  id: String(id),
  effect: 'ban',
  kind: 'device',
  subject: `fp-${id}`,
  untilMs: 1,
  reason: '',
  actor: 'rule:x',
});

/** A writer, and a table whose statements wait until the test resolves them. */
function startWriter() {
  const statements: { bans: readonly Ban[]; end: (error?: Error) => void }[] = [];
  const [dropped, trouble]: [string[], unknown[]] = [[], []];
  const writer = new RuleBanWriter({
    table: {
      insertOfRules: (bans) =>
        new Promise((resolve, reject) =>
          statements.push({ bans, end: (error) => (error ? reject(error) : resolve()) }),
        ),
    },
    onDropped: (why) => dropped.push(why),
    onTrouble: (error) => trouble.push(error),
    limits: { ruleBansWaiting: 1_000, ruleBansBatch: 500 },
  });
  return { writer, statements, dropped, trouble };
}

test('concurrent bans are each written once, by one writer and in batches', async () => {
  const { writer, statements } = startWriter();
  const flushed = Array.from({ length: 1_000 }, (_, i) => {
    writer.add(ban(i));
    return writer.flush();
  });
  let done = 0;
  for (; writer.waiting > 0; done += 1) {
    expect(statements.length).toBe(done + 1);
    statements[done]?.end();
    await Promise.resolve().then(() => {});
    await new Promise(setImmediate);
  }
  await Promise.all(flushed);
  expect(statements.map(({ bans }) => bans.length)).toEqual([1, 500, 499]);
  expect(new Set(statements.flatMap(({ bans }) => bans.map(({ id }) => id))).size).toBe(1_000);
});

test('bans that Postgres rejects wait for the next flush, and bans beyond the capacity are counted', async () => {
  const { writer, statements, dropped, trouble } = startWriter();
  for (let i = 0; i < 1_003; i += 1) writer.add(ban(i));
  expect([writer.waiting, dropped]).toEqual([1_000, ['waiting', 'waiting', 'waiting']]);
  const first = writer.flush();
  statements[0]?.end(new Error('Postgres is away'));
  await first;
  expect([writer.waiting, trouble.length, statements.length]).toEqual([1_000, 1, 1]);
  void writer.flush();
  expect(statements[1]?.bans).toEqual(statements[0]?.bans);
});
