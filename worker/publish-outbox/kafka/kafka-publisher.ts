import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { KafkaConfig } from '../../../shared/config/kafka.js';
import type { OutboxEvent } from '../../../shared/contracts/events.js';
import type { Log } from '../../../shared/observability/log.js';
import type { Metrics } from '../../../shared/observability/metrics.js';
import type { Tracing } from '../../../shared/observability/tracing.js';
import type { OutboxCursor, OutboxCursors } from '../../../shared/postgres/outbox-cursors.js';
import type { Outbox } from '../outbox.js';
import { traceSent } from '../trace-sent.js';
import type { KafkaSender, OpenKafka } from './kafka-client.js';
import { KafkaProblem, kafkaErrorId, kafkaErrorReason } from './kafka-errors.js';
import { kafkaMessage } from './kafka-message.js';

const DESTINATION = 'kafka';
/** Failures after which a new producer is opened: one whose broker went away may wait long for its return. */
const FAILURES_OF_A_PRODUCER = 3;
/** One in so many failures is logged: about one a minute at the longest delay. */
const LOGGED_FAILURES = 12;

export type KafkaPublisherDeps = {
  outbox: Outbox;
  cursors: OutboxCursors;
  open: OpenKafka;
  metrics: Metrics;
  /** null = no spans are recorded */
  tracing?: Tracing | null;
  log: Log;
  /** The `source` attribute of the CloudEvents. */
  source: string;
  config: Pick<KafkaConfig, 'topics' | 'format'>;
  limits: {
    batch: number;
    leaseMs: number;
    retry: { firstDelayMs: number; maxDelayMs: number };
    sendMs: number;
    stopMs: number;
    publishAfterMs: number;
    publishEveryMs: number;
  };
};

/** `sent` = a batch is with Kafka; `idle` = Kafka has everything; `elsewhere` = another worker has the lease. */
type Round = { kind: 'sent' | 'idle' | 'elsewhere' } | { kind: 'failed'; attempts: number };
/** `isWithKafka` = only the position remains to be moved. */
type Batch = { after: number; events: readonly OutboxEvent[]; isWithKafka: boolean };

/**
 * Sends the events of the outbox to Kafka, in their order and at least once. The worker with the lease sends, one batch
 * at a time, and moves the position after each. A batch that failed is repeated as it is on the same producer, so that
 * the brokers recognize what they have already.
 */
export class KafkaPublisher {
  readonly #lease = randomUUID();
  #isStopped = false;
  /** There may be events that the last read did not see. */
  #isNotified = false;
  #pausing: { end: () => void; endsByNotice: boolean } | null = null;
  #running: Promise<void> = Promise.resolve();
  #cursor: OutboxCursor | null = null;
  #leasedAtMs = 0;
  #batch: Batch | null = null;
  #batchSize: number;
  #sender: KafkaSender | null = null;
  #failures = 0;

  constructor(readonly deps: KafkaPublisherDeps) {
    this.#batchSize = deps.limits.batch;
  }

  start(): void {
    this.#running = this.#run();
  }

