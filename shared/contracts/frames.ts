import { z } from 'zod';
import { standingFields } from './standing.js';

/** Frames that a client may send on /flash-sale/ws. */
export const CLIENT_FRAMES = {
  subscribe: z
    .object({ type: z.literal('subscribe'), ticket: z.string().max(1024), heartbeat: z.boolean().optional() })
    .describe(
      'The first frame, within 5 s, when the ticket was not in the query. With `heartbeat` the server sends a frame at ' +
        'least every 6 s, so that a client notices a server that has stopped.',
    ),
  ping: z
    .object({ type: z.literal('ping') })
    .describe('The server responds with `pong`, so a client can detect a dead connection.'),
  leave: z
    .object({ type: z.literal('leave') })
    .describe('Gives up the place in line. The server responds with `left`.'),
} as const;
export const clientFrame = z.discriminatedUnion('type', [
  CLIENT_FRAMES.subscribe,
  CLIENT_FRAMES.ping,
  CLIENT_FRAMES.leave,
]);

const ids = { reservation_id: z.uuid(), order_id: z.string() };

/** Frames that the server sends. Each also has `seq`, counting from 1 on its socket, and `time`. */
export const SERVER_FRAMES = {
  welcome: z
    .object({ type: z.literal('welcome'), ...standingFields })
    .describe(
      'The first frame, with the fields of queue-status. After a reconnect it shows the current state, so nothing is missed.',
    ),
  position: z
    .object({
      type: z.literal('position'),
      position: z.int().min(1),
      position_error: standingFields.position_error,
      queue_size: z.int().min(0),
      estimated_wait_seconds: z.int().nullable().describe('null = unknown'),
    })
    .describe('The place in line has changed. At most one a second.'),
  promoted: z
    .object({
      type: z.literal('promoted'),
      ...ids,
      pay_before: z.iso.datetime().nullable(),
      checkout_url: standingFields.checkout_url,
    })
    .describe('The user has a unit, and must pay for it before `pay_before` (null = nothing to pay).'),
  extended: z
    .object({
      type: z.literal('extended'),
      ...ids,
      pay_before: z.iso.datetime(),
      checkout_url: standingFields.checkout_url,
    })
    .describe('A service has extended the time to pay, because a payment is under way.'),
  redeemed: z.object({ type: z.literal('redeemed'), ...ids }).describe('The reservation was paid.'),
  released: z
    .object({ type: z.literal('released'), ...ids })
    .describe('The reservation was released, or Postgres rejected it.'),
  expired: z.object({ type: z.literal('expired'), ...ids }).describe('The reservation was not paid in time.'),
  closed: z.object({ type: z.literal('closed') }).describe('The line is closed; no user waits any more.'),
  left: z.object({ type: z.literal('left') }).describe('The place in line was given up.'),
  paused: z
    .object({ type: z.literal('paused') })
    .describe('The sale is paused. The place in line is kept. Only waiting users get this frame.'),
  resumed: z.object({ type: z.literal('resumed') }).describe('The sale continues. Only waiting users get this frame.'),
  heartbeat: z
    .object({ type: z.literal('heartbeat') })
    .describe('No other frame was sent for 5 s. Only clients that asked for it in `subscribe` get this frame.'),
  pong: z.object({ type: z.literal('pong') }).describe('The response to `ping`.'),
  reconnect: z
    .object({ type: z.literal('reconnect'), after_ms: z.int().min(0) })
    .describe('This process stops. Connect again after `after_ms`. The server then closes the connection.'),
  error: z
    .object({ type: z.literal('error'), code: z.string() })
    .describe('A frame of the client was rejected. The connection stays open.'),
} as const;
type Described = { [Type in keyof typeof SERVER_FRAMES]: z.infer<(typeof SERVER_FRAMES)[Type]> };
/** `standingData` makes the fields of `welcome`, as it makes those of queue-status. */
export type ServerFrame = Exclude<Described[keyof Described], { type: 'welcome' }> | WelcomeFrame;
type WelcomeFrame = { type: 'welcome' } & Record<string, unknown>;

/** The fields that every frame of the server has in addition. */
export const FRAME_ENVELOPE = {
  seq: z.int().min(1).describe('counts the frames of this socket'),
  time: z.iso.datetime(),
} as const;

/** The WebSocket close codes that the server sends. */
export const CLOSE_CODES = {
  goingAway: 1001,
  policyViolation: 1008,
  tooBig: 1009,
  tryAgainLater: 1013,
  ticketInvalid: 4401,
  notSubscribedInTime: 4408,
  tooMany: 4429,
} as const;

export const CLOSE_MEANINGS: { readonly [Name in keyof typeof CLOSE_CODES]: string } = {
  goingAway: 'the process stops; connect again',
  policyViolation: 'a frame was not JSON text',
  tooBig: 'a frame was too large',
  tryAgainLater: 'no capacity, or a datastore is away; connect again later',
  ticketInvalid: 'the ticket is not valid; do not connect with it again',
  notSubscribedInTime: 'no ticket was sent within 5 s',
  tooMany: 'too many frames, or too many sockets of one ticket',
};
