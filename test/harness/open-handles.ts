import { AsyncLocalStorage, createHook } from 'node:async_hooks';

/** Timers, also those that do not keep the process alive, and sockets; by their names in `node:async_hooks`. */
const WATCHED = new Set(['Timeout', 'TCPWRAP', 'TCPSERVERWRAP']);
/** Enough to reach lines of ours from below a driver. */
const STACK_LINES = 40;

/** What was made inside `run` and still exists: its kind and delay, the driver that made it and the lines of ours. */
export type OpenHandles = { run<T>(work: () => Promise<T>): Promise<T>; left(): string[]; end(): void };

/** What Node keeps of a timer or socket: `_destroyed` when a timer has fired or was cleared, and its delay. */
type Resource = { _destroyed?: boolean; _idleTimeout?: number };
type Handle = { resource: WeakRef<Resource>; text: string };

/** Watches what one piece of work makes, and no other: a Jest process runs several files, one after the other. */
export function watchHandles(): OpenHandles {
  const open = new Map<number, Handle>();
  const watched = new AsyncLocalStorage<true>();
  const hook = createHook({
    init(id, type, _trigger, resource: Resource) {
      if (!WATCHED.has(type) || !watched.getStore()) return;
      const stack = stackLines();
      const isDriver = (line: string) => line.includes('/node_modules/');
      const ours = stack.filter((line) => /\/(api|worker|shared)\//.test(line) && !isDriver(line));
      // Those of Jest, and of a test that waits.
      if (ours.length === 0 && stack.some((line) => /jest|\/test\/harness\//.test(line))) return;
      // A timer of a driver is made below a line of ours, too.
      const driver = stack.slice(0, stack.indexOf(ours[0] ?? '') + 1 || undefined).find(isDriver);
      const maker = [...(driver ? [driver] : []), ...(ours.length > 0 ? ours : stack).slice(0, 6)];
      const delay = type === 'Timeout' ? ` of ${resource._idleTimeout} ms` : '';
      open.set(id, {
        resource: new WeakRef(resource),
        text: `${type}${delay} made ${maker.join(' ').replaceAll(/\s+/g, ' ').trim()}`,
      });
    },
    destroy(id) {
      open.delete(id);
    },
  });
  hook.enable();
  return {
    run: (work) => watched.run(true, work),
    left: () => [...open.values()].filter(({ resource }) => isOpen(resource.deref())).map(({ text }) => text),
    end: () => hook.disable(),
  };
}

/** The event of the end of a handle may come late or not at all, when the handle is collected as garbage first. */
function isOpen(resource: Resource | undefined): boolean {
  return resource !== undefined && resource._destroyed !== true;
}

function stackLines(): string[] {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = STACK_LINES;
  const lines = String(new Error().stack)
    .split('\n')
    .slice(2)
    .filter((line) => !line.includes('/open-handles.'));
  Error.stackTraceLimit = limit;
  return lines;
}
