import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Requests of one connection that are being served or wait. `idleSince`: when the last response was written (monotonic,
 * ms); null = the connection is a WebSocket.
 */
type Pipeline = {
  inFlight: number;
  waiting: (() => void)[];
  afterwards: (() => void) | null;
  idleSince: number | null;
};
const PIPELINE = Symbol('pipeline');
type Pipelined = Socket & { [PIPELINE]?: Pipeline };

export type PipelineLimits = {
  /** Maximum number of requests of one connection that are served concurrently. */
  inFlight: number;
  /**
   * Number of requests, over all connections, that wait for earlier ones of their connection. Beyond it, connections
   * with more waiting requests than `inFlight` are closed.
   */
  waiting: number;
  /** Whether requests wait for a turn: then only one request of each connection is served at a time. */
  isBusy: () => boolean;
};

/**
 * Serves pipelined requests a few at a time. Node parses a whole chunk at once and would start all of its requests; a
 * client that never reads would then hold every response in memory. While requests wait, the connection is paused, so
 * that at most one chunk of 64 KiB waits. The server's `timeout` closes a connection whose client does not read.
 */
export class Pipelines {
  #waiting = 0;

  constructor(
    server: Server,
    readonly limits: PipelineLimits,
  ) {
    server.on('connection', (socket: Pipelined) => {
      const pipeline: Pipeline = { inFlight: 0, waiting: [], afterwards: null, idleSince: performance.now() };
      socket[PIPELINE] = pipeline;
      // Node itself resumes the connection after it has read a body or written a response.
      socket.on('resume', () => {
        if (pipeline.waiting.length > 0) socket.pause();
      });
      socket.on('close', () => {
        this.#waiting -= pipeline.waiting.length;
        pipeline.waiting = [];
      });
    });
  }

  /** Serves the request now, or when earlier requests of its connection are finished. */
  take(socket: Pipelined, serve: () => void): void {
    const pipeline = socket[PIPELINE] as Pipeline;
    const { inFlight, waiting, isBusy } = this.limits;
    if (pipeline.inFlight === 0 || (pipeline.inFlight < inFlight && pipeline.waiting.length === 0 && !isBusy())) {
      pipeline.inFlight += 1;
      serve();
      return;
    }
    if (this.#waiting >= waiting && pipeline.waiting.length >= inFlight) {
      socket.destroy();
      return;
    }
    this.#waiting += 1;
    pipeline.waiting.push(serve);
    socket.pause();
  }

  /** Must be called when a response has been written; starts the next waiting request. */
  finished(socket: Pipelined): void {
    const pipeline = socket[PIPELINE] as Pipeline;
    const isOneOfSeveral = pipeline.inFlight > 1 && this.limits.isBusy();
    const next = isOneOfSeveral ? undefined : pipeline.waiting.shift();
    if (next === undefined) {
      pipeline.inFlight -= 1;
      if (pipeline.inFlight > 0) return;
      pipeline.idleSince = performance.now();
      pipeline.afterwards?.();
      return;
    }
    this.#waiting -= 1;
    if (pipeline.waiting.length === 0) socket.resume();
    next();
  }
}

/**
 * Calls back when all requests of a connection have their responses, so that an upgrade does not overtake them.
 * @param socket of a server with `Pipelines`
 */
export function afterResponses(socket: Pipelined, then: () => void): void {
  const pipeline = socket[PIPELINE];
  const upgrade = () => {
    if (pipeline) pipeline.idleSince = null;
    then();
  };
  if (pipeline && pipeline.inFlight > 0) pipeline.afterwards = upgrade;
  else upgrade();
}

/** Since when a connection has no request in service (monotonic, ms); null = it has one, or is a WebSocket. */
export function idleSince(socket: Pipelined): number | null {
  const pipeline = socket[PIPELINE];
  return pipeline === undefined || pipeline.inFlight > 0 ? null : pipeline.idleSince;
}
