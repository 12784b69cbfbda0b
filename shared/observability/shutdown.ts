import type { Log } from './log.js';

export type Stoppable = {
  /** Takes no new work; what is in flight goes on. */
  quiet(): Promise<void> | void;
  /** Returns when everything in flight is done and every connection closed. */
  stop(): Promise<void>;
};

/** Quiet, then stop, on the first SIGTERM or SIGINT; cut off after `deadlineMs` or at the second one. */
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
          // Every handle was closed; whatever still holds the loop must not hold the operator.
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

/** An error that was not caught: logged, then the process ends; its supervisor starts a clean one. */
export function exitOnUncaught(log: Log): void {
  const onFault = (error: unknown) => {
    log.fatal({ err: error }, 'an error was not caught');
    setTimeout(() => process.exit(1), 100);
  };
  process.on('uncaughtException', onFault);
  process.on('unhandledRejection', onFault);
}
