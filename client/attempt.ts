import type { KeyStore } from './types.js';

/**
 * One intention to buy. The key exists before the first try; the ticket is added by the first response. `ended`: the
 * service refused it after a try without a response. Its key is kept aside, because a proxy may deliver that try late.
 */
export type Attempt = { key: string; qty: number; ticket?: string; ended?: boolean };

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

/** A store that responds at once, as those of browsers do. */
type ItemStore = {
  getItem(name: string): string | null;
  setItem(name: string, value: string): void;
  removeItem(name: string): void;
};

type Globals = {
  localStorage: ItemStore;
  sessionStorage: ItemStore;
  indexedDB: Databases;
  navigator?: { locks?: { request<Value>(name: string, work: () => Promise<Value>): Promise<Value> } };
};

const ITEMS = 'items';
const PATIENCE_MS = 2_000;
/** Of a store, for one item. A default store may wait several times for a browser. */
const STORE_PATIENCE_MS = 8_000;

/** 128 random bits. Does not use `randomUUID`, which is missing in pages without TLS and in React Native. */
export function randomId(): string {
  const bytes = new Uint8Array(16).map(() => Math.random() * 256);
  globalThis.crypto?.getRandomValues?.(bytes);
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Keeps items in memory. Used where no other store is available or allowed. */
export class MemoryStore implements ItemStore {
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
 * Keeps each item in the first of several stores that takes it, and at last in memory: a store may be full, forbidden
 * or missing. Never throws. The later store has the newer value, because the earlier ones did not take it.
 */
export class FirstStore implements ItemStore {
  readonly #stores: ('localStorage' | 'sessionStorage' | ItemStore)[];

  constructor(...stores: ('localStorage' | 'sessionStorage' | ItemStore)[]) {
    this.#stores = [...stores, new MemoryStore()];
  }

  getItem(name: string): string | null {
    let found: string | null = null;
    this.#each((store) => {
      found = store.getItem(name) ?? found;
    });
    return found;
  }

  /** @param value null = removes the item */
  setItem(name: string, value: string | null): void {
    let left = value;
    this.#each((store) => {
      if (left === null) return store.removeItem(name);
      store.setItem(name, left);
      left = null;
    });
  }

  removeItem(name: string): void {
    this.setItem(name, null);
  }

  #each(work: (store: ItemStore) => void): void {
    for (const store of this.#stores) {
      try {
        // Some browsers throw when a forbidden store is only named.
        work(typeof store === 'string' ? (globalThis as unknown as Globals)[store] : store);
      } catch {
        // The next one may work.
      }
    }
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
    readonly copy: KeyStore,
    databases = () => (globalThis as unknown as Globals).indexedDB,
  ) {
    this.#database = new Promise<Opened | null>((resolve) => {
      // Throws where there is no database, or where it is forbidden.
      const opening = databases().open('doorbuster');
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
    // If the database is full, its old value must not hide the new one of the copy.
    (await this.#run((items) => items.put(value, name))) ?? (await this.#run((items) => items.delete(name)));
    await this.copy.setItem(name, value);
  }

  async removeItem(name: string): Promise<void> {
    await this.#run((items) => items.delete(name));
    await this.copy.removeItem(name);
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
 * The default store. In browsers all tabs share it. Elsewhere, and where the browser forbids that, it is
 * `localStorage`, `sessionStorage` or memory.
 */
export function defaultStore(): KeyStore {
  return new TabStore(new FirstStore('localStorage', 'sessionStorage'));
}

/** The attempt of one shopper in one sale. It is the same in every tab and after a reload. */
export class KeptAttempt {
  readonly #name: string;
  /** What the store did not take. */
  readonly #memory = new MemoryStore();
  /** The names of items that could not be read, or not in time. They may exist, so they are not overwritten. */
  readonly #unread = new Set<string>();

  constructor(
    readonly store: KeyStore,
    productId: string,
    userId: string,
  ) {
    this.#name = `doorbuster|${productId}|${userId}`;
  }

  async read(): Promise<Attempt | null> {
    try {
      const kept = JSON.parse((await this.#get(this.#name)) ?? 'null') as Attempt | null;
      return kept?.key ? kept : null;
    } catch {
      return null;
    }
  }

  /**
   * Returns the stored attempt, or stores this one: a new one, or that of another device. Tabs that call it at the same
   * time get the same attempt.
   * @param over the key of an attempt that this one replaces. The old one is stored until the new one is.
   */
  claim(attempt: Attempt, over?: string | false | null): Promise<Attempt> {
    return this.#alone(async () => {
      const kept = await this.read();
      if (!kept || kept.key === over || (kept.ended && attempt.ticket)) return this.#write(attempt);
      return kept.ended ? this.#write({ ...kept, ended: false }) : kept;
    });
  }

  /**
   * Stores the attempt with its ticket, unless another attempt has begun. A tab whose try was refused may have
   * forgotten this one.
   */
  async keepTicket(attempt: Attempt): Promise<void> {
    await this.#alone(async () => {
      if (((await this.read()) ?? attempt).key === attempt.key) await this.#write(attempt);
    });
  }

  /** Ends this attempt. An attempt that another tab has begun since is kept. @param aside whether its key is kept */
  async end(key: string, aside: boolean): Promise<void> {
    await this.#alone(async () => {
      const kept = await this.read();
      if (kept?.key === key) await (aside ? this.#write({ ...kept, ended: true }) : this.#put(this.#name, null));
    });
  }

  async device(): Promise<string> {
    return this.#alone(async () => {
      const kept = await this.#get('doorbuster|device');
      if (kept) return kept;
      const made = randomId();
      await this.#put('doorbuster|device', made);
      return made;
    });
  }

  async #write(attempt: Attempt): Promise<Attempt> {
    await this.#put(this.#name, JSON.stringify(attempt));
    return attempt;
  }

  async #get(name: string): Promise<string | null | undefined> {
    const kept = this.#memory.getItem(name);
    if (kept !== null) return kept;
    try {
      const found = await inTime(this.store.getItem(name));
      this.#unread.delete(name);
      return found;
    } catch {
      this.#unread.add(name);
      return null;
    }
  }

  /** Waits, without the lock, until the store responds. */
  async #settleLater(name: string): Promise<void> {
    try {
      await this.store.getItem(name);
      await this.#alone(() => this.#settle(name));
    } catch {
      // The next change tries it again.
    }
  }

  /** Stores what was made meanwhile, unless the store has an attempt that may have a unit, and this one has none. */
  async #settle(name: string): Promise<void> {
    const found = await inTime(this.store.getItem(name));
    const made = this.#memory.getItem(name);
    if (made === null || !this.#unread.has(name)) return;
    const isGone = made === 'null';
    if (found && !isGone && !(JSON.parse(made) as Attempt).ticket) return;
    this.#unread.delete(name);
    if (isGone) this.#memory.removeItem(name);
    else await this.#put(name, made);
  }

  /** A failure of the store must not end an attempt, or hide what the server responded. */
  async #put(name: string, value: string | null): Promise<void> {
    if (this.#unread.has(name)) {
      this.#memory.setItem(name, value ?? 'null');
      void this.#settleLater(name);
      return;
    }
    try {
      await inTime(value === null ? this.store.removeItem(name) : this.store.setItem(name, value));
      this.#memory.removeItem(name);
    } catch {
      this.#memory.setItem(name, value ?? 'null');
    }
  }

  /**
   * Runs `work` while no other call runs. Where the platform has no locks (React Native, Node), there are no tabs, but
   * several sales may use one store. Where the browser forbids stores, it may refuse locks too.
   */
  #alone<Value>(work: () => Promise<Value>): Promise<Value> {
    const inTurn = () => {
      lastTurn = lastTurn.then(work, work);
      return lastTurn as Promise<Value>;
    };
    const locks = (globalThis as unknown as Globals).navigator?.locks;
    return locks ? locks.request('doorbuster', work).catch(inTurn) : inTurn();
  }
}

let lastTurn: Promise<unknown> = Promise.resolve();

/** Fails after a time: a store that does not respond must not keep a shopper from buying. */
function inTime<Value>(work: Value | Promise<Value>): Promise<Value> {
  let timer: ReturnType<typeof setTimeout>;
  const tooLate = new Promise<never>((_, reject) => {
    timer = setTimeout(reject, STORE_PATIENCE_MS);
  });
  return Promise.race([work, tooLate]).finally(() => clearTimeout(timer));
}
