import { setImmediate } from 'node:timers/promises';
import { z } from 'zod';
import {
  cloudEventSchema,
  DOCUMENTED_EVENTS,
  type DocumentedType,
  EVENT_TYPES,
} from '../../shared/contracts/events.js';
import {
  CLIENT_FRAMES,
  CLOSE_CODES,
  CLOSE_MEANINGS,
  FRAME_ENVELOPE,
  SERVER_FRAMES,
} from '../../shared/contracts/frames.js';
import { keys } from '../../shared/redis/keys.js';
import { Examples, type JsonSchema } from './examples.js';
import { CONTACT } from './openapi.js';
import { TAGS, type Tag } from './route.js';

const CHANNEL = 'sale';
/** The tags of frames and of events. The OpenAPI document has its webhooks under the latter. */
const TAG_OF = { frames: 'waiting room', events: 'events' } as const satisfies Record<string, Tag>;
/** Where channels are. Each installation has hosts of its own, so they are variables. */
const SERVERS = {
  api: { protocol: 'wss', description: 'The API. Without TLS the protocol is ws.', host: 'localhost:8102' },
  redis: { protocol: 'redis', description: 'The Redis of REDIS_URL', host: 'localhost:6379' },
  receiver: { protocol: 'https', description: 'The host of a webhook endpoint', host: 'shop.example' },
} as const;
/** Where events are published, with the address and what a reader has to know. */
const EVENT_CHANNELS = {
  stream: {
    server: 'redis',
    address: keys.events,
    title: 'The event stream in Redis',
    description:
      'Entries have the fields `id`, `type`, `subject` and `event`, which is the CloudEvent. With several shards the tag of shard 0 ' +
      'comes first in the key. Read it with a consumer group that starts at 0.',
    types: EVENT_TYPES as readonly DocumentedType[],
  },
  webhooks: {
    server: 'receiver',
    address: null,
    title: 'Webhook endpoints',
    description:
      'The body of a POST to each URL of POST /admin/webhooks, signed by Standard Webhooks. At least once, in order per reservation.',
    types: Object.keys(DOCUMENTED_EVENTS) as DocumentedType[],
  },
} as const;
type Frames = Record<string, z.ZodObject>;

/**
 * Returns the AsyncAPI 3.0 document of /flash-sale/ws, of the event stream and of webhooks. It is generated from the
 * contracts of frames and events. `receive` and `send` are seen from the server. Other requests are served between its
 * messages.
 */
export async function asyncApiDocument(version: string): Promise<object> {
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
      description:
        'Notifications about one shopper’s position and reservation, over a WebSocket; events of reservations and campaigns, ' +
        'in a Redis stream and by webhooks.',
      contact: CONTACT,
      license: { name: 'Apache-2.0', url: 'https://www.apache.org/licenses/LICENSE-2.0' },
      tags: Object.values(TAG_OF).map((name) => ({ name, description: TAGS[name] })),
    },
    defaultContentType: 'application/json',
    servers: mapped(SERVERS, ({ host, ...server }) => ({
      ...server,
      host: '{host}',
      variables: { host: { default: host } },
    })),
    channels: {
      [CHANNEL]: {
        servers: [reference('servers', 'api')],
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
      ...mapped(EVENT_CHANNELS, ({ types, server, ...channel }) => ({
        ...channel,
        servers: [reference('servers', server)],
        messages: Object.fromEntries(types.map((type) => [type, reference('components', 'messages', type)])),
      })),
    },
    operations: {
      receive: operation('receive', 'Frames that a client may send', received),
      send: operation('send', 'Frames that the server sends', sent),
      publish: publishing('stream', 'Events that are appended to the stream'),
      deliver: publishing('webhooks', 'Events that are sent to webhook endpoints'),
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
      messages: await messagesOf(all),
    },
  };
}

async function messagesOf(frames: Frames): Promise<Record<string, object>> {
  const messages: Record<string, object> = {};
  for (const [type, frame] of Object.entries(frames)) {
    messages[type] = { name: type, summary: frame.description ?? type, ...payloadOf(type, frame) };
    await setImmediate();
  }
  for (const type of Object.keys(DOCUMENTED_EVENTS) as DocumentedType[]) {
    messages[type] = {
      name: type,
      summary: DOCUMENTED_EVENTS[type].meaning,
      contentType: 'application/cloudevents+json',
      ...payloadOf(type, cloudEventSchema(type)),
    };
    await setImmediate();
  }
  return messages;
}

function operation(action: 'send' | 'receive', title: string, frames: Frames): object {
  return {
    action,
    title,
    channel: reference('channels', CHANNEL),
    security: [reference('components', 'securitySchemes', 'ticket')],
    tags: [{ name: TAG_OF.frames }],
    messages: Object.keys(frames).map((type) => reference('channels', CHANNEL, 'messages', type)),
  };
}

function publishing(channel: keyof typeof EVENT_CHANNELS, title: string): object {
  const messages = EVENT_CHANNELS[channel].types.map((type) => reference('channels', channel, 'messages', type));
  return { action: 'send', title, channel: reference('channels', channel), tags: [{ name: TAG_OF.events }], messages };
}

function mapped<Value, Name extends string>(
  values: Readonly<Record<Name, Value>>,
  change: (value: Value, name: Name) => object,
): Record<string, object> {
  const entries = Object.entries<Value>(values) as [Name, Value][];
  return Object.fromEntries(entries.map(([name, value]) => [name, change(value, name)]));
}

const reference = (...path: string[]) => ({ $ref: `#/${path.join('/')}` });

/** Returns the schema of a message with an example. */
function payloadOf(type: string, frame: z.ZodObject): object {
  const payload = schemaOf(frame);
  return { payload, examples: [{ payload: new Examples({}).ofMessage(type, payload as JsonSchema) }] };
}

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
