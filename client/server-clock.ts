/** Longer than a response is cached, plus the time that it may take. */
const STALE_MS = 15_000;

/** The clock of the server, by the times that its responses contain. */
export class ServerClock {
  #aheadMs: number | null = null;

  /** The server's time in ms; before the first response, the time of this device. */
  now(): number {
    return Date.now() + (this.#aheadMs ?? 0);
  }

  /**
   * Learns from a response. A browser or CDN may return a body that it has kept, with an old time in it; `Date` and
   * `Age` are those of the last check with the server.
   * @param serverTime of the body; null = it has none
   * @param askedAtMs when the response was requested, by `Date.now()`
   */
  learnFrom(headers: Headers, serverTime: string | null, askedAtMs: number): void {
    const checkedMs = Date.parse(headers.get('Date') ?? '') + 1000 * (Number(headers.get('Age')) || 0);
    const times = [Date.parse(serverTime ?? ''), checkedMs].filter(Number.isFinite);
    if (times.length > 0) this.learn(Math.max(...times), askedAtMs);
  }

  /**
   * A response from a cache or over a slow network shows an earlier time than it is, so the furthest time is the best.
   * If it is off by more, the clock of this device was changed.
   * @param serverMs the time of the server
   * @param askedAtMs when it was requested, by `Date.now()`
   */
  learn(serverMs: number, askedAtMs: number): void {
    const aheadMs = serverMs - (askedAtMs + Date.now()) / 2;
    const before = this.#aheadMs;
    if (before === null || aheadMs > before || before - aheadMs > STALE_MS) this.#aheadMs = aheadMs;
  }
}
