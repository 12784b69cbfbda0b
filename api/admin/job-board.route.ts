import type { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import type { Request, Response } from 'express';
import { z } from 'zod';
import { wordsOf } from '../../shared/contracts/jobs.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { JobQueues, OneQueue } from '../../shared/queues/queues.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { type Call, defineRoute } from '../http/define-route.js';
import type { Route, RouteContract } from '../http/route.js';
import { PAGE_HEADERS } from '../http/security-headers.js';

const PATH = '/admin/queues';
type Board = (req: Request, res: Response, next: (error?: unknown) => void) => void;

/**
 * /admin/queues: a read-only dashboard of BullMQ's queues and jobs. A writable one would also offer to pause and empty
 * a queue, without an audit entry. Delayed jobs are retried by POST /admin/jobs/:queue/retry (queue.route.ts).
 */
export function jobBoardRoutes(queues: JobQueues, apiKeys: ApiKeys): Route[] {
  // Loaded with the first request: each start would take a fifth of a second of CPU time for it.
  let board: Promise<Board> | null = null;
  const handle = async (call: Call): Promise<void> => {
    const { req, res } = call;
    if (!mayRead(req, apiKeys)) {
      const fields = ['Location', '/admin?then=queues', 'Cache-Control', 'no-store', 'X-Request-Id', req.requestId];
      call.begin(303, [...PAGE_HEADERS, ...fields]);
      res.end();
      return;
    }
    const inside = req.url.slice(PATH.length);
    // The dashboard resolves its files relative to this path.
    req.url = inside.startsWith('/') ? inside : `/${inside}`;
    for (let i = 0; i + 1 < PAGE_HEADERS.length; i += 2)
      res.setHeader(String(PAGE_HEADERS[i]), String(PAGE_HEADERS[i + 1]));
    res.setHeader('X-Request-Id', req.requestId);
    if (!inside.startsWith('/static/')) res.setHeader('Cache-Control', 'no-store');
    board ??= createBoard(queues);
    const serve = await board;
    return new Promise((resolve, reject) => {
      res.once('close', resolve);
      serve(req, res, (error) => reject(error ?? call.refusal('not_found', 'No resource exists at this path.')));
    });
  };
  const common: Omit<RouteContract, 'operationId' | 'path' | 'summary'> = {
    method: 'get',
    tag: 'admin',
    caller: 'admin',
    anyQuery: true,
    description: 'A browser without a session is redirected to the login.',
    answers: {
      200: { description: 'The dashboard.', contentTypes: ['text/html'] },
      303: { description: 'The browser has no session and is redirected to the login.', headers: ['Location'] },
    },
    errors: ['unauthorized', 'forbidden', 'not_found'],
  };
  return [
    defineRoute<RouteContract>(
      { ...common, operationId: 'getJobBoard', path: PATH, summary: 'The dashboard of jobs' },
      handle,
    ),
    // Links inside the dashboard use the trailing slash.
    defineRoute<RouteContract>(
      { ...common, operationId: 'getJobBoardPage', path: `${PATH}/`, summary: 'The dashboard of jobs' },
      handle,
    ),
    defineRoute<RouteContract>(
      {
        ...common,
        operationId: 'getJobBoardFile',
        path: `${PATH}/*part`,
        params: z.object({ part: z.string() }),
        summary: 'Files of the dashboard of jobs',
      },
      handle,
    ),
  ];
}

/** Shows each job in words instead of its data: what it does, and what is left to do. */
function inWords(name: OneQueue['name'], adapter: BullMQAdapter): BullMQAdapter {
  adapter.setFormatter('name', ({ data }) => wordsOf(name, data));
  adapter.setFormatter('progress', progressInWords);
  return adapter;
}

/** The backlog of the journal, which a job of the queue `persist` reports. */
function progressInWords(progress: unknown): unknown {
  const { entries, oldest_seconds } = (progress ?? {}) as { entries?: number; oldest_seconds?: number };
  if (entries === undefined || oldest_seconds === undefined) return progress;
  if (entries === 0) return 'No entry waits';
  const waiting = entries === 1 ? '1 entry waits' : `${entries.toLocaleString('en')} entries wait`;
  return `${waiting}, the oldest for ${oldest_seconds} s`;
}

async function createBoard(queues: JobQueues): Promise<Board> {
  const [{ createBullBoard }, { BullMQAdapter }, { ExpressAdapter }] = await Promise.all([
    import('@bull-board/api'),
    import('@bull-board/api/bullMQAdapter'),
    import('@bull-board/express'),
  ]);
  const adapterOf = ({ name, queue }: OneQueue) => inWords(name, new BullMQAdapter(queue, { readOnlyMode: true }));
  const serverAdapter = new ExpressAdapter().setBasePath(PATH);
  createBullBoard({
    queues: queues.all().map(adapterOf),
    serverAdapter,
    options: { uiConfig: { boardTitle: 'Doorbuster', hideRedisDetails: true } },
  });
  const app = serverAdapter.getRouter();
  app.disable('x-powered-by');
  return app as Board;
}

/** Returns false for a browser that has to log in. @throws Problem 401, 403 or 429 for other callers without access */
function mayRead(req: Request, apiKeys: ApiKeys): boolean {
  try {
    apiKeys.require(req, 'admin');
    return true;
  } catch (error) {
    const isBrowser = req.accepts(['application/json', 'text/html']) === 'text/html';
    if (isBrowser && !apiKeys.presented(req) && error instanceof Problem && error.code === 'unauthorized') return false;
    throw error;
  }
}
