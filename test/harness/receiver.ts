import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { atEnd } from './cleanup.js';

/** `endless`: the status, and then a body that does not end. `cut`: the connection ends without a response. */
type Answer = number | { status: number; location: string } | { status: number; endless: true } | 'nothing' | 'cut';

export type Received = { headers: IncomingHttpHeaders; text: string; event: Record<string, any>; answer: number };

/** A receiver of webhooks: keeps all deliveries and responds as a test has set. */
export class Receiver {
  readonly received: Received[] = [];
  answer: (event: Record<string, any>) => Answer | Promise<Answer> = () => 204;

  constructor(readonly url: string) {}

  /** Ids of the events it has accepted, as they came. */
  accepted(): string[] {
    return this.received.filter(({ answer }) => answer >= 200 && answer < 300).map(({ event }) => event.id);
  }
}

export async function startReceiver(): Promise<Receiver> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', async () => {
      const text = Buffer.concat(chunks).toString();
      const event = JSON.parse(text) as Record<string, any>;
      const answer = await receiver.answer(event);
      const status = typeof answer === 'string' ? 0 : typeof answer === 'number' ? answer : answer.status;
      receiver.received.push({ headers: request.headers, text, event, answer: status });
      if (answer === 'cut') request.socket.destroy();
      if (typeof answer === 'string') return;
      if (typeof answer === 'object' && 'endless' in answer) {
        response.writeHead(status).write('a response without an end');
        return;
      }
      if (typeof answer === 'object') response.setHeader('location', answer.location);
      response.writeHead(status).end('an unread response');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const receiver = new Receiver(`http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`);
  atEnd('a receiver', async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return receiver;
}
