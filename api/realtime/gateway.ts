import { randomInt } from 'node:crypto';
import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Request } from 'express';
import type { Redis } from 'ioredis';
import { type RawData, type WebSocket, WebSocketServer } from 'ws';
import { LIMITS } from '../../shared/config/limits.js';
import { clientFrame } from '../../shared/contracts/frames.js';
import { standingData } from '../../shared/contracts/standing.js';
import { estimatedWaitSeconds } from '../../shared/domain/estimate.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';
import type { CampaignDirectory } from '../../shared/sale/campaign-directory.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';
import { standingOfPresent } from '../../shared/sale/standing-of-present.js';
import type { Acknowledgement } from '../claim/acknowledgement.js';
import type { CodeTexts } from '../claim/code-texts.js';
import { isFor, type Ticket, type Tickets } from '../guards/auth/ticket.js';
import { networkOf } from '../guards/caller/address.js';
import type { LocalQuota } from '../guards/limits/local-quota.js';
import type { OpenCounts } from '../guards/limits/open-counts.js';
import { rateLimited } from '../guards/limits/quotas.js';
import type { Cors } from '../http/cors.js';
import { respondRaw } from '../http/raw-response.js';
import { RequestScheduler } from '../http/request-scheduler.js';
import { requestIdOf } from '../http/respond.js';
import { wrongTarget } from '../http/wrong-request.js';
import { Connection } from './connection.js';
import { PositionBroadcaster } from './position-broadcaster.js';
import { Subscriptions } from './subscriptions.js';

export const SOCKET_PATH = '/flash-sale/ws';
/** Over which clients of a process that stops spread their return. */
const RECONNECT_SPREAD_MS = 5_000;

export type GatewayDeps = {
  sale: SaleStore;
  directory: CampaignDirectory;
  acknowledgement: Acknowledgement;
  codeTexts: CodeTexts;
  clock: RedisClock;
  tickets: Tickets;
  /** By network: sockets opened in a minute, frames of all its sockets in ten seconds. */
  socketQuota: LocalQuota;
  frameQuota: LocalQuota;
  socketsOpen: OpenCounts;
  subscriber: Redis;
  cors: Cors;
  metrics: Metrics;
  log: Log;
};

/**
 * Sockets of shoppers. A socket belongs to a ticket; news of its campaign reaches this process over pub/sub, places are
 * read in bulk once a second, and whoever reconnects finds in `welcome` what he missed.
 */