  /** There are new events: sends them soon instead of at the next interval. */
  notify(): void {
    this.#isNotified = true;
    if (this.#pausing?.endsByNotice) this.#pausing.end();
  }

  /** Ends after the batch under way, and lets another worker continue at once. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#pausing?.end();
    await Promise.race([this.#running, sleep(this.deps.limits.stopMs, undefined, { ref: false })]);
    this.#closeSender();
    await this.deps.cursors.release(DESTINATION, this.#lease).catch(() => {
      // Postgres is away. The lease ends by itself.
    });
  }

  async #run(): Promise<void> {
    const { log, limits } = this.deps;
    while (!this.#isStopped) {
      this.#isNotified = false;
      try {
        await this.#pauseAfter(await this.#round());
      } catch (error) {
        // Postgres is away. The batch is kept.
        log.debug({ reason: kafkaErrorReason(error) }, 'the position of Kafka could not be read or moved');
        await this.#pause(limits.publishEveryMs);
      }
    }
  }

  async #round(): Promise<Round> {
    const cursor = await this.#hold();
    if (!cursor) return { kind: 'elsewhere' };
    this.#batch ??= await this.#nextBatch(cursor.lastSeq);
    const batch = this.#batch;
    if (!batch.isWithKafka) {
      try {
        await this.#send(batch.events);
      } catch (error) {
        return await this.#failed(batch, error);
      }
    }
    batch.isWithKafka = true;
    return await this.#moveCursor(cursor, batch);
  }

  /** Takes or keeps the lease. @returns null while another worker has it */
  async #hold(): Promise<OutboxCursor | null> {
    const { cursors, limits, log } = this.deps;
    const now = performance.now();
    if (this.#cursor && now - this.#leasedAtMs < limits.leaseMs / 3) return this.#cursor;
    const cursor = await cursors.lease(DESTINATION, this.#lease, limits.leaseMs);
    if (!cursor && this.#cursor) log.warn({}, 'another worker sends the events to Kafka now');
    this.#leased(cursor, now);
    return cursor;
  }

  /** @param cursor null = the lease is lost. A batch of another position is dropped */
  #leased(cursor: OutboxCursor | null, atMs: number): void {
    this.#cursor = cursor;
    this.#leasedAtMs = atMs;
    if (!cursor) this.#closeSender();
    if (this.#batch && cursor?.lastSeq !== this.#batch.after) {
      // The same producer must never get another batch in place of one that failed.
      this.#closeSender();
      this.#batch = null;
    }
  }

  async #nextBatch(after: number): Promise<Batch> {
    const events = await this.deps.outbox.read({ after, upTo: Number.MAX_SAFE_INTEGER, types: null }, this.#batchSize);
    return { after, events, isWithKafka: false };
  }

  /** Connects even if there is nothing to send, so that a wrong setting is noticed at the start. */
  async #send(events: readonly OutboxEvent[]): Promise<void> {
    const { source, config, limits, tracing, open } = this.deps;
    this.#sender ??= await inTime(open(), limits.sendMs, (late) => late.close());
    if (events.length === 0) return;
    const messages = events.map((event) => kafkaMessage(event, source, config));
    const startMs = tracing ? performance.now() : 0;
    await inTime(this.#sender.send(messages), limits.sendMs);
    if (tracing) traceSent(tracing, events, { destination: config.topics.prefix, system: 'kafka', source, startMs });
  }

  async #moveCursor(cursor: OutboxCursor, { after, events }: Batch): Promise<Round> {
    const { cursors, metrics, limits, log } = this.deps;
    const now = performance.now();
    const last = events.at(-1);
    this.#failures = 0;
    if (cursor.failingSince) log.info({ failures: cursor.attempts }, 'Kafka receives events again');
    if (!last) {
      if (cursor.failingSince) this.#leased(await cursors.succeed(DESTINATION, this.#lease), now);
      this.#batch = null;
      return { kind: 'idle' };
    }
    const moved = await cursors.advance(DESTINATION, this.#lease, limits.leaseMs, { after, seq: last.seq });
    this.#batch = null;
    metrics.kafkaEvents.inc(events.length);
    this.#leased(moved, now);
    return { kind: 'sent' };
  }

  async #failed(batch: Batch, error: unknown): Promise<Round> {
    const { cursors, metrics, limits, log } = this.deps;
    const [reason, id] = [kafkaErrorReason(error), kafkaErrorId(error)];
    metrics.kafkaFailures.inc({ reason: error instanceof KafkaProblem ? 'configuration' : (id ?? 'connection') });
    this.#failures += 1;
    if (this.#failures >= FAILURES_OF_A_PRODUCER || error instanceof TooLate) this.#closeSender();
    if (id === 'MESSAGE_TOO_LARGE' && batch.events.length > 1) {
      this.#batchSize = Math.ceil(batch.events.length / 2);
      this.#closeSender();
      this.#batch = { ...batch, events: batch.events.slice(0, this.#batchSize) };
    }
    const now = performance.now();
    this.#leased(await cursors.fail(DESTINATION, this.#lease, limits.leaseMs, reason), now);
    const attempts = this.#cursor?.attempts ?? 1;
    if (attempts % LOGGED_FAILURES === 1) {
      const level = error instanceof KafkaProblem ? 'error' : 'warn';
      log[level]({ reason, attempts }, 'events could not be sent to Kafka; they are kept and sent again');
    }
    return { kind: 'failed', attempts };
  }

  async #pauseAfter(round: Round): Promise<void> {
    const { leaseMs, retry, publishEveryMs, publishAfterMs } = this.deps.limits;
    if (round.kind === 'elsewhere') await this.#pause(leaseMs / 5);
    if (round.kind === 'failed')
      await this.#pause(Math.min(retry.maxDelayMs, retry.firstDelayMs * 2 ** (round.attempts - 1)));
    if (round.kind === 'idle') {
      if (!this.#isNotified) await this.#pause(publishEveryMs, true);
      // Events of several commits go together.
      if (this.#isNotified) await this.#pause(publishAfterMs);
    }
  }

  async #pause(ms: number, endsByNotice = false): Promise<void> {
    if (this.#isStopped) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms).unref();
      const end = () => {
        clearTimeout(timer);
        resolve();
      };
      this.#pausing = { end, endsByNotice };
    });
    this.#pausing = null;
  }

  #closeSender(): void {
    this.#sender?.close();
    this.#sender = null;
    this.#failures = 0;
  }
}

class TooLate extends Error {
  override readonly name = 'TooLate';
}

/** @param late receives a result that arrives after the limit */
async function inTime<Value>(call: Promise<Value>, limitMs: number, late?: (value: Value) => void): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      call.then(late, () => {});
      reject(new TooLate(`Kafka did not reply within ${limitMs} ms`));
    }, limitMs).unref();
  });
  try {
    return await Promise.race([call, limit]);
  } finally {
    clearTimeout(timer);
  }
}
