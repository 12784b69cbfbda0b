/** Memory of Redis, bytes; `used / max`, 0 without a limit. */
export type MemoryHeadroom = { usedBytes: number; maxBytes: number; usedShare: number };

/** @param info INFO memory */
export function memoryHeadroom(info: ReadonlyMap<string, string>): MemoryHeadroom {
  const usedBytes = Number(info.get('used_memory') ?? 0);
  const maxBytes = Number(info.get('maxmemory') ?? 0);
  return { usedBytes, maxBytes, usedShare: maxBytes > 0 ? usedBytes / maxBytes : 0 };
}

/**
 * Decides when Redis is so full that new claims must be refused. At `maxmemory` Redis rejects every script that writes,
 * including payments and releases, and every write of BullMQ. The memory between the threshold and the limit is
 * reserved for them.
 */
export class MemoryGuard {
  #full = false;
  #headroom: MemoryHeadroom = { usedBytes: 0, maxBytes: 0, usedShare: 0 };

  constructor(
    /** Shares of `maxmemory`: full above the first; accepting again below the second, to prevent flapping. */
    readonly limits: { refuseAbove: number; acceptBelow: number },
    readonly onChange: (full: boolean, headroom: MemoryHeadroom) => void = () => {},
  ) {}

  get full(): boolean {
    return this.#full;
  }

  get headroom(): MemoryHeadroom {
    return this.#headroom;
  }

  /** @param info INFO memory, read about every second during checkouts */
  observe(info: ReadonlyMap<string, string>): void {
    this.#headroom = memoryHeadroom(info);
    const { usedShare } = this.#headroom;
    const full = usedShare > (this.#full ? this.limits.acceptBelow : this.limits.refuseAbove);
    if (full === this.#full) return;
    this.#full = full;
    this.onChange(full, this.#headroom);
  }
}
