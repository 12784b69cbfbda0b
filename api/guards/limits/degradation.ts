import { runEvery } from '../../../shared/observability/shared-interval.js';

/** What an overloaded process switches off, first to last. After these, the load shedder refuses checkouts. */
export const SWITCHED_OFF = ['positions', 'status', 'validate'] as const;
export type SwitchedOff = (typeof SWITCHED_OFF)[number];

export type DegradationOptions = {
  /** Share of its limits at which a process switches off the first, in percent; 0 = never. */
  atPercent: number;
  /** Returns how near the process or an engine is to its limit: 1 = at the limit. */
  share: () => number;
  onChange: (off: readonly SwitchedOff[]) => void;
};

/** At which share each is switched off, as multiples of the share for the first. */
const STEPS = [1, 1.25, 1.5] as const satisfies { length: (typeof SWITCHED_OFF)['length'] };
const LOOK_EVERY_MS = 1_000;
/** So many looks in a row must see a load before something is switched off for it. One long turn is no overload. */
const LOOKS = 3;
/** How long the load must be lower before one is switched on again. */
const CALM_MS = 5_000;

/**
 * Switches off what matters least when a process or Redis is near its limit, so that checkouts go on. One is switched
 * off at `atPercent` of the limit, the second and third at 1.25 and 1.5 times as much.
 * Looks once a second, and three looks decide. One is
 * switched on again after five seconds below.
 */
export class Degradation {
  #level = 0;
  /** What the last looks wanted to be switched off, newest last. */
  #wanted: number[] = [];
  #calmSinceMs: number | null = null;
  #end = () => {};

  constructor(readonly options: DegradationOptions) {}

  start(): void {
    if (this.options.atPercent === 0) return;
    this.#end = runEvery(LOOK_EVERY_MS, () => this.look(performance.now()));
  }

  stop(): void {
    this.#end();
  }

  /** How many are switched off. */
  get level(): number {
    return this.#level;
  }

  get off(): readonly SwitchedOff[] {
    return SWITCHED_OFF.slice(0, this.#level);
  }

  isOff(what: SwitchedOff): boolean {
    return SWITCHED_OFF.indexOf(what) < this.#level;
  }

  /** Compares the load with the limits. @param nowMs monotonic */
  look(nowMs: number): void {
    this.#wanted = [...this.#wanted, this.#wantedNow()].slice(-LOOKS);
    const wanted = this.#wanted.length < LOOKS ? 0 : Math.min(...this.#wanted);
    if (wanted >= this.#level) this.#calmSinceMs = null;
    if (wanted > this.#level) return this.#set(wanted);
    if (wanted === this.#level) return;
    this.#calmSinceMs ??= nowMs;
    if (nowMs - this.#calmSinceMs < CALM_MS) return;
    this.#calmSinceMs = nowMs;
    this.#set(this.#level - 1);
  }

  #wantedNow(): number {
    const share = this.options.share();
    return STEPS.filter((step) => share >= (step * this.options.atPercent) / 100).length;
  }

  #set(level: number): void {
    this.#level = level;
    this.options.onChange(this.off);
  }
}
