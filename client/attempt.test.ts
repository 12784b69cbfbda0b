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

describe('A store that responds after 20 s', () => {
  beforeEach(() => {
    jest.useFakeTimers();
  });
  afterEach(() => {
    jest.useRealTimers();
  });
  const SLOW_MS = 20_000;
  const mine = { key: 'my-key', qty: 1 };

  /** Keeps `mine` on a page whose store is slow, and returns what is in the store in the end. */
  async function keepOn(store: MemoryStore): Promise<unknown> {
    const later = <Value>(work: () => Value) =>
      new Promise<Value>((resolve) => setTimeout(() => resolve(work()), SLOW_MS));
    const slow = {
      getItem: (name: string) => later(() => store.getItem(name)),
      setItem: (name: string, value: string) => later(() => store.setItem(name, value)),
      removeItem: (name: string) => later(() => store.removeItem(name)),
    };
    const kept = new KeptAttempt(slow, 'lamp', 'ann');
    const claimed = kept.claim(mine);
    await jest.advanceTimersByTimeAsync(SLOW_MS / 2);
    expect(await claimed).toEqual(mine);
    await kept.keepTicket({ ...mine, ticket: 't1' });
    await jest.advanceTimersByTimeAsync(5 * SLOW_MS);
    expect(await kept.read()).toEqual({ ...mine, ticket: 't1' });
    return new KeptAttempt(store, 'lamp', 'ann').read();
  }

  test('keeps the attempt that was in it, which may have a unit', async () => {
    const store = new MemoryStore();
    const earlier = await new KeptAttempt(store, 'lamp', 'ann').claim({ key: 'earlier-key', qty: 1 });
    expect(await keepOn(store)).toEqual(earlier);
  });

  test('gets what was made meanwhile, if it was empty', async () => {
    expect(await keepOn(new MemoryStore())).toEqual({ ...mine, ticket: 't1' });
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
