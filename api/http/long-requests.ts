import type { Socket } from 'node:net';
import type { Request, Response } from 'express';
import { LIMITS } from '../../shared/config/limits.js';

/** Connections whose current request may exceed `requestTimeoutMs`. */
const longRequests = new WeakSet<Socket>();

/**
 * Exempts a request and its response from the request timeout. The connection closes if no byte moves in either
 * direction for `idleMs`.
 */
export function allowLongRequest(req: Request, res: Response, idleMs: number): void {
  const { socket } = req;
  longRequests.add(socket);
  socket.setTimeout(idleMs);
  res.once('close', () => {
    longRequests.delete(socket);
    socket.setTimeout(LIMITS.http.idleTimeoutMs);
  });
}

export function isLongRequest(socket: Socket): boolean {
  return longRequests.has(socket);
}