export class Gateway {
  readonly #server = new WebSocketServer({
    noServer: true,
    maxPayload: LIMITS.socketPayloadBytes,
    perMessageDeflate: false,
  });
  readonly #sessions = new Set<Connection>();
  readonly #audience: Subscriptions;
  readonly #teller: PositionBroadcaster;
  /** When a network comes back, everybody is here at the same moment. */
  readonly #turns = new RequestScheduler(LIMITS.requestsPerTurn);
  #timers: NodeJS.Timeout[] = [];
  #draining = false;
  #accepted = 0;

  constructor(readonly deps: GatewayDeps) {
    const hold = (durable: boolean) =>
      durable || !deps.acknowledgement.isImmediate ? deps.acknowledgement.held({ durable, journalId: '' }) : null;
    this.#audience = new Subscriptions(deps.subscriber, hold, (error) =>
      deps.log.warn({ err: error }, 'a subscription failed'),
    );
    this.#teller = new PositionBroadcaster(deps.sale, this.#audience);
  }

  attach(http: Server): void {
    // What the library finds wrong with an offer.
    this.#server.on('wsClientError', (error: Error, socket: Duplex, req: IncomingMessage) =>
      respondRaw(
        socket,
        new Problem('invalid_request', `This is no offer of a WebSocket: ${error.message}.`),
        requestIdOf(req),
      ),
    );
    http.on('upgrade', (req: IncomingMessage, socket: Duplex, head: Buffer) => {
      socket.on('error', () => socket.destroy());
      const url = URL.canParse(req.url ?? '', 'http://localhost') ? new URL(req.url ?? '', 'http://localhost') : null;
      // The server makes upgrades from the app's own request class, so that the address is found as everywhere.
      const network = networkOf(req as Request);
      const refusal =
        wrongTarget(req as Request) ??
        refusalOf(req, url?.pathname) ??
        this.deps.cors.refusalOfSocket(req) ??
        this.#tooMany(network);
      if (refusal || !url) {
        respondRaw(socket, refusal ?? new Problem('not_found', 'There is nothing at this path.'), requestIdOf(req));
        return;
      }
      const accept = (ws: WebSocket) => this.#accept(ws, url.searchParams.get('ticket'), network);
      this.#turns.take(() => this.#server.handleUpgrade(req, socket, head, accept));
    });
    const guarded = (work: () => Promise<void> | void) => () => {
      Promise.resolve(work()).catch((error: unknown) => this.deps.log.warn({ err: error }, 'places could not be told'));
    };
    this.#timers = [
      setInterval(
        guarded(() => this.#teller.tellNext()),
        LIMITS.positionEveryMs / LIMITS.positionTurns,
      ),
      setInterval(
        guarded(() => this.#ping()),
        LIMITS.socketTickMs,
      ),
    ];
    for (const timer of this.#timers) timer.unref();
  }

  /** Sends everybody elsewhere, spread over time. */
  drain(): void {
    this.#draining = true;
    for (const timer of this.#timers) clearInterval(timer);
    for (const session of this.#sessions) {
      session.send({ type: 'reconnect', after_ms: randomInt(RECONNECT_SPREAD_MS) });
      session.close('goingAway', 'restarting');
    }
  }

  /** Cuts off whoever has not gone. */
  terminate(): void {
    for (const session of this.#sessions) session.socket.terminate();
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
    const session = new Connection(socket, this.deps.clock, onSent, this.#accepted % LIMITS.positionTurns);
    const { socketsOpen } = this.deps;
    if (this.#draining || this.#sessions.size >= LIMITS.socketsPerProcess || !socketsOpen.open(network)) {
      session.close('tryAgainLater', 'too many sockets');
      return;
    }
    this.#sessions.add(session);
    this.deps.metrics.sockets.set(this.#sessions.size);
    const late = setTimeout(() => {
      if (session.user === null) session.close('notSubscribedInTime', 'no ticket was sent');
    }, LIMITS.socketSubscribeMs);
    socket.on('message', (data, isBinary) => {
      session.heard(performance.now());
      if (this.#admitFrame(session, network)) this.#onMessage(session, data, isBinary);
    });
    // Control frames cost as much as others, and a client chooses how many it sends.
    socket.on('ping', () => this.#admitFrame(session, network));
    socket.on('pong', () => {
      session.heard(performance.now());
      this.#admitFrame(session, network);
    });
    socket.on('error', () => socket.terminate());
    socket.on('close', () => {
      clearTimeout(late);
      socketsOpen.close(network);
      this.#forget(session);
    });
    if (ticket !== null) this.#subscribe(session, ticket);
  }

  #admitFrame(session: Connection, network: string): boolean {
    const { frameQuota, metrics } = this.deps;
    if (session.admitFrame(performance.now()) && frameQuota.take(network) === 0) return true;
    metrics.limited.inc({ policy: 'frames' });
    session.cutOff('tooMany', 'too many frames');
    return false;
  }

  #onMessage(session: Connection, data: RawData, isBinary: boolean): void {
    if (isBinary) return session.close('policyViolation', 'frames are JSON text');
    let frame: ReturnType<typeof clientFrame.safeParse>;
    try {
      frame = clientFrame.safeParse(JSON.parse(String(data)));
    } catch {
      return session.send({ type: 'error', code: 'invalid_frame' });
    }
    if (!frame.success) return session.send({ type: 'error', code: 'invalid_frame' });
    switch (frame.data.type) {
      case 'ping':
        return session.send({ type: 'pong' });
      case 'subscribe':
        return this.#subscribe(session, frame.data.ticket);
      case 'leave':
        this.#leave(session);
    }
  }

  #subscribe(session: Connection, text: string): void {
    if (session.user !== null) return session.send({ type: 'error', code: 'already_subscribed' });
    const ticket = this.deps.tickets.verify(text);
    if (!ticket) return session.close('ticketInvalid', 'the ticket is not ours');
    session.user = ticket.user;
    session.reservation = ticket.reservation;
    this.#welcome(session, ticket).catch((error: unknown) => {
      this.deps.log.warn({ err: error }, 'a socket could not be welcomed');
      session.send({ type: 'error', code: 'temporarily_unavailable' });
      session.close('tryAgainLater', 'please come back');
    });
  }

  async #welcome(session: Connection, ticket: Ticket): Promise<void> {
    const { campaignNo, user, reservation } = ticket;
    const product = await this.deps.directory.productOf(campaignNo);
    if (!product) return session.close('ticketInvalid', 'the campaign is gone');
    // Follow first, read second: what happens in between is held back by the session until it was welcomed.
    if (!(await this.#audience.add(session, product, user, () => this.#sessions.has(session)))) return;
    const standing = await standingOfPresent(this.deps.sale, product, user, reservation);
    if (standing.kind === 'not_found') return session.close('ticketInvalid', 'the campaign is gone');
    session.presenceMs = standing.presenceMs;
    session.durable = standing.durable;
    await this.#audience.hold(standing.durable);
    if (standing.status === 'queued') {
      session.waits(standing.position, standing.queueSize, estimatedWaitSeconds(standing.position, standing.paceMs));
    }
    const isHolder = isFor(ticket, standing.reservationId);
    const data = standingData(standing, isHolder);
    if (isHolder && standing.code !== null) data.code = await this.deps.codeTexts.textOf(campaignNo, standing.code);
    session.welcome(data);
  }

  #leave(session: Connection): void {
    const { product, user, reservation } = session;
    if (!product || !user) return session.send({ type: 'error', code: 'not_subscribed' });
    const left = this.deps.sale.line.leave(product, user, reservation, '').then(async (outcome) => {
      if (outcome.kind !== 'left') return session.send({ type: 'error', code: 'not_waiting' });
      await this.deps.acknowledgement.held(outcome);
      session.waitsNoMore();
      session.send({ type: 'left' });
    });
    left.catch(() => session.send({ type: 'error', code: 'temporarily_unavailable' }));
  }

  #forget(session: Connection): void {
    this.#sessions.delete(session);
    this.deps.metrics.sockets.set(this.#sessions.size);
    this.#audience.remove(session);
  }

  /** Asks who is there, of each socket as often as its campaign wants to know, and cuts off who has not answered. */
  #ping(): void {
    const now = performance.now();
    for (const session of this.#sessions) session.ping(now, LIMITS.socketPingMs);
  }
}

/** What is wrong with an offer of a WebSocket, before the library looks at its details. */
function refusalOf(req: IncomingMessage, path: string | undefined): Problem | null {
  if (path !== SOCKET_PATH) return new Problem('not_found', 'There is nothing at this path.');
  if (req.method === 'GET') return null;
  return new Problem('method_not_allowed', `${req.method} is not possible here.`, { headers: { Allow: 'GET' } });
}
