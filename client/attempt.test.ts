import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { defaultStore, FirstStore, KeptAttempt, MemoryStore } from './attempt.js';

const globals = globalThis as Record<string, unknown>;
const full = () => {
  throw new Error('QuotaExceededError');
};

afterEach(() => {
  for (const name of ['localStorage', 'sessionStorage']) delete globals[name];
});

function define(name: string, value: unknown): void {
  Object.defineProperty(globals, name, { value, configurable: true });
}

test('what localStorage does not take is kept in sessionStorage, and a reload finds it', async () => {
  const local = new MemoryStore();
  local.setItem('name', 'old');
  local.setItem = full;
  define('localStorage', local);
  define('sessionStorage', new MemoryStore());
  await defaultStore().setItem('name', 'new');
  expect(await defaultStore().getItem('name')).toBe('new');
  await defaultStore().removeItem('name');
  expect(await defaultStore().getItem('name')).toBeNull();
});

test('an item that localStorage takes again is in no other store', () => {
  const [local, session] = [new MemoryStore(), new MemoryStore()];
  define('localStorage', local);
  define('sessionStorage', session);
  const store = new FirstStore('localStorage', 'sessionStorage');
  Object.assign(local, { setItem: full });
  store.setItem('name', 'one');
  expect(session.getItem('name')).toBe('one');
  delete (local as Partial<MemoryStore>).setItem;
  store.setItem('name', 'two');
  expect([local.getItem('name'), session.getItem('name')]).toEqual(['two', null]);
});

test('a store that is forbidden is passed over, and memory is the last one', () => {
  for (const name of ['localStorage', 'sessionStorage'])
    Object.defineProperty(globals, name, { get: full, configurable: true });
  const store = new FirstStore('localStorage', 'sessionStorage');
  store.setItem('name', 'kept');
  expect(store.getItem('name')).toBe('kept');
  store.removeItem('name');
  expect(store.getItem('name')).toBeNull();
});

test('an attempt outlives a store that fails in every call', async () => {
  const kept = new KeptAttempt({ getItem: full, setItem: full, removeItem: full }, 'lamp', 'ann');
  const attempt = { key: 'the-key', qty: 1 };
  expect(await kept.claim(attempt)).toEqual(attempt);
  expect(await kept.claim({ key: 'another-key', qty: 1 })).toEqual(attempt);
  await kept.keepTicket({ ...attempt, ticket: 't1' });
  expect(await kept.read()).toEqual({ ...attempt, ticket: 't1' });
  await kept.end('the-key', false);
  expect(await kept.read()).toBeNull();
  expect(await kept.device()).toBe(await kept.device());
});

const EARLIER = { key: 'earlier-key', qty: 1 };
const SLOW = <Value>(work: () => Value): Promise<Value> =>
  new Promise((resolve) => setTimeout(() => resolve(work()), 20_000));

describe('A store that is slow at first', () => {
  beforeEach(() => {
    jest.useFakeTimers();
  });
  afterEach(() => {
    jest.useRealTimers();
  });
  const mine = { key: 'my-key', qty: 1 };

  const ended = Symbol('ended');

  /**
   * Keeps `mine` on a page whose store is slow at first, or fails, and returns what a reload finds in the end.
   * @param then the ticket that it gets, or its end; null = neither
   * @param first the first call of the store: it fails, or responds never or late
   */
  async function keepOn(store: MemoryStore, then: string | typeof ended | null, first = SLOW): Promise<unknown> {
    let calls = 0;
    const slowly = <Value>(work: () => Value): Promise<Value> => {
      calls += 1;
      return calls === 1 ? first(work) : Promise.resolve(work());
    };
    const slow = {
      getItem: (name: string) => slowly(() => store.getItem(name)),
      setItem: (name: string, value: string) => slowly(() => store.setItem(name, value)),
      removeItem: (name: string) => slowly(() => store.removeItem(name)),
    };
    const kept = new KeptAttempt(slow, 'lamp', 'ann');
    const claimed = kept.claim(mine);
    await jest.advanceTimersByTimeAsync(10_000);
    expect(await claimed).toEqual(mine);
    if (then === ended) await kept.end(mine.key, false);
    else if (then) await kept.keepTicket({ ...mine, ticket: then });
    await jest.advanceTimersByTimeAsync(60_000);
    return new KeptAttempt(store, 'lamp', 'ann').read();
  }

  /** A store with an attempt that may have a unit. */
  function used(): MemoryStore {
    const store = new MemoryStore();
    store.setItem('doorbuster|lamp|ann', JSON.stringify(EARLIER));
    return store;
  }

  test('keeps the attempt that was in it, until another one has a unit or a place', async () => {
    expect(await keepOn(used(), null)).toEqual(EARLIER);
    expect(await keepOn(used(), ended)).toEqual(EARLIER);
    expect(await keepOn(used(), 't1')).toEqual({ ...mine, ticket: 't1' });
  });

  test.each([
    ['responds after 20 s', SLOW],
    ['never responds to its first call', () => new Promise<never>(() => {})],
    ['fails in its first call', () => Promise.reject(new Error('the store is locked'))],
  ])('that %s gets what was made meanwhile, if it was empty', async (_, first) => {
    expect(await keepOn(new MemoryStore(), 't1', first)).toEqual({ ...mine, ticket: 't1' });
    expect(await keepOn(new MemoryStore(), null, first)).toEqual(mine);
    expect(await keepOn(new MemoryStore(), ended, first)).toBeNull();
  });
});

test('an attempt that a store does not remove any more is forgotten here', async () => {
  const store = new MemoryStore();
  const kept = new KeptAttempt(store, 'lamp', 'ann');
  await kept.claim({ key: 'the-key', qty: 1 });
  store.removeItem = full;
  await kept.end('the-key', false);
  expect(await kept.read()).toBeNull();
});
