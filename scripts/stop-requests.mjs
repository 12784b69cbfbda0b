// Handles the requests of users and of the system to stop.

// npm passes on the Ctrl-C that the terminal has sent to this process too: two signals for one request.
const SAME_WISH_MS = 500;
const PARENT_CHECK_MS = 1_000;

/**
 * Calls `stop` at the first request and `hurry` at every further one.
 * @param {{ stop: (signal: NodeJS.Signals) => void, hurry: () => void }} reactions
 * @returns {void}
 */
export function onStopRequest({ stop, hurry }) {
  /** @type {number | undefined} */
  let firstAt;
  const request = (/** @type {NodeJS.Signals} */ signal) => {
    if (firstAt === undefined) {
      firstAt = Date.now();
      stop(signal);
    } else if (Date.now() - firstAt > SAME_WISH_MS) {
      hurry();
    }
  };
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) process.on(signal, request);

  // A killed npm passes nothing on. A process that was started without npm, in the background for example, may outlive
  // the shell.
  if (process.env.npm_lifecycle_event === undefined) return;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    if (firstAt === undefined) request('SIGHUP');
  }, PARENT_CHECK_MS);
  timer.unref();
}
