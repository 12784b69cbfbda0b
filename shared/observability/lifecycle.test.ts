import { describe, expect, test } from '@jest/globals';
import { Lifecycle } from './lifecycle.js';
import type { Log } from './log.js';

function recorded() {
  const said: string[] = [];
  const logged: object[] = [];
  const log = { error: (fields: object) => logged.push(fields) } as unknown as Log;
  const life = new Lifecycle(log);
  /** Yields between its beginning and its end, so that overlapping steps are detected. */
  const step = (what: string) => async () => {
    said.push(`${what} begins`);
    await Promise.resolve();
    said.push(`${what} ends`);
  };
  const fails = (what: string) => () => {
    said.push(`${what} fails`);
    throw new Error(what);
  };
  return { life, said, logged, step, fails };
}

describe('Lifecycle', () => {
  test('starts parts in the order of their registration, one after the other', async () => {
    const { life, said, step } = recorded();
    life.add('pool', { start: step('pool'), stop: () => {} });
    life.add('relay', { start: step('relay'), quiet: () => {} });
    await life.start();
    expect(said).toEqual(['pool begins', 'pool ends', 'relay begins', 'relay ends']);
  });

  test('starts no further part when one cannot start', async () => {
    const { life, said, step, fails } = recorded();
    life.add('pool', { start: fails('pool'), stop: () => {} });
    life.add('relay', { start: step('relay'), stop: () => {} });
    await expect(life.start()).rejects.toThrow('pool');
    expect(said).toEqual(['pool fails']);
  });

  test('quiets and stops parts in the opposite order, one after the other', async () => {
    const { life, said, step } = recorded();
    life.add('pool', { stop: step('pool stop') });
    life.add('relay', { quiet: step('relay quiet'), stop: step('relay stop') });
    life.add('server', { quiet: step('server quiet'), stop: step('server stop') });
    await life.quiet();
    expect(said.splice(0)).toEqual([
      'server quiet begins',
      'server quiet ends',
      'relay quiet begins',
      'relay quiet ends',
    ]);
    await life.stop();
    expect(said).toEqual([
      'server stop begins',
      'server stop ends',
      'relay stop begins',
      'relay stop ends',
      'pool stop begins',
      'pool stop ends',
    ]);
  });

  test('ends each part once, also when it is asked twice', async () => {
    const { life, said, step } = recorded();
    life.add('relay', { quiet: step('quiet'), stop: step('stop') });
    await Promise.all([life.quiet(), life.quiet()]);
    await Promise.all([life.stop(), life.stop()]);
    expect(said).toEqual(['quiet begins', 'quiet ends', 'stop begins', 'stop ends']);
  });

  test('goes on when a part cannot be ended, names it in the log, and throws in the end', async () => {
    const { life, said, logged, step, fails } = recorded();
    life.add('pool', { quiet: step('pool quiet'), stop: step('pool stop') });
    life.add('relay', { quiet: fails('relay quiet'), stop: fails('relay stop') });
    await life.quiet();
    const error = await life.stop().then(
      () => null,
      (thrown: unknown) => thrown,
    );
    expect(said).toEqual([
      'relay quiet fails',
      'pool quiet begins',
      'pool quiet ends',
      'relay stop fails',
      'pool stop begins',
      'pool stop ends',
    ]);
    expect(logged).toMatchObject([{ part: 'relay' }, { part: 'relay' }]);
    expect((error as AggregateError).errors.map(String)).toEqual(['Error: relay quiet', 'Error: relay stop']);
  });
});
