import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/** What is served and what waits on one connection. */
type Pipeline = { inFlight: number; waiting: (() => void)[] };
const PIPELINE = Symbol('pipeline');
type Pipelined = Socket & { [PIPELINE]?: Pipeline };

export type PipelineLimits = {
  /** Requests of one connection that are served at once. */
  inFlight: number;
  /** Requests of all connections that wait for earlier ones of their connection. */
  waiting: number;
};

/**
 * Serves the requests that a client pipelines a few at a time. Node parses everything that arrives in one piece and would begin all of
 * it; a client that never reads then holds every response in memory. While requests wait the connection is not read, so at most
 * one piece of 64 KiB waits. A connection whose client does not read ends by the server's `timeout`.
 */
export class Pipelines {
  #waiting = 0;

  constructor(
    server: Server,
    readonly limits: PipelineLimits,
  ) {
    server.on('connection', (socket: Pipelined) => {
      const pipeline: Pipeline = { inFlight: 0, waiting: [] };
      socket[PIPELINE] = pipeline;
      // Node resumes the connection by itself, when a body is read or a response was taken.
      socket.on('resume', () => {
        if (pipeline.waiting.length > 0) socket.pause();
      });
      socket.on('close', () => {
        this.#waiting -= pipeline.waiting.length;
        pipeline.waiting = [];
      });
    });
  }

  /** Serves now, or when earlier requests of the connection are done. */
  take(socket: Pipelined, serve: () => void): void {
    const pipeline = socket[PIPELINE] as Pipeline;
    if (pipeline.inFlight < this.limits.inFlight) {
      pipeline.inFlight += 1;
      serve();
      return;
    }
    if (this.#waiting >= this.limits.waiting) {
      socket.destroy();
      return;
    }
    this.#waiting += 1;
    pipeline.waiting.push(serve);
    socket.pause();
  }

  /** A response of the connection was handed to the system. */
  finished(socket: Pipelined): void {
    const pipeline = socket[PIPELINE] as Pipeline;
    const next = pipeline.waiting.shift();
    if (next === undefined) {
      pipeline.inFlight -= 1;
      return;
    }
    this.#waiting -= 1;
    if (pipeline.waiting.length === 0) socket.resume();
    next();
  }
}
