import type { Log } from './log.js';

export type Stoppable = {
  /** Accepts no new work. Running work continues. */
  quiet(): Promise<void> | void;
  /** Returns when all running work is done and all connections are closed. */
  stop(): Promise<void>;
};

/**
 * Quiets and then stops the process on the first SIGTERM or SIGINT. Exits at once after `deadlineMs` or on a second
 * signal.
 */
export function stopOnSignals(process_: Stoppable, log: Log, deadlineMs: number): void {
  let stopping = false;
  const onSignal = (signal: NodeJS.Signals) => {
    if (stopping) {
      log.warn({ signal }, 'stopping at once');
      process.exit(1);
    }
    stopping = true;
    log.info({ signal }, 'stopping');
    const cutOff = setTimeout(() => {
      log.error({ deadline_ms: deadlineMs }, 'the stop took too long and was cut off');
      process.exit(1);
    }, deadlineMs);
    cutOff.unref();
    Promise.resolve(process_.quiet())
      .then(() => process_.stop())
      .then(
        () => {
          log.info({}, 'stopped');
          clearTimeout(cutOff);
          // Exits even if an open handle would keep the process running.
          setImmediate(() => process.exit(0));
        },
        (error: unknown) => {
          log.error({ err: error }, 'the stop failed');
          process.exit(1);
        },
      );
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
}

/** Logs an uncaught error and ends the process. Its supervisor starts a new one. */
export function exitOnUncaught(log: Log): void {
  const onFault = (error: unknown) => {
    log.fatal({ err: error }, 'an error was not caught');
    setTimeout(() => process.exit(1), 100);
  };
  process.on('uncaughtException', onFault);
  process.on('unhandledRejection', onFault);
}
