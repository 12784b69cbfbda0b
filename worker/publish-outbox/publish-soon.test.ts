import { expect, test } from '@jest/globals';
import { PublishSoon } from './publish-soon.js';

test('what is committed within a moment is published once, up to the last of it', async () => {
  const published: string[] = [];
  await new Promise<void>((resolve) => {
    const soon = new PublishSoon(20, async (upTo) => {
      published.push(upTo);
      if (published.length === 2) return resolve();
      soon.committed('4-0');
    });
    for (const upTo of ['1-0', '2-0', '3-0']) soon.committed(upTo);
    expect(published).toEqual([]);
  });
  expect(published).toEqual(['3-0', '4-0']);
});

test('what waits when it is stopped is published then, and nothing afterwards', async () => {
  const published: string[] = [];
  const soon = new PublishSoon(60_000, async (upTo) => {
    published.push(upTo);
  });
  soon.committed('1-0');
  await soon.stop();
  expect(published).toEqual(['1-0']);
  soon.committed('2-0');
  await soon.stop();
  expect(published).toEqual(['1-0']);
});

test('a Redis that does not answer holds nobody up who stops', async () => {
  const soon = new PublishSoon(60_000, () => new Promise(() => {}));
  soon.committed('1-0');
  await soon.stop();
});
