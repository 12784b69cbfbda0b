import type { Socket } from 'node:net';
import type { Request, Response } from 'express';
import { LIMITS } from '../../shared/config/limits.js';

/** Connections whose request may take longer than others may (`requestTimeoutMs`). */
const longRequests = new WeakSet<Socket>();

/**
 * Lets a request or its answer take as long as it likes, as long as something moves: with nothing sent or taken for
 * `idleMs` the connection is closed.
 */
export function allowLongRequest(req: Request, res: Response, idleMs: number): void {
  const { socket } = req;
  longRequests.add(socket);
  socket.setTimeout(idleMs);
  res.once('close', () => {
    longRequests.delete(socket);
    socket.setTimeout(LIMITS.idleTimeoutMs);
  });
}

export function isLongRequest(socket: Socket): boolean {
  return longRequests.has(socket);
}
