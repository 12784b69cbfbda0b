import { WebSocket } from 'ws';
import type { Caller } from './caller.js';

/** A socket is followed for at most so long, then the shopper asks again. */
const FOLLOW_MS = 6_000;

export type Followed = { over: boolean; reservation: string | null; payBefore: string | null };
type Who = { product: string; user: string; ticket: string };

/** Follows a place through a WebSocket. @returns what the frames say, null when they do not decide anything */
export function follow(caller: Caller, who: Who, until: number): Promise<Followed | null> {
  const { http, apis, closing } = caller.stage;
  const api = caller.random.pick(apis);
  const name = `${who.user}/${caller.random.text(4)}`;
  const process = http.cluster.node(api).process;
  const byMessage = caller.random.chance(0.5);
  const url = `${http.cluster.urlOf(api).replace('http', 'ws')}/flash-sale/ws`;
  const socket = new WebSocket(byMessage ? url : `${url}?ticket=${encodeURIComponent(who.ticket)}`);
  return new Promise((resolve) => {
    const timer = setTimeout(() => finish(null), Math.max(0, Math.min(FOLLOW_MS, until - performance.now())));
    const finish = (followed: Followed | null) => {
      clearTimeout(timer);
      closing.removeEventListener('abort', onEnd);
      socket.close();
      setTimeout(() => socket.terminate(), 1_000).unref();
      resolve(followed);
    };
    const onEnd = () => finish(null);
    closing.addEventListener('abort', onEnd);
    socket.on('open', () => {
      if (byMessage) socket.send(JSON.stringify({ type: 'subscribe', ticket: who.ticket }));
    });
    socket.on('message', (data) => {
      const text = String(data);
      http.history.frame({ socket: name, process, product: who.product, user: who.user, text });
      const followed = read(text);
      if (followed) finish(followed);
    });
    socket.on('error', () => finish(null));
    socket.on('close', () => finish(null));
  });
}

function read(text: string): Followed | null {
  let frame: Record<string, unknown>;
  try {
    frame = JSON.parse(text) as Record<string, unknown>;
  } catch {
    return null;
  }
  const state = frame.type === 'welcome' ? frame.status : frame.type;
  const payBefore = typeof frame.pay_before === 'string' ? frame.pay_before : null;
  if (state === 'promoted' || state === 'completed')
    return { over: false, reservation: String(frame.reservation_id), payBefore };
  const over = ['redeemed', 'released', 'expired', 'left', 'closed', 'not_queued'].includes(String(state));
  return over ? { over, reservation: null, payBefore: null } : null;
}
