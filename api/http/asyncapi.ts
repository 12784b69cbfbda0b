import { z } from 'zod';
import {
  CLIENT_FRAMES,
  CLOSE_CODES,
  CLOSE_MEANINGS,
  FRAME_ENVELOPE,
  SERVER_FRAMES,
} from '../../shared/contracts/frames.js';

const CHANNEL = 'sale';
type Frames = Record<string, z.ZodObject>;

/**
 * Returns the AsyncAPI 3.0 document of /flash-sale/ws, generated from the contracts of the frames. `receive` and `send`
 * are seen from the server.
 */
export function asyncApiDocument(version: string): object {
  const sent: Frames = Object.fromEntries(
    Object.entries(SERVER_FRAMES).map(([type, frame]) => [
      type,
      frame.extend(FRAME_ENVELOPE).describe(frame.description ?? type),
    ]),
  );
  const received: Frames = CLIENT_FRAMES;
  const all = { ...received, ...sent };
  return {
    asyncapi: '3.0.0',
    info: {
      title: 'Doorbuster',
      version,
      description: 'Notifications about one shopper’s position and reservation, over a WebSocket.',
      license: { name: 'Apache-2.0', url: 'https://www.apache.org/licenses/LICENSE-2.0' },
    },
    defaultContentType: 'application/json',
    channels: {
      [CHANNEL]: {
        address: '/flash-sale/ws',
        title: 'One shopper in one sale',
        description: `The client sends the ticket of its checkout in the query or in a first \`subscribe\`. Close codes: ${closeCodes()}.`,
        messages: Object.fromEntries(Object.keys(all).map((type) => [type, reference('components', 'messages', type)])),
        bindings: {
          ws: {
            method: 'GET',
            query: { type: 'object', properties: { ticket: { type: 'string', maxLength: 1024 } } },
            bindingVersion: '0.1.0',
          },
        },
      },
    },
    operations: {
      receive: operation('receive', 'Frames that a client may send', received),
      send: operation('send', 'Frames that the server sends', sent),
    },
    components: {
      securitySchemes: {
        ticket: {
          type: 'httpApiKey',
          in: 'query',
          name: 'ticket',
          description: 'The ticket that checkout returns, in the query or in the first message',
        },
      },
      messages: Object.fromEntries(
        Object.entries(all).map(([type, frame]) => [
          type,
          { name: type, summary: frame.description ?? type, payload: schemaOf(frame) },
        ]),
      ),
    },
  };
}

function operation(action: 'send' | 'receive', title: string, frames: Frames): object {
  return {
    action,
    title,
    channel: reference('channels', CHANNEL),
    security: [reference('components', 'securitySchemes', 'ticket')],
    messages: Object.keys(frames).map((type) => reference('channels', CHANNEL, 'messages', type)),
  };
}

const reference = (...path: string[]) => ({ $ref: `#/${path.join('/')}` });

/** Returns the JSON schema of a frame as draft 7, of which AsyncAPI's schemas are a superset. */
function schemaOf(frame: z.ZodObject): object {
  const { $schema: _, ...schema } = z.toJSONSchema(frame, { target: 'draft-7', io: 'input' });
  return schema;
}

function closeCodes(): string {
  return Object.entries(CLOSE_CODES)
    .map(([name, code]) => `${code} ${CLOSE_MEANINGS[name as keyof typeof CLOSE_CODES]}`)
    .join('; ');
}
