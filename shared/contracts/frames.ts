import { z } from 'zod';
import { standingFields } from './standing.js';

/** Frames that a client may send on /flash-sale/ws. */
export const CLIENT_FRAMES = {
  subscribe: z
    .object({ type: z.literal('subscribe'), ticket: z.string().max(1024) })
    .describe('The first frame, within 5 s, when the ticket was not in the query.'),
  ping: z.object({ type: z.literal('ping') }).describe('Answered with `pong`, wherever the connection still is one.'),
  leave: z.object({ type: z.literal('leave') }).describe('Gives up the place in line; answered with `left`.'),
} as const;
export const clientFrame = z.discriminatedUnion('type', [
  CLIENT_FRAMES.subscribe,
  CLIENT_FRAMES.ping,
  CLIENT_FRAMES.leave,
]);

const ids = { reservation_id: z.string(), order_id: z.string() };

/** What the server sends; each frame also has `seq`, counting from 1 on its socket, and `time`. */
export const SERVER_FRAMES = {
  welcome: z
    .object({ type: z.literal('welcome'), ...standingFields })
    .describe('Comes first, with the fields of queue-status: after a reconnect it has what was missed.'),
  position: z
    .object({
      type: z.literal('position'),
      position: z.int().min(1),
      queue_size: z.int().min(0),
      estimated_wait_seconds: z.int().nullable().describe('null = unknown'),
    })
    .describe('The place in line has changed. At most one a second.'),
  promoted: z
    .object({ type: z.literal('promoted'), ...ids, pay_before: z.iso.datetime().nullable() })
    .describe('The user has a unit; to be paid before `pay_before` (null = nothing is to be paid).'),
  redeemed: z.object({ type: z.literal('redeemed'), ...ids }).describe('The reservation was paid.'),
  released: z.object({ type: z.literal('released'), ...ids }).describe('The reservation was given up or taken back.'),
  expired: z.object({ type: z.literal('expired'), ...ids }).describe('The reservation was not paid in time.'),
  closed: z.object({ type: z.literal('closed') }).describe('The line is closed; no user waits any more.'),
  left: z.object({ type: z.literal('left') }).describe('The place in line was given up.'),
  pong: z.object({ type: z.literal('pong') }).describe('The answer to `ping`.'),
  reconnect: z
    .object({ type: z.literal('reconnect'), after_ms: z.int().min(0) })
    .describe('This process stops; come back after so long. The close follows.'),
  error: z
    .object({ type: z.literal('error'), code: z.string() })
    .describe('A frame of the client was not taken; the connection stays.'),
} as const;
type Described = { [Type in keyof typeof SERVER_FRAMES]: z.infer<(typeof SERVER_FRAMES)[Type]> };
/** The fields of `welcome` are made by `standingData`, as those of queue-status are. */
export type ServerFrame = Exclude<Described[keyof Described], { type: 'welcome' }> | WelcomeFrame;
type WelcomeFrame = { type: 'welcome' } & Record<string, unknown>;

/** What every frame of the server has besides. */
export const FRAME_ENVELOPE = {
  seq: z.int().min(1).describe('counts the frames of this socket'),
  time: z.iso.datetime(),
} as const;

/** WebSocket close codes of ours and what they mean. */
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
  goingAway: 'the process stops; come back',
  policyViolation: 'a frame was not JSON text',
  tooBig: 'a frame was too big',
  tryAgainLater: 'no room, or an engine is away; come back later',
  ticketInvalid: 'the ticket is not taken; coming back with it is of no use',
  notSubscribedInTime: 'no ticket came within 5 s',
  tooMany: 'too many frames, or too many sockets of one ticket',
};
