/** Longer than a response is cached, plus the time that it may take. */
const STALE_MS = 15_000;

/** The clock of a device may gain so much against that of the server, ms per ms. */
const DRIFT = 1e-4;
/** `performance.now()` of some browsers stands still while the device sleeps. */
const ASLEEP_MS = 2_000;

/**
 * The clock of the server, by the times that its responses contain. If the clock of the device is set back, nothing
 * changes. If it is set forward, the device counts as having slept, until the next response.
 */
export class ServerClock {
  /** The server's time when `performance.now()` was 0. */
  #originMs: number | null = null;
  /** `performance.now()` when it was learned, */
  #learnedAt = 0;
  /** and by how much `Date.now()` was ahead of that. */
  #ahead = 0;

  /** The server's time in ms; before the first response, the time of this device. */
  now(): number {
    return this.#originMs === null ? Date.now() : this.#originMs + performance.now() + this.#asleepMs;
  }

  /** How long the device has slept since the last response that was learned from. */
  get #asleepMs(): number {
    const ms = Date.now() - performance.now() - this.#ahead;
    return ms > ASLEEP_MS ? ms : 0;
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

  /** Learns from a frame. It may have waited for a device that slept, so it never sets the clock back. */
  hear(serverMs: number): void {
    if (this.#originMs === null || serverMs > this.now()) this.learn(serverMs, performance.now());
  }

  /**
   * A response from a cache or over a slow network shows an earlier time than it is, so the furthest time is the best.
   * If it is off by more, the furthest one was wrong. It counts less with time, because clocks drift.
   * @param serverMs the time of the server
   * @param askedAtMs when it was requested, by `performance.now()`
   */
  learn(serverMs: number, askedAtMs: number): void {
    const nowMs = performance.now();
    const originMs = serverMs - (askedAtMs + nowMs) / 2;
    const before = this.#originMs === null ? null : this.#originMs - DRIFT * (nowMs - this.#learnedAt);
    const isBetter = before === null || originMs > before || before - originMs > STALE_MS || this.#asleepMs > 0;
    if (!isBetter) return;
    this.#originMs = originMs;
    this.#learnedAt = nowMs;
    this.#ahead = Date.now() - nowMs;
  }
}
