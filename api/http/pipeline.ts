import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';
import { NetworkConnections } from './held-connections.js';

type Waiting = { request: IncomingMessage; serve: () => void };

/**
 * Requests of one connection that are being served or wait. `afterwards`: called when they are finished, before an
 * upgrade. `idleSince`: when the last response was written (monotonic, ms); null = the connection is a WebSocket.
 * `network`: null = the connection is always read. `sentSeveral`: more than one request was on its way when the
 * connection was read last, or it is expected; `everSeveral`: that was so once.
 */
type Pipeline = {
  inFlight: number;
  waiting: Waiting[];
  afterwards: (() => void) | null;
  idleSince: number | null;
  network: NetworkConnections | null;
  isHeld: boolean;
  sentSeveral: boolean;
  everSeveral: boolean;
};

/** Requests that are read in each turn of a network of which none waits for a turn. */
const LEAST_READ = 4;
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
  /** The network of a connection; null = it is shared by several clients and always read. */
  networkOf: (socket: Socket) => string | null;
  /** Number of requests of a network that wait for a turn. */
  waitingOf: (network: string) => number;
  /** Number of requests of a network that are read before its other connections are held; may be infinite. */
  read: () => number;
};

/**
 * Serves pipelined requests a few at a time. Node parses a whole chunk at once and would start all of its requests; a
 * client that never reads would then hold every response in memory. While requests wait, the connection is paused, so
 * that at most one chunk of 64 KiB waits. The server's `timeout` closes a connection whose client does not read.
 *
 * Connections of a network that has requests enough are not read at all until it is their turn.
 */
export class Pipelines {
  #waiting = 0;
  readonly #networks = new Map<string, NetworkConnections>();
  /** Networks with connections that are held. */
  readonly #holding = new Set<NetworkConnections>();

  constructor(
    server: Server,
    readonly limits: PipelineLimits,
  ) {
    server.on('connection', (socket: Pipelined) => this.#begin(socket));
  }

  #begin(socket: Pipelined): void {
    const name = this.limits.networkOf(socket);
    const network = name === null ? null : this.#networkOf(name);
    const pipeline: Pipeline = {
      inFlight: 0,
      waiting: [],
      afterwards: null,
      idleSince: performance.now(),
      network,
      isHeld: false,
      sentSeveral: false,
      everSeveral: false,
    };
    socket[PIPELINE] = pipeline;
    // Node itself resumes the connection after it has read a body or written a response.
    socket.on('resume', () => {
      if (pipeline.waiting.length > 0 || pipeline.isHeld) stopReading(socket);
    });
    socket.on('close', () => this.#end(socket, pipeline));
    this.#readInTurn(socket, pipeline);
  }

  #end(socket: Socket, pipeline: Pipeline): void {
    const { waiting, network } = pipeline;
    this.#waiting -= waiting.length;
    if (network !== null) {
      network.waiting -= waiting.length;
      network.remove(socket);
      network.open -= 1;
      if (network.open === 0) this.#networks.delete(network.name);
    }
    pipeline.waiting = [];
  }

