import { AsyncLocalStorage, createHook } from 'node:async_hooks';

/** Timers, also those that do not keep the process alive, and sockets; by their names in `node:async_hooks`. */
const WATCHED = new Set(['Timeout', 'TCPWRAP', 'TCPSERVERWRAP']);

/** What was made inside `run` and still exists: its kind and the lines of ours that made it. */
export type OpenHandles = { run<T>(work: () => Promise<T>): Promise<T>; left(): string[]; end(): void };

/** Watches what one piece of work makes, and no other: a Jest process runs several files, one after the other. */
export function watchHandles(): OpenHandles {
  const open = new Map<number, string>();
  const watched = new AsyncLocalStorage<true>();
  const hook = createHook({
    init(id, type) {
      if (!WATCHED.has(type) || !watched.getStore()) return;
      const stack = String(new Error().stack).split('\n').slice(2);
      const ours = stack.filter((line) => /\/(api|worker|shared)\//.test(line) && !line.includes('/node_modules/'));
      // Those of Jest, and of a test that waits.
      if (ours.length === 0 && stack.some((line) => /jest|\/test\/harness\//.test(line))) return;
      const maker = ours.length > 0 ? ours : stack;
      open.set(id, `${type} made ${maker.slice(0, 6).join(' ').replaceAll(/\s+/g, ' ')}`);
    },
    destroy(id) {
      open.delete(id);
    },
  });
  hook.enable();
  return {
    run: (work) => watched.run(true, work),
    left: () => [...open.values()],
    end: () => hook.disable(),
  };
}
