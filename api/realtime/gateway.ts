import { randomInt } from 'node:crypto';
import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Request } from 'express';
import { type RawData, type WebSocket, WebSocketServer } from 'ws';
import type { ApiRole } from '../../shared/config/environment.js';
import { LIMITS } from '../../shared/config/limits.js';
import { clientFrame } from '../../shared/contracts/frames.js';
import { standingData } from '../../shared/contracts/standing.js';
import { estimatedWaitSeconds } from '../../shared/domain/estimate.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';
import type { CampaignDirectory } from '../../shared/sale/campaign-directory.js';
import type { SalesOf } from '../../shared/sale/sales.js';
import { standingOfPresent } from '../../shared/sale/standing-of-present.js';
import type { Acknowledgements } from '../claim/acknowledgement.js';
import type { CodeTexts } from '../claim/code-texts.js';
import { checkoutUrlField, type PayLinks } from '../claim/pay-links.js';
import { isFor, type Ticket, type Tickets } from '../guards/auth/ticket.js';
import { networkOf, wideNetwork } from '../guards/caller/address.js';
import type { Degradation } from '../guards/limits/degradation.js';
import type { LocalQuota } from '../guards/limits/local-quota.js';
import type { OpenCounts } from '../guards/limits/open-counts.js';
import { rateLimited } from '../guards/limits/quotas.js';
import type { Cors } from '../http/cors.js';
import { afterResponses } from '../http/pipeline.js';
import { wrongRole } from '../http/process-role.js';
import { respondRaw } from '../http/raw-response.js';
import { RequestScheduler } from '../http/request-scheduler.js';
import { requestIdOf } from '../http/respond.js';
import { wrongMethod, wrongTarget } from '../http/wrong-request.js';
import type { CampaignLine } from './campaign-channel.js';
import { Connection } from './connection.js';
import type { LeaveElsewhere, LeftElsewhere } from './leave-elsewhere.js';
import { PositionBroadcaster } from './position-broadcaster.js';
import { type SubscriberShards, Subscriptions } from './subscriptions.js';

export const SOCKET_PATH = '/flash-sale/ws';
/** Time over which the clients of a stopping process spread their reconnects. */
const RECONNECT_SPREAD_MS = 5_000;

const LEAVE_EVERY_MS = 1_000;

export type GatewayDeps = {
  sales: SalesOf;
  directory: CampaignDirectory;
  acknowledgements: Acknowledgements;
  codeTexts: CodeTexts;
  payLinks: PayLinks;
  clock: RedisClock;
  tickets: Tickets;
  /** By network: sockets opened per minute, and frames of all its sockets per ten seconds. */
  socketQuota: LocalQuota;
  frameQuota: LocalQuota;
  socketsOpen: OpenCounts;
  shards: SubscriberShards;
  cors: Cors;
  degradation: Pick<Degradation, 'isOff'>;
  role: ApiRole;
  /** Lets users leave the line by the processes that write; null = this one does. */
  elsewhere: Pick<LeaveElsewhere, 'leave'> | null;
  metrics: Metrics;
  log: Log;
};

/**
 * Serves the sockets of shoppers. A socket belongs to a ticket. Notifications about its campaign arrive by pub/sub, and
 * positions are read in bulk once a second. After a reconnect, `welcome` contains everything that a client has missed.
 */