  #networkOf(name: string): NetworkConnections {
    const network = this.#networks.get(name) ?? new NetworkConnections(name);
    this.#networks.set(name, network);
    network.open += 1;
    return network;
  }

  /** Number of requests of a network that may be read. */
  #room(network: NetworkConnections): number {
    const inLine = this.limits.waitingOf(network.name);
    const room = this.limits.read() - inLine - network.waiting;
    // Requests behind one that takes long do not keep the other connections of their network from being read.
    return inLine > 0 ? room : Math.max(room, LEAST_READ);
  }

  /** Holds the connection while its network has no room, behind those that are held. */
  #readInTurn(socket: Socket, pipeline: Pipeline): void {
    const { network } = pipeline;
    if (network === null || pipeline.isHeld || pipeline.afterwards || socket.destroyed) return;
    if (network.held > 0 || this.#room(network) <= 0) this.#hold(socket, pipeline, network);
    else this.#keepIdle(socket, pipeline, network);
  }

  #hold(socket: Socket, pipeline: Pipeline, network: NetworkConnections): void {
    pipeline.isHeld = true;
    network.hold(socket, pipeline.sentSeveral);
    stopReading(socket);
    this.#holding.add(network);
  }

  #keepIdle(socket: Socket, { inFlight, everSeveral }: Pipeline, { idle }: NetworkConnections): void {
    if (inFlight === 0 && everSeveral) idle.add(socket);
  }

  /**
   * Holds idle connections of a network that has no room, because they may all send several requests at once. Browsers
   * send one at a time: their idle connections are read, so that shoppers behind the address of a flood hardly wait.
   */
  #holdIdle(network: NetworkConnections): void {
    if (network.idle.size === 0 || this.#room(network) > 0) return;
    for (const socket of network.idle) {
      const pipeline = (socket as Pipelined)[PIPELINE] as Pipeline;
      pipeline.sentSeveral = true;
      this.#hold(socket, pipeline, network);
    }
    network.idle.clear();
  }

  /**
   * Reads connections that are held, as many as there is room for. Must be called in each turn.
   * @returns whether others are still held
   */
  readHeld(): boolean {
    for (const network of this.#holding) {
      for (let room = this.#room(network); room > 0 && network.held > 0; ) room -= this.#read(network.next() as Socket);
      if (network.held === 0) this.#holding.delete(network);
    }
    return this.#holding.size > 0;
  }

  /** @returns the number of requests that are expected */
  #read(socket: Pipelined): number {
    const pipeline = socket[PIPELINE] as Pipeline;
    const expected = pipeline.sentSeveral ? this.limits.inFlight : 1;
    pipeline.isHeld = false;
    pipeline.sentSeveral = false;
    if (pipeline.network) this.#keepIdle(socket, pipeline, pipeline.network);
    socket.resume();
    return expected;
  }

  /** Serves the request now, or when earlier requests of its connection are finished. */
  take(request: IncomingMessage, serve: () => void): void {
    const socket: Pipelined = request.socket;
    const pipeline = socket[PIPELINE] as Pipeline;
    const { network } = pipeline;
    const { inFlight, waiting, isBusy } = this.limits;
    if (pipeline.inFlight > 0) pipeline.everSeveral = true;
    if (pipeline.everSeveral) network?.idle.delete(socket);
    if (pipeline.inFlight === 0 || (pipeline.inFlight < inFlight && pipeline.waiting.length === 0 && !isBusy())) {
      pipeline.inFlight += 1;
      serve();
    } else if (this.#waiting >= waiting && pipeline.waiting.length >= inFlight) {
      socket.destroy();
    } else {
      this.#waiting += 1;
      if (network) network.waiting += 1;
      pipeline.waiting.push({ request, serve });
      pipeline.sentSeveral = true;
      stopReading(socket);
    }
    if (network) this.#holdIdle(network);
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
      if (pipeline.afterwards) pipeline.afterwards();
      else this.#readInTurn(socket, pipeline);
      return;
    }
    this.#waiting -= 1;
    if (pipeline.network) pipeline.network.waiting -= 1;
    if (pipeline.waiting.length === 0) {
      // The rest of its body must be read.
      if (next.request.complete) this.#readInTurn(socket, pipeline);
      if (!pipeline.isHeld) socket.resume();
    }
    next.serve();
  }
}

/**
 * Node stops reading when it hears `pause`, which a stream emits only if it flows. A `resume` of the same tick that
 * came before lets Node read although the stream does not flow.
 */
function stopReading(socket: Socket): void {
  if (socket.isPaused()) socket.emit('pause');
  else socket.pause();
}

/**
 * Calls back when all requests of a connection have their responses, so that an upgrade does not overtake them.
 * @param socket of a server with `Pipelines`
 */
export function afterResponses(socket: Pipelined, then: () => void): void {
  const pipeline = socket[PIPELINE];
  const upgrade = () => {
    if (pipeline) pipeline.idleSince = null;
    pipeline?.network?.idle.delete(socket);
    // The stream waits for what it has asked for, although Node stopped reading: without this it would ask no more.
    if (pipeline?.afterwards) socket.push('');
    then();
  };
  if (pipeline && pipeline.inFlight > 0) pipeline.afterwards = upgrade;
  else upgrade();
}

/** Since when a connection has no request in service (monotonic, ms); null = it has one, is held, or is a WebSocket. */
export function idleSince(socket: Pipelined): number | null {
  const pipeline = socket[PIPELINE];
  return pipeline === undefined || pipeline.inFlight > 0 || pipeline.isHeld ? null : pipeline.idleSince;
}
