/** Longer than a response is cached, plus the time that it may take. */
const STALE_MS = 15_000;

/**
 * The clock of the server, by the times that its responses contain. A change of the device's clock does not change it.
 */
export class ServerClock {
  /** The server's time when `performance.now()` was 0. */
  #originMs: number | null = null;

  /** The server's time in ms; before the first response, the time of this device. */
  now(): number {
    return this.#originMs === null ? Date.now() : this.#originMs + performance.now();
  }

  /**
   * Learns from a response. A browser or CDN may return a body that it has kept, with an old time in it; `Date` and
   * `Age` are those of the last check with the server.
   * @param serverTime of the body; null = it has none
   * @param askedAtMs when the response was requested, by `performance.now()`
   */
  learnFrom(headers: Headers, serverTime: string | null, askedAtMs: number): void {
    const checkedMs = Date.parse(headers.get('Date') ?? '') + 1000 * (Number(headers.get('Age')) || 0);
    const times = [Date.parse(serverTime ?? ''), checkedMs].filter(Number.isFinite);
    if (times.length > 0) this.learn(Math.max(...times), askedAtMs);
  }

  /**
   * A response from a cache or over a slow network shows an earlier time than it is, so the furthest time is the best.
   * If it is off by more, the furthest one was wrong.
   * @param serverMs the time of the server
   * @param askedAtMs when it was requested, by `performance.now()`
   */
  learn(serverMs: number, askedAtMs: number): void {
    const originMs = serverMs - (askedAtMs + performance.now()) / 2;
    const before = this.#originMs;
    if (before === null || originMs > before || before - originMs > STALE_MS) this.#originMs = originMs;
  }
}
