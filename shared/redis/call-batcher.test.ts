import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { CallBatcher } from './call-batcher.js';

type Call = {
  group: string;
  requests: readonly number[];
  /** Replies with ten times each request. */
  succeed: () => void;
  reply: (replies: readonly (number | Error)[]) => void;
  fail: (error: Error) => void;
};

/** A batcher whose calls return when the test says so. */
function stage(maxBatch = 64) {
  const calls: Call[] = [];
  const sizes: number[] = [];
  const batcher = new CallBatcher<number, number>({
    maxBatch,
    onBatch: (size) => sizes.push(size),
    send: (group, requests) =>
      new Promise((reply, fail) => {
        calls.push({ group, requests, reply, fail, succeed: () => reply(requests.map((request) => request * 10)) });
      }),
  });
  const run = (...requests: number[]) => requests.map((request) => batcher.run('a', request));
  const sent = () => calls.map(({ requests }) => requests);
  return { batcher, calls, sizes, run, sent };
}

describe('CallBatcher', () => {
  it('sends a lone request in the same turn of the event loop and returns its reply', async () => {
    const { calls, run, sent } = stage();
    const [reply] = run(1);
    await nextTurn();
    expect(sent()).toEqual([[1]]);
    calls[0]!.succeed();
    expect(await reply).toBe(10);
  });

  it('sends requests of one turn together, in order, each with its own reply', async () => {
    const { calls, run, sent } = stage();
    const replies = run(3, 1, 2);
    await nextTurn();
    expect(sent()).toEqual([[3, 1, 2]]);
    calls[0]!.succeed();
    expect(await Promise.all(replies)).toEqual([30, 10, 20]);
  });

  it('holds requests back while a call of their group is in flight, and no others', async () => {
    const { batcher, calls, run, sent } = stage();
    const first = run(1);
    await nextTurn();
    const later = [...run(2), ...run(3)];
    const other = batcher.run('b', 9);
    await nextTurn();
    expect(calls.map(({ group, requests }) => [group, ...requests])).toEqual([
      ['a', 1],
      ['b', 9],
    ]);
    calls[0]!.succeed();
    await Promise.all(first);
    await nextTurn();
    expect(sent()).toEqual([[1], [9], [2, 3]]);
    calls[1]!.succeed();
    calls[2]!.succeed();
    expect(await Promise.all([...later, other])).toEqual([20, 30, 90]);
  });

  it('sends what waits as several calls at once, of at most the maximum each, and reports their sizes', async () => {
    const { calls, sizes, run, sent } = stage(2);
    const first = run(1);
    await nextTurn();
    const later = run(2, 3, 4, 5, 6);
    calls[0]!.succeed();
    await Promise.all(first);
    await nextTurn();
    expect(sent()).toEqual([[1], [2, 3], [4, 5], [6]]);
    expect(sizes).toEqual([1, 2, 2, 1]);
    for (const call of calls.slice(1)) call.succeed();
    expect(await Promise.all(later)).toEqual([20, 30, 40, 50, 60]);
  });

  it('sends at most four calls of a group at once, and the rest in its order when they have returned', async () => {
    const { calls, run, sent } = stage(2);
    const all = run(1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
    await nextTurn();
    expect(sent()).toEqual([
      [1, 2],
      [3, 4],
      [5, 6],
      [7, 8],
    ]);
    for (const call of calls) call.succeed();
    await Promise.all(all.slice(0, 8));
    await nextTurn();
    expect(sent().slice(4)).toEqual([[9, 10]]);
    calls[4]!.succeed();
    expect((await Promise.all(all)).at(-1)).toBe(100);
  });

  it('waits for all calls of a group before it sends again', async () => {
    const { calls, run, sent } = stage(1);
    const pair = run(1, 2);
    await nextTurn();
    const third = run(3);
    calls[1]!.succeed();
    await pair[1];
    await nextTurn();
    expect(sent()).toEqual([[1], [2]]);
    calls[0]!.succeed();
    await pair[0];
    await nextTurn();
    expect(sent()).toEqual([[1], [2], [3]]);
    calls[2]!.succeed();
    await Promise.all(third);
  });

  it('rejects only the requests of a call that fails', async () => {
    const { calls, run, sent } = stage(2);
    const replies = Promise.allSettled(run(1, 2, 3));
    await nextTurn();
    const next = run(4);
    calls[0]!.fail(new Error('lost'));
    calls[1]!.succeed();
    expect((await replies).map((result) => (result as { value?: number }).value ?? 'rejected')).toEqual([
      'rejected',
      'rejected',
      30,
    ]);
    await nextTurn();
    expect(sent()).toEqual([[1, 2], [3], [4]]);
    calls[2]!.succeed();
    expect(await next[0]).toBe(40);
  });

  it('rejects only the request whose reply is an error', async () => {
    const { calls, run } = stage();
    const replies = Promise.allSettled(run(1, 2));
    await nextTurn();
    calls[0]!.reply([new RangeError('malformed'), 20]);
    expect(await replies).toEqual([
      { status: 'rejected', reason: new RangeError('malformed') },
      { status: 'fulfilled', value: 20 },
    ]);
  });

  it('rejects all requests of a call with another number of replies', async () => {
    const { calls, run } = stage();
    const replies = Promise.allSettled(run(1, 2));
    await nextTurn();
    calls[0]!.reply([10]);
    expect((await replies).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  });

  it('rejects when the call throws at once, and serves the next request', async () => {
    let broken = true;
    const batcher = new CallBatcher<number, number>({
      maxBatch: 4,
      send: (_group, requests) => {
        if (broken) throw new Error('closed');
        return Promise.resolve(requests);
      },
    });
    await expect(batcher.run('a', 1)).rejects.toThrow('closed');
    broken = false;
    expect(await batcher.run('a', 2)).toBe(2);
  });

  it('refuses a maximum below 1', () => {
    expect(() => new CallBatcher({ maxBatch: 0, send: async () => [] })).toThrow('maxBatch is 0, expected at least 1');
  });
});
