import type { KeyStore } from './types.js';

/** One wish to buy: its key from before the first try, its ticket from the first answer on. */
export type Attempt = { key: string; qty: number; ticket?: string };

/** The parts of IndexedDB that are used. */
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

/** 128 random bits. Not `randomUUID`, which pages without TLS and React Native lack. */
export function randomId(): string {
  const bytes = new Uint8Array(16);
  if (globalThis.crypto?.getRandomValues) globalThis.crypto.getRandomValues(bytes);
  else for (let i = 0; i < bytes.length; i += 1) bytes[i] = Math.random() * 256;
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Keeps things for as long as the object lives; for where nothing else is there or allowed. */
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
 * Keeps things so that all tabs of a browser agree on them. `localStorage` alone does not do: each tab's process has a
 * copy of its own, which may be behind that of the tab that has just let go of the lock. What IndexedDB has committed,
 * every later transaction sees. `localStorage` gets a copy: it notifies the other tabs of changes, and is the only
 * store where the database cannot be used.
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
      // A browser that says no, as some do in private windows, or nothing at all, must not keep anybody from buying.
      opening.onerror = () => resolve(null);
      setTimeout(resolve, PATIENCE_MS, null);
    }).catch(() => null);
  }

  async getItem(name: string): Promise<string | null | undefined> {
    const found = await this.#run((items) => items.get(name));
    // Kept by an older version of this client, or when the database failed: at worst an old key, whose response is
    // returned again.
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

  /** @returns the request once its transaction is committed; null when the database does not do it */
  async #run(ask: (items: Items) => Asked): Promise<Asked | null> {
    const database = await this.#database;
    return new Promise<Asked>((resolve, reject) => {
      const transaction = (database as Opened).transaction(ITEMS, 'readwrite');
      const request = ask(transaction.objectStore(ITEMS));
      transaction.oncomplete = () => resolve(request);
      transaction.onabort = reject;
      // Everybody else waits for the lock meanwhile.
      setTimeout(reject, PATIENCE_MS);
    }).catch(() => null);
  }
}

/** One that all tabs of a browser share; elsewhere, `localStorage`, if this place has one and lets us write. */
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

/** The attempt of one shopper in one sale, the same in every tab and after a reload. */
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

  /** The one that is kept, or a new one; of several tabs that ask at once, all get the same. */
  claim(qty: number): Promise<Attempt> {
    return this.#alone(async () => {
      const kept = await this.read();
      return kept ?? this.#write({ key: randomId(), qty });
    });
  }

  /** Adds the ticket, unless the attempt was given up meanwhile. */
  async keepTicket(attempt: Attempt, ticket: string): Promise<void> {
    await this.#alone(async () => {
      if ((await this.read())?.key === attempt.key) await this.#write({ ...attempt, ticket });
    });
  }

  /** Gives up this attempt; one that another tab has begun since is left alone. */
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
   * One after another. Without locks (React Native, Node) there are no tabs, but there may be several sales on one
   * store.
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
