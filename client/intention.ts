import type { KeyStore } from './types.js';

/** One wish to buy: its key from before the first try, its ticket from the first answer on. */
export type Intention = { key: string; qty: number; ticket?: string };

type Globals = {
  localStorage?: KeyStore;
  navigator?: { locks?: { request<Value>(name: string, work: () => Promise<Value>): Promise<Value> } };
};

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

/** `localStorage`, if this place has one and lets us write. */
export function defaultStore(): KeyStore {
  try {
    const store = (globalThis as Globals).localStorage;
    store?.setItem('doorbuster', '1');
    return store ?? new MemoryStore();
  } catch {
    return new MemoryStore();
  }
}

/** The intention of one shopper in one sale, the same in every tab and after a reload. */
export class KeptIntention {
  readonly #name: string;

  constructor(
    readonly store: KeyStore,
    productId: string,
    userId: string,
  ) {
    this.#name = `doorbuster|${productId}|${userId}`;
  }

  async read(): Promise<Intention | null> {
    try {
      const kept = JSON.parse((await this.store.getItem(this.#name)) ?? 'null') as Intention | null;
      return kept && typeof kept.key === 'string' ? kept : null;
    } catch {
      return null;
    }
  }

  /** The one that is kept, or a new one; of several tabs that ask at once, all get the same. */
  claim(qty: number): Promise<Intention> {
    return this.#alone(async () => {
      const kept = await this.read();
      return kept ?? this.#write({ key: randomId(), qty });
    });
  }

  /** Adds the ticket, unless the intention was given up meanwhile. */
  async keepTicket(intention: Intention, ticket: string): Promise<void> {
    await this.#alone(async () => {
      if ((await this.read())?.key === intention.key) await this.#write({ ...intention, ticket });
    });
  }

  /** Gives up this intention; one that another tab has begun since is left alone. */
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

  async #write(intention: Intention): Promise<Intention> {
    await this.store.setItem(this.#name, JSON.stringify(intention));
    return intention;
  }

  /** Without locks (React Native, Node) there are no tabs either. */
  #alone<Value>(work: () => Promise<Value>): Promise<Value> {
    const locks = (globalThis as Globals).navigator?.locks;
    return locks ? locks.request('doorbuster', work) : work();
  }
}
