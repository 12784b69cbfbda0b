/** Listeners by event. An error of one listener is reported as uncaught, and the others are still called. */
export class Emitter<Events extends { [Name in keyof Events]: unknown[] }> {
  readonly #listeners = new Map<keyof Events, Set<unknown>>();

  /** @returns a function that removes the listener */
  on<Name extends keyof Events>(event: Name, listener: (...args: Events[Name]) => void): () => void {
    const listeners = this.#listeners.get(event) ?? new Set();
    this.#listeners.set(event, listeners.add(listener));
    return () => {
      listeners.delete(listener);
    };
  }

  protected emit<Name extends keyof Events>(event: Name, ...args: Events[Name]): void {
    for (const listener of [...(this.#listeners.get(event) ?? [])]) {
      try {
        (listener as (...args: Events[Name]) => void)(...args);
      } catch (error) {
        setTimeout(() => {
          throw error;
        });
      }
    }
  }
}
