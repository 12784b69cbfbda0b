import type { KeyStore } from './types.js';

/** One intention to buy. The key exists before the first try; the ticket is added by the first response. */
export type Attempt = { key: string; qty: number; ticket?: string };

/** The parts of IndexedDB that this file uses. */
type Databases = { open(name: string): Opening };
type Opening = { result: Opened } & Record<'onupgradeneeded' | 'onsuccess' | 'onerror', (() => void) | null>;
type Opened = { createObjectStore(name: string): unknown; transaction(of: string, mode: 'readwrite'): Transaction };
type Transaction = {
  objectStore(name: string): Items;
  oncomplete: (() => void) | null;
  onabort: ((event: unknown) => void) | null;
};
type Items = { get(name: string): Asked; put(value: string, name: string): Asked; delete(name: string): Asked };
type Asked = { result: unknown };

type Globals = {
  localStorage?: KeyStore;
  indexedDB?: Databases;
  navigator?: { locks?: { request<Value>(name: string, work: () => Promise<Value>): Promise<Value> } };
};

const ITEMS = 'items';
const PATIENCE_MS = 2_000;

/** 128 random bits. Does not use `randomUUID`, which is missing in pages without TLS and in React Native. */
export function randomId(): string {
  const bytes = new Uint8Array(16);
  if (globalThis.crypto?.getRandomValues) globalThis.crypto.getRandomValues(bytes);
  else for (let i = 0; i < bytes.length; i += 1) bytes[i] = Math.random() * 256;
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Keeps items in memory. Used where no other store is available or allowed. */
export class MemoryStore implements KeyStore {
  readonly #items = new Map<string, string>();
  getItem(name: string): string | null {
    return this.#items.get(name) ?? null;
  }
  setItem(name: string, value: string): void {
    this.#items.set(name, value);
  }
  removeItem(name: string): void {
    this.#items.delete(name);
  }
}

/**
 * Keeps items so that all tabs of a browser agree on them. `localStorage` alone is not enough: each tab's process has
 * its own copy, which may be older than that of the tab that has just released the lock. In IndexedDB, every
 * transaction sees what was committed before. `localStorage` gets a copy, because it notifies other tabs of changes,
 * and is used alone if the database cannot be used.
 */
export class TabStore implements KeyStore {
  readonly #database: Promise<Opened | null>;

  constructor(
    databases: Databases,
    readonly copy: KeyStore,
  ) {
    this.#database = new Promise<Opened | null>((resolve) => {
      const opening = databases.open('doorbuster');
      opening.onupgradeneeded = () => opening.result.createObjectStore(ITEMS);
      opening.onsuccess = () => resolve(opening.result);
      // If the browser refuses the database, as some do in private windows, or does not respond, the shopper must still
      // be able to buy.
      opening.onerror = () => resolve(null);
      setTimeout(resolve, PATIENCE_MS, null);
    }).catch(() => null);
  }

  async getItem(name: string): Promise<string | null | undefined> {
    const found = await this.#run((items) => items.get(name));
    // An item may be only in the copy, if the database failed. At worst it is an old key, for which the server returns
    // the first response again.
    return (found?.result as string | undefined) ?? this.copy.getItem(name);
  }

  async setItem(name: string, value: string): Promise<void> {
    await this.#run((items) => items.put(value, name));
    this.copy.setItem(name, value);
  }

  async removeItem(name: string): Promise<void> {
    await this.#run((items) => items.delete(name));
    this.copy.removeItem(name);
  }

  /** @returns the request after its transaction was committed; null when the database fails */
  async #run(ask: (items: Items) => Asked): Promise<Asked | null> {
    const database = await this.#database;
    return new Promise<Asked>((resolve, reject) => {
      const transaction = (database as Opened).transaction(ITEMS, 'readwrite');
      const request = ask(transaction.objectStore(ITEMS));
      transaction.oncomplete = () => resolve(request);
      transaction.onabort = reject;
      // There is a time limit, because other tabs wait for the lock meanwhile.
      setTimeout(reject, PATIENCE_MS);
    }).catch(() => null);
  }
}

/**
 * The default store. In browsers all tabs share it; elsewhere it is `localStorage` if it is available and writable, or
 * else memory.
 */
export function defaultStore(): KeyStore {
  try {
    const { localStorage: store, indexedDB: databases } = globalThis as Globals;
    store?.setItem('doorbuster', '1');
    if (store && databases) return new TabStore(databases, store);
    return store ?? new MemoryStore();
  } catch {
    return new MemoryStore();
  }
}

/** The attempt of one shopper in one sale. It is the same in every tab and after a reload. */
export class KeptAttempt {
  readonly #name: string;

  constructor(
    readonly store: KeyStore,
    productId: string,
    userId: string,
  ) {
    this.#name = `doorbuster|${productId}|${userId}`;
  }

  async read(): Promise<Attempt | null> {
    try {
      const kept = JSON.parse((await this.store.getItem(this.#name)) ?? 'null') as Attempt | null;
      return kept && typeof kept.key === 'string' ? kept : null;
    } catch {
      return null;
    }
  }

  /**
   * Returns the stored attempt, or stores this one: a new one, or that of another device. Tabs that call it at the same
   * time get the same attempt.
   */
  claim(attempt: Attempt): Promise<Attempt> {
    return this.#alone(async () => (await this.read()) ?? this.#write(attempt));
  }

  /** Adds the ticket, unless another attempt has begun. A tab whose try was refused may have forgotten this one. */
  async keepTicket(attempt: Attempt, ticket: string): Promise<void> {
    await this.#alone(async () => {
      if (((await this.read()) ?? attempt).key === attempt.key) await this.#write({ ...attempt, ticket });
    });
  }

  /** Forgets this attempt. An attempt that another tab has begun since is kept. */
  async forget(key: string): Promise<void> {
    await this.#alone(async () => {
      if ((await this.read())?.key === key) await this.store.removeItem(this.#name);
    });
  }

  async device(): Promise<string> {
    return this.#alone(async () => {
      const kept = await this.store.getItem('doorbuster|device');
      if (kept) return kept;
      const made = randomId();
      await this.store.setItem('doorbuster|device', made);
      return made;
    });
  }

  async #write(attempt: Attempt): Promise<Attempt> {
    await this.store.setItem(this.#name, JSON.stringify(attempt));
    return attempt;
  }

  /**
   * Runs `work` while no other call runs. Where the platform has no locks (React Native, Node), there are no tabs, but
   * several sales may use one store.
   */
  #alone<Value>(work: () => Promise<Value>): Promise<Value> {
    const locks = (globalThis as Globals).navigator?.locks;
    if (locks) return locks.request('doorbuster', work);
    const turn = lastTurn.then(work, work);
    lastTurn = turn;
    return turn;
  }
}

let lastTurn: Promise<unknown> = Promise.resolve();
