import { createECDH, randomBytes } from 'node:crypto';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { decrypt } from 'http_ece';
import type { PushPayload } from '../../shared/sale-page/push-payload.js';
import { atEnd } from './cleanup.js';

/** Keys of an installation, as `npm run push:keys` makes them. */
export function pushEnv(): Record<string, string> {
  const pair = createECDH('prime256v1');
  pair.generateKeys();
  return {
    VAPID_SUBJECT: 'mailto:ops@shop.example',
    VAPID_PUBLIC_KEY: pair.getPublicKey('base64url'),
    VAPID_PRIVATE_KEY: Buffer.from(pair.getPrivateKey('hex').padStart(64, '0'), 'hex').toString('base64url'),
  };
}

type Message = { path: string; headers: IncomingHttpHeaders; payload: PushPayload; answer: number };

/** The subscription of one browser, with the keys that only the browser has. */
export class SubscribedBrowser {
  readonly #pair = createECDH('prime256v1');
  readonly #auth = randomBytes(16).toString('base64url');

  constructor(readonly endpoint: string) {
    this.#pair.generateKeys();
  }

  toJSON() {
    return { endpoint: this.endpoint, keys: { p256dh: this.#pair.getPublicKey('base64url'), auth: this.#auth } };
  }

  decrypt(body: Buffer): PushPayload {
    const options = { version: 'aes128gcm', privateKey: this.#pair, authSecret: this.#auth } as const;
    return JSON.parse(decrypt(body, options).toString());
  }
}

/** A push service with its browsers: it decrypts what it gets as they would. */
export class PushService {
  readonly messages: Message[] = [];
  readonly browsers = new Map<string, SubscribedBrowser>();
  answer: (path: string) => number = () => 201;

  constructor(readonly url: string) {}

  subscribe(): SubscribedBrowser {
    const path = `/push/${randomBytes(12).toString('base64url')}`;
    const browser = new SubscribedBrowser(this.url + path);
    this.browsers.set(path, browser);
    return browser;
  }

  of({ endpoint }: SubscribedBrowser): Message[] {
    return this.messages.filter(({ path }) => endpoint.endsWith(path));
  }
}

export async function startPushService(): Promise<PushService> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const path = String(request.url);
      const answer = service.answer(path);
      const payload = service.browsers.get(path)?.decrypt(Buffer.concat(chunks)) as PushPayload;
      service.messages.push({ path, headers: request.headers, payload, answer });
      response.writeHead(answer).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const service = new PushService(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  atEnd('a push service', async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return service;
}