export class Gateway {
  readonly #server = new WebSocketServer({
    noServer: true,
    maxPayload: LIMITS.sockets.payloadBytes,
    perMessageDeflate: false,
  });
  readonly #connections = new Set<Connection>();
  readonly #subscriptions: Subscriptions;
  readonly #broadcaster: PositionBroadcaster;
  /** Spreads upgrades over turns of the event loop, because after a network outage all clients reconnect at once. */
  readonly #scheduler = new RequestScheduler(LIMITS.http.requestsPerTurn, wideNetwork);
  /** They run while there are connections. */
  #timers: NodeJS.Timeout[] = [];
  #draining = false;
  #accepted = 0;

  constructor(readonly deps: GatewayDeps) {
    const { acknowledgements } = deps;
    const hold = ({ product, bucket }: CampaignLine, durable: boolean) =>
      durable || !acknowledgements.isImmediate
        ? acknowledgements.held(product, { durable, journalId: '' }, bucket)
        : null;
    this.#subscriptions = new Subscriptions(
      deps.shards,
      hold,
      (error) => deps.log.warn({ err: error }, 'subscription to a campaign failed'),
      deps.payLinks,
    );
    this.#broadcaster = new PositionBroadcaster(deps.sales, this.#subscriptions, () =>
      deps.degradation.isOff('positions'),
    );
  }

  attach(http: Server): void {
    // The library emits this for an invalid upgrade.
    this.#server.on('wsClientError', (error: Error, socket: Duplex, req: IncomingMessage) =>
      respondRaw(
        socket,
        new Problem('invalid_request', `The WebSocket upgrade is not valid: ${error.message}.`),
        requestIdOf(req),
      ),
    );
    const upgrade = (req: IncomingMessage, socket: Duplex, head: Buffer) => {
      const url = URL.canParse(req.url ?? '', 'http://localhost') ? new URL(req.url ?? '', 'http://localhost') : null;
      // Upgrade requests are instances of the app's request class, so `networkOf` works for them too.
      const network = networkOf(req as Request);
      const refusal =
        wrongTarget(req as Request) ??
        refusalOf(req, url?.pathname) ??
        (this.deps.role === 'write' ? wrongRole('read') : null) ??
        this.deps.cors.refusalOfSocket(req) ??
        this.#tooMany(network);
      if (refusal || !url) {
        respondRaw(socket, refusal ?? new Problem('not_found', 'No resource exists at this path.'), requestIdOf(req));
        return;
      }
      const accept = (ws: WebSocket) => this.#accept(ws, url.searchParams.get('ticket'), network);
      this.#scheduler.take(
        (done) => {
          this.#server.handleUpgrade(req, socket, head, accept);
          done?.();
        },
        () => network,
      );
    };
    http.on('upgrade', (req: IncomingMessage, socket: Socket, head: Buffer) => {
      socket.on('error', () => socket.destroy());
      afterResponses(socket, () => upgrade(req, socket, head));
    });
  }

  #startTimers(): void {
    const send = () => {
      this.#broadcaster
        .broadcastNext()
        .catch((error: unknown) => this.deps.log.warn({ err: error }, 'positions could not be sent'));
    };
    this.#timers = [
      setInterval(send, LIMITS.sockets.positionEveryMs / LIMITS.sockets.positionTurns),
      setInterval(() => this.#ping(), LIMITS.sockets.tickMs),
    ];
    for (const timer of this.#timers) timer.unref();
  }

  #stopTimers(): void {
    for (const timer of this.#timers) clearInterval(timer);
    this.#timers = [];
  }

  /** Asks all clients to reconnect to another process, spread over time. */
  drain(): void {
    this.#draining = true;
    this.#stopTimers();
    for (const connection of this.#connections) {
      connection.send({ type: 'reconnect', after_ms: randomInt(RECONNECT_SPREAD_MS) });
      connection.close('goingAway', 'restarting');
    }
  }

  /** Terminates the remaining connections. */
  terminate(): void {
    for (const connection of this.#connections) connection.socket.terminate();
    this.#server.close();
  }

  #tooMany(network: string): Problem | null {
    const { socketQuota, metrics } = this.deps;
    const waitMs = socketQuota.take(network);
    if (waitMs === 0) return null;
    metrics.limited.inc({ policy: 'sockets' });
    return rateLimited('sockets', socketQuota.limit, socketQuota.windowMs / 1000, waitMs);
  }

  #accept(socket: WebSocket, ticket: string | null, network: string): void {
    const onSent = (type: string) => this.deps.metrics.socketFrames.inc({ type });
    this.#accepted += 1;
    const connection = new Connection(socket, this.deps.clock, onSent, this.#accepted % LIMITS.sockets.positionTurns);
    const { socketsOpen } = this.deps;
    if (this.#draining || this.#connections.size >= LIMITS.sockets.perProcess || !socketsOpen.open(network)) {
      connection.close('tryAgainLater', 'too many sockets');
      return;
    }
    this.#connections.add(connection);
    if (this.#connections.size === 1) this.#startTimers();
    this.deps.metrics.sockets.set(this.#connections.size);
    const late = setTimeout(() => {
      if (connection.user === null) connection.close('notSubscribedInTime', 'no ticket was sent');
    }, LIMITS.sockets.subscribeMs);
    socket.on('message', (data, isBinary) => {
      connection.markActive(performance.now());
      if (this.#admitFrame(connection, network)) this.#onMessage(connection, data, isBinary);
    });
    // Control frames count as well: they cost as much as others, and a client decides how many it sends.
    socket.on('ping', () => this.#admitFrame(connection, network));
    socket.on('pong', () => {
      connection.markActive(performance.now());
      this.#admitFrame(connection, network);
    });
    socket.on('error', () => socket.terminate());
    socket.on('close', () => {
      clearTimeout(late);
      socketsOpen.close(network);
      this.#forget(connection);
    });
    if (ticket !== null) this.#subscribe(connection, ticket);
  }

  #admitFrame(connection: Connection, network: string): boolean {
    const { frameQuota, metrics } = this.deps;
    if (connection.admitFrame(performance.now()) && frameQuota.take(network) === 0) return true;
    metrics.limited.inc({ policy: 'frames' });
    connection.cutOff('tooMany', 'too many frames');
    return false;
  }

  #onMessage(connection: Connection, data: RawData, isBinary: boolean): void {
    if (isBinary) return connection.close('policyViolation', 'frames are JSON text');
    let frame: ReturnType<typeof clientFrame.safeParse>;
    try {
      frame = clientFrame.safeParse(JSON.parse(String(data)));
    } catch {
      return connection.send({ type: 'error', code: 'invalid_frame' });
    }
    if (!frame.success) return connection.send({ type: 'error', code: 'invalid_frame' });
    switch (frame.data.type) {
      case 'ping':
        return connection.send({ type: 'pong' });
      case 'subscribe':
        connection.heartbeats = frame.data.heartbeat === true;
        return this.#subscribe(connection, frame.data.ticket);
      case 'leave':
        this.#leave(connection);
    }
  }

  #subscribe(connection: Connection, text: string): void {
    if (connection.user !== null) return connection.send({ type: 'error', code: 'already_subscribed' });
    const ticket = this.deps.tickets.verify(text);
    if (!ticket) return connection.close('ticketInvalid', 'the ticket is not valid');
    connection.user = ticket.user;
    if (this.deps.elsewhere) connection.ticket = text;
    connection.reservation = ticket.reservation;
    this.#welcome(connection, ticket).catch((error: unknown) => {
      this.deps.log.warn({ err: error }, 'socket subscription failed');
      connection.send({ type: 'error', code: 'temporarily_unavailable' });
      connection.close('tryAgainLater', 'try again later');
    });
  }

  async #welcome(connection: Connection, ticket: Ticket): Promise<void> {
    const { campaignNo, user, reservation } = ticket;
    const product = await this.deps.directory.productOf(campaignNo);
    if (!product) return connection.close('ticketInvalid', 'the campaign does not exist');
    // Subscribes before it reads: the connection holds the frames that arise in between until `welcome` is sent.
    const line = { product, bucket: this.deps.sales.bucketOf(product, user) };
    if (!(await this.#subscriptions.add(connection, line, user, () => this.#connections.has(connection)))) return;
    const store = this.deps.sales.of(product, line.bucket);
    const standing = await standingOfPresent(store, product, user, reservation);
    if (standing.kind === 'not_found') return connection.close('ticketInvalid', 'the campaign does not exist');
    connection.presenceMs = standing.presenceMs;
    connection.durable = standing.durable;
    await this.#subscriptions.hold(line, standing.durable);
    if (standing.status === 'queued') {
      connection.waits(standing.position, standing.queueSize, estimatedWaitSeconds(standing.position, standing.paceMs));
    }
    const isHolder = isFor(ticket, standing.reservationId);
    const data = standingData(standing, isHolder);
    if (isHolder) Object.assign(data, checkoutUrlField(this.deps.payLinks.ofStanding(product, user, standing)));
    if (isHolder && standing.code !== null) data.code = await this.deps.codeTexts.textOf(campaignNo, standing.code);
    connection.welcome(data);
  }

  #leave(connection: Connection): void {
    const { line, user, reservation } = connection;
    if (!line || !user) return connection.send({ type: 'error', code: 'not_subscribed' });
    if (this.deps.elsewhere) return void this.#leaveElsewhere(connection, this.deps.elsewhere);
    const { product, bucket } = line;
    const left = this.deps.sales
      .of(product, bucket)
      .line.leave(product, user, reservation, '')
      .then(async (outcome) => {
        if (outcome.kind !== 'left') return connection.send({ type: 'error', code: 'not_waiting' });
        await this.deps.acknowledgements.held(product, outcome, bucket);
        connection.waitsNoMore();
        connection.send({ type: 'left' });
      });
    left.catch(() => connection.send({ type: 'error', code: 'temporarily_unavailable' }));
  }

  async #leaveElsewhere(connection: Connection, elsewhere: Pick<LeaveElsewhere, 'leave'>): Promise<void> {
    const { leaving } = connection;
    // One call at a time, and one a second, whatever the client sends: what was answered then is answered again.
    if (leaving === 'asked') return;
    if (leaving === null || performance.now() - leaving.atMs > LEAVE_EVERY_MS) {
      connection.leaving = 'asked';
      const outcome = await elsewhere.leave(connection.ticket);
      connection.leaving = { outcome, atMs: performance.now() };
      if (outcome === 'left') connection.waitsNoMore();
      return this.#answerLeave(connection, outcome);
    }
    this.#answerLeave(connection, leaving.outcome);
  }

  #answerLeave(connection: Connection, outcome: LeftElsewhere): void {
    if (outcome === 'left') return connection.send({ type: 'left' });
    connection.send({ type: 'error', code: outcome === 'away' ? 'temporarily_unavailable' : outcome });
  }

  #forget(connection: Connection): void {
    this.#connections.delete(connection);
    if (this.#connections.size === 0) this.#stopTimers();
    this.deps.metrics.sockets.set(this.#connections.size);
    this.#subscriptions.remove(connection);
  }

  /** Pings each socket as often as its campaign requires, terminates those that have not replied, sends heartbeats. */
  #ping(): void {
    const now = performance.now();
    for (const connection of this.#connections) {
      connection.ping(now, LIMITS.sockets.pingMs);
      connection.heartbeat(now, LIMITS.sockets.heartbeatMs);
    }
  }
}

/** Checks path and method of a WebSocket upgrade, before the library checks the rest; null = valid. */
function refusalOf(req: IncomingMessage, path: string | undefined): Problem | null {
  if (path !== SOCKET_PATH) return new Problem('not_found', 'No resource exists at this path.');
  return req.method === 'GET' ? null : wrongMethod(req, 'GET');
}
