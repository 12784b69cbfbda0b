import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { atEnd } from './cleanup.js';

/**
 * A provider of challenges for persons that behaves as the documentation of Turnstile and hCaptcha says: a script that
 * shows a challenge, and a call that verifies a response once. No recorded answer of theirs was at hand.
 */
export class TestChallengeProvider {
  readonly #used = new Set<string>();
  readonly calls: URLSearchParams[] = [];
  /** away: calls get no response · broken: 502 */
  state: 'well' | 'away' | 'broken' = 'well';

  static async start(name: 'turnstile' | 'hcaptcha' = 'turnstile'): Promise<TestChallengeProvider> {
    const server = createServer(async (req, res) => {
      const { pathname } = new URL(req.url ?? '', 'http://provider');
      if (provider.state === 'away') return;
      if (provider.state === 'broken') {
        res.writeHead(502).end('<html>Bad gateway</html>');
      } else if (pathname.endsWith('/api.js')) {
        res.writeHead(200, { 'content-type': 'text/javascript' }).end(script(name));
      } else {
        const verdict = provider.#verdictOf(new URLSearchParams(await textOf(req)));
        res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(verdict));
      }
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const provider = new TestChallengeProvider(name, `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    atEnd('the provider of challenges', () => {
      server.closeAllConnections();
      server.close();
    });
    return provider;
  }

  constructor(
    readonly name: 'turnstile' | 'hcaptcha',
    readonly origin: string,
  ) {}

  get env(): Record<string, string> {
    return {
      CHALLENGE_PROVIDER: this.name,
      CHALLENGE_SITE_KEY: 'site-key-of-the-shop',
      CHALLENGE_SECRET: 'secret-at-the-provider',
      CHALLENGE_ORIGIN: this.origin,
    };
  }

  /** A response as the widget gives it to a page after a person has solved the challenge. */
  solve(challenge: { data?: string }): string {
    return `solved.${randomUUID()}.${challenge.data ?? ''}`;
  }

  #verdictOf(form: URLSearchParams): object {
    this.calls.push(form);
    const [secret, response, sitekey] = [form.get('secret'), form.get('response'), form.get('sitekey')];
    const failed = (...codes: string[]) => ({ success: false, 'error-codes': codes });
    if (secret === null) return failed('missing-input-secret');
    if (secret !== 'secret-at-the-provider') return failed('invalid-input-secret');
    if (response === null) return failed('missing-input-response');
    const [solved, id, cdata] = response.split('.');
    if (solved !== 'solved' || !id) return failed('invalid-input-response');
    if (this.name === 'hcaptcha' && sitekey !== null && sitekey !== 'site-key-of-the-shop')
      return failed('sitekey-secret-mismatch');
    if (this.#used.has(id)) return failed('timeout-or-duplicate');
    this.#used.add(id);
    const verdict = { success: true, challenge_ts: new Date().toISOString(), hostname: 'shop.example' };
    return this.name === 'turnstile' ? { ...verdict, 'error-codes': [], action: '', cdata } : verdict;
  }
}

async function textOf(req: IncomingMessage): Promise<string> {
  let text = '';
  for await (const part of req) text += part;
  return text;
}

/** A widget with one button. */
const script = (name: string) => `window.${name} = {
  render(container, { sitekey, cData = '', callback }) {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = 'I am a person';
    button.onclick = () => callback('solved.' + Math.random().toString(36).slice(2) + '.' + cData);
    container.append(button);
    return 'widget-of-' + sitekey;
  },
  remove() { document.querySelector('#challenge-box').replaceChildren(); },
};`;
