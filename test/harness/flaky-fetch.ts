type Fetch = typeof globalThis.fetch;
export type SentCall = { method: string; path: string; headers: Headers; body: Record<string, any>; status: number };

/**
 * A fetch that records requests and can lose responses: the request reaches the server, and its response does not
 * arrive. `refuse` and `answer` respond instead of the server.
 */
export class FlakyFetch {
  readonly calls: SentCall[] = [];
  #losing: ((call: SentCall) => boolean) | null = null;
  #refusals: { path: string; answer: () => Response }[] = [];
  #cut = false;

  readonly fetch: Fetch = async (input, init = {}) => {
    const url = new URL(String(input));
    const call: SentCall = {
      method: init.method ?? 'GET',
      path: url.pathname,
      headers: new Headers(init.headers),
      body: init.body ? (JSON.parse(String(init.body)) as Record<string, any>) : {},
      status: 0,
    };
    this.calls.push(call);
    if (this.#cut) throw new TypeError('the network is away');
    const at = this.#refusals.findIndex(({ path }) => path === url.pathname);
    const answer = at >= 0 ? this.#refusals.splice(at, 1)[0]?.answer() : undefined;
    const response = answer ?? (await fetch(input, init));
    call.status = response.status;
    if (!this.#losing?.(call)) return response;
    this.#losing = null;
    await response.arrayBuffer();
    throw new TypeError('the answer was lost');
  };

  /** The answer of the next call of this path is lost on its way. */
  loseAnswerOf(path: string): void {
    this.#losing = (call) => call.path === path;
  }

  /** The next call of this path gets this refusal, as the service writes it. */
  refuse(path: string, status: number, code: string, headers: Record<string, string> = {}): void {
    const challenge = { kind: 'sum', of: [1, 2] };
    const problem = { type: `https://doorbuster.dev/errors/${code}`, code, status, detail: code, challenge };
    const body = JSON.stringify(problem);
    this.answer(path, () => new Response(body, { status, headers }));
  }

  /** The next call of this path gets the response of another server. */
  answer(path: string, answer: () => Response): void {
    this.#refusals.push({ path, answer });
  }

  /** No call gets anywhere, until `mend`. */
  cut(): void {
    this.#cut = true;
  }
  mend(): void {
    this.#cut = false;
  }

  of(path: string): SentCall[] {
    return this.calls.filter((call) => call.path === path);
  }
}
