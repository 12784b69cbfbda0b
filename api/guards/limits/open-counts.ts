/**
 * Counts what each network has open in this process and enforces a limit, so that one network cannot take everything.
 */
export class OpenCounts {
  readonly #counts = new Map<string, number>();

  constructor(readonly limit: number) {}

  /** Counts one more. @returns false if the network has reached the limit; then nothing is counted */
  open(network: string): boolean {
    const count = this.#counts.get(network) ?? 0;
    if (count >= this.limit) return false;
    this.#counts.set(network, count + 1);
    return true;
  }

  /** Counts one less. */
  close(network: string): void {
    const count = (this.#counts.get(network) ?? 0) - 1;
    if (count > 0) this.#counts.set(network, count);
    else this.#counts.delete(network);
  }
}
