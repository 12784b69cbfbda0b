/** Memory of Redis, bytes; `used / max`, 0 without a limit. */
export type MemoryHeadroom = { usedBytes: number; maxBytes: number; usedShare: number };

/** @param info INFO memory */
export function memoryHeadroom(info: ReadonlyMap<string, string>): MemoryHeadroom {
  const usedBytes = Number(info.get('used_memory') ?? 0);
  const maxBytes = Number(info.get('maxmemory') ?? 0);
  return { usedBytes, maxBytes, usedShare: maxBytes > 0 ? usedBytes / maxBytes : 0 };
}

/**
 * Says when Redis is so full that new claims must be refused. At its limit Redis refuses every script that writes, payments
 * and releases included, and so does BullMQ; what is left below the limit is for them.
 */
export class MemoryGuard {
  #full = false;
  #headroom: MemoryHeadroom = { usedBytes: 0, maxBytes: 0, usedShare: 0 };

  constructor(
    /** Shares of `maxmemory`: full above the first, and again with room below the second, so that it does not flutter. */
    readonly limits: { refuseAbove: number; acceptBelow: number },
    readonly onChange: (full: boolean, headroom: MemoryHeadroom) => void = () => {},
  ) {}

  get full(): boolean {
    return this.#full;
  }

  get headroom(): MemoryHeadroom {
    return this.#headroom;
  }

  /** @param info INFO memory, read every second or so while checkouts come in */
  observe(info: ReadonlyMap<string, string>): void {
    this.#headroom = memoryHeadroom(info);
    const { usedShare } = this.#headroom;
    const full = usedShare > (this.#full ? this.limits.acceptBelow : this.limits.refuseAbove);
    if (full === this.#full) return;
    this.#full = full;
    this.onChange(full, this.#headroom);
  }
}
