import { describe, expect, it } from '@jest/globals';
import { takeRedisOption } from '../../scripts/redis-option.mjs';

describe('takeRedisOption', () => {
  it.each([
    [['test/e2e', '-w', '1'], 'server', ['test/e2e', '-w', '1']],
    [['--redis', 'cluster', 'test/e2e'], 'cluster', ['test/e2e']],
    [['test/e2e', '--redis=cluster'], 'cluster', ['test/e2e']],
    [['--redis', 'server'], 'server', []],
  ])('takes the option out of %j', (args, redis, others) => {
    expect(takeRedisOption(args)).toEqual({ redis, args: others });
  });

  it.each([
    [['--redis', 'sentinel'], '--redis sentinel is unknown.'],
    [['--redis='], '--redis needs a value.'],
    [['--redis'], '--redis needs a value.'],
    [['--redis', '--changed'], '--redis needs a value.'],
  ])('rejects %j', (args, message) => {
    expect(() => takeRedisOption(args)).toThrow(message);
  });
});
