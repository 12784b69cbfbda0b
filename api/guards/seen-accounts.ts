/**
 * Users seen at one place (a device, a network) in this process, as far as a limit needs to know: beyond it nobody is told
 * apart. Two generations, so that what was not seen for a while is forgotten and the memory is bounded.
 */
export class SeenAccounts {
  /** One user, as at most places, or several. */
  #recent = new Map<string, string | string[]>();
  #before = new Map<string, string | string[]>();
  #since: number;

  constructor(
    readonly capacity: number,
    readonly memoryMs: number,
    readonly nowMs: () => number = () => performance.now(),
  ) {
    this.#since = nowMs();
  }

  /** @returns how many users were seen there, this one included; never more than `limit` */
  see(place: string, user: string, limit: number): number {
    let users = this.#recent.get(place);
    if (users === undefined) {
      if (this.#recent.size >= this.capacity || this.nowMs() - this.#since > this.memoryMs) {
        this.#before = this.#recent;
        this.#recent = new Map();
        this.#since = this.nowMs();
      }
      users = this.#before.get(place) ?? user;
      this.#recent.set(place, users);
    }
    if (typeof users === 'string') {
      if (users === user || limit <= 1) return Math.min(1, limit);
      users = [users];
      this.#recent.set(place, users);
    }
    if (users.length < limit && !users.includes(user)) users.push(user);
    return Math.min(users.length, limit);
  }
}
