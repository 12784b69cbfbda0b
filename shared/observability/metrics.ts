import { AggregatorRegistry, Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

export const PREFIX = 'doorbuster_';
/** Methods that are counted by name, because clients may send any of thirty. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'none']);
/** Longer than two intervals of the reconciliation of all campaigns, which any worker may run. */
const DRIFT_KEPT_MS = 150_000;
const LAG_SAMPLE_EVERY_MS = 100;
/** Up to the 10 s that clients wait for a response. */
const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/**
 * Counters and gauges of one process. Each process posts its own, and /metrics of any API process returns the sum of
 * all.
 */
export class Metrics {
  readonly registry = new Registry();

  readonly coupons = this.#counter('coupons_total', 'Codes validated and redeemed, by outcome', ['action', 'outcome']);
  readonly checkouts = this.#counter('checkouts_total', 'Checkouts by outcome', ['outcome']);
  readonly payments = this.#counter('payment_calls_total', 'Confirm, release and refund calls by outcome', [
    'call',
    'outcome',
  ]);
  readonly duplicatePayments = this.#counter(
    'duplicate_payments_total',
    'Payments for reservations that another payment had already paid',
  );
  // Has no label for the status, because routes times statuses times buckets would be thousands of series.
  readonly #requestSeconds = new Histogram({
    name: `${PREFIX}http_request_duration_seconds`,
    help: 'Time from the request to the end of its response, by method and route',
    labelNames: ['method', 'route'],
    buckets: SECONDS,
    registers: [this.registry],
  });
  readonly #requests = this.#counter('http_requests_total', 'Requests by method, route and status', [
    'method',
    'route',
    'status',
  ]);
  readonly claimBatch = new Histogram({
    name: `${PREFIX}claim_batch_size`,
    help: 'Checkouts and redemptions that one call of the script decided',
    buckets: [1, 2, 4, 8, 16, 32, 64],
    registers: [this.registry],
  });
  readonly sockets = this.#gauge('sockets', 'WebSocket connections of this process');
  readonly socketFrames = this.#counter('socket_frames_total', 'Frames sent to sockets by type', ['type']);
  readonly engineErrors = this.#counter('engine_errors_total', 'Calls to an engine that failed', ['engine']);
  readonly persistedEntries = this.#counter('persisted_entries_total', 'Journal entries committed to Postgres');
  readonly persistSeconds = new Histogram({
    name: `${PREFIX}persist_batch_duration_seconds`,
    help: 'Time of one batch from reading the journal to the commit',
    buckets: SECONDS,
    registers: [this.registry],
  });
  readonly voided = this.#counter('voided_total', 'Reservations that Postgres refused, by constraint', ['constraint']);
  readonly rejected = this.#counter(
    'journal_rejects_total',
    'Journal entries that Postgres rejected; an operator must look at each',
  );
  readonly journalGap = new Gauge({
    name: `${PREFIX}journal_gap`,
    help: '1 while Postgres lacks journal entries of a shard that it had committed, and none of them is persisted',
    labelNames: ['shard'],
    // 1 if any worker reports 1.
    aggregator: 'max',
    registers: [this.registry],
  });
  readonly recoveries = this.#counter(
    'recoveries_total',
    'Histories of Redis that a worker began, by what was needed',
    ['kind'],
  );
  readonly recovered = this.#counter('recovered_entries_total', 'Journal entries that Redis lost, by outcome', [
    'outcome',
  ]);
  readonly drift = this.#latest(
    'drift_units',
    'Differences left after the last reconciliation of all campaigns',
    DRIFT_KEPT_MS,
  );
  readonly differences = this.#counter('differences_total', 'Differences found between Redis and Postgres, by side', [
    'side',
  ]);
  readonly expired = this.#counter('expired_total', 'Reservations ended by the sweep');
  readonly promoted = this.#counter(
    'promoted_total',
    'Users promoted by the worker (releases promote in their own script)',
  );
  readonly placesEnded = this.#counter('places_ended_total', 'Places in a line that the worker ended', ['why']);
  readonly jobFailures = this.#counter('job_failures_total', 'Failed attempts of jobs by queue; they run again', [
    'queue',
  ]);
  readonly queueRepairs = this.#counter('queue_repairs_total', 'Repairs of queues by workers, by kind', [
    'queue',
    'repair',
  ]);
  readonly queueFallbacks = this.#counter(
    'queue_fallbacks_total',
    'Work that a worker did without a job, because the queue was full or did not run it',
    ['queue'],
  );

  readonly codesIssued = this.#counter('codes_issued_total', 'Codes generated or imported', ['kind']);
  readonly eventsPublished = this.#counter('events_published_total', 'Events appended to the stream');
  readonly webhookDeliveries = this.#counter('webhook_deliveries_total', 'Webhook deliveries by outcome', ['outcome']);
  readonly pushMessages = this.#counter('push_messages_total', 'Web Push messages by outcome', ['outcome']);
  readonly outboxLag = new Gauge({
    name: `${PREFIX}outbox_lag_seconds`,
    help: 'Age of the oldest event that a destination has not received; 0 = none',
    labelNames: ['destination'],
    // Every worker measures the same lag, so a sum over workers would be wrong.
    aggregator: 'max',
    registers: [this.registry],
  });

  readonly outboxBacklog = new Gauge({
    name: `${PREFIX}outbox_backlog_events`,
    help: 'Events that a destination has not received, by their numbers; gaps of the numbers count',
    labelNames: ['destination'],
    aggregator: 'max',
    registers: [this.registry],
  });
  readonly kafkaEvents = this.#counter('kafka_events_total', 'Events sent to Kafka');
  readonly kafkaFailures = this.#counter(
    'kafka_failures_total',
    'Failed attempts to send events to Kafka, by the error of the broker; they are repeated',
    ['reason'],
  );
  readonly kafkaSkipped = this.#counter(
    'kafka_skipped_events_total',
    'Events that were deleted from the outbox before Kafka received them',
  );

  readonly blocked = this.#counter('blocked_total', 'Requests of callers who are banned or in a cooldown, by kind', [
    'kind',
  ]);

  readonly ruleBansDropped = this.#counter(
    'rule_bans_dropped_total',
    'Bans by rules that apply in one process only (rate) or were not stored in Postgres (waiting), because there were too many',
    ['reason'],
  );

  readonly termsLookups = this.#counter(
    'terms_lookups_total',
    'Terms of campaigns that requests needed, by where they were: memory of the process, postgres',
    ['from'],
  );
  readonly limited = this.#counter('limited_total', 'Requests over a limit, by its name', ['policy']);
  readonly challenges = this.#counter('challenges_total', 'Challenges asked, and solutions by outcome', ['outcome']);
  readonly riskVerdicts = this.#counter('risk_verdicts_total', 'Verdicts of the risk rules', [
    'rule',
    'verdict',
    'mode',
  ]);
  readonly velocityAlerts = this.#counter(
    'velocity_alerts_total',
    'Times, at most one a minute and campaign, that far more users than usual got a promise within seconds',
    ['outcome'],
  );

  readonly attemptsWritten = this.#counter('attempts_written_total', 'Attempts to use codes that were recorded');
  readonly attemptsDropped = this.#counter(
    'attempts_dropped_total',
    'Attempts that were not recorded: too many of their network, no room while Postgres was away or slow, rejected by Postgres, or the process ended',
    ['reason'],
  );

  readonly regionCalls = this.#counter(
    'region_calls_total',
    'Requests that another region decides, by outcome: answered, repeated (answered after a repetition), unreachable',
    ['region', 'outcome'],
  );

  readonly regionAcknowledgementsDropped = this.#counter(
    'region_acknowledgements_dropped_total',
    'Decisions of other regions that were returned and not recorded: no room while Postgres was away or slow, rejected by Postgres, or the process ended',
    ['reason'],
  );

  /** For `ownText`, from its first call on. */
  #node: Registry | null = null;

  /** @param defaults whether the metrics of Node.js are exported and posted with the others */
  constructor(defaults = true) {
    if (defaults) collectNodeMetrics(this.registry);
  }

  /** Exports which version this process runs. */
  describeBuild(component: 'api' | 'worker', version: string): void {
    new Gauge({
      name: `${PREFIX}build_info`,
      help: 'Version of the service and of Node.js; 1 for each combination that runs',
      labelNames: ['component', 'version', 'node'],
      aggregator: 'max',
      registers: [this.registry],
    }).set({ component, version, node: process.version }, 1);
  }

  /**
   * Counts one request.
   * @param method "none" when no route matched
   * @param route the pattern of the path; "none" = no route matched
   */
  observeRequest(method: string, route: string, status: number, seconds: number): void {
    const known = METHODS.has(method) ? method : 'other';
    this.#requestSeconds.observe({ method: known, route }, seconds);
    this.#requests.inc({ method: known, route, status });
  }

  /** The sum of the metrics of this process and of `others`, in the text format of Prometheus. */
  async textWith(others: object[][]): Promise<string> {
    const own = await this.registry.getMetricsAsJSON();
    return AggregatorRegistry.aggregate([own, ...others] as object[]).metrics();
  }

  /**
   * The metrics of this process alone, with those of Node.js, in the text format of Prometheus. Those of Node.js are in
   * a registry of their own, because this process does not post them.
   */
  ownText(): Promise<string> {
    this.#node ??= collectNodeMetrics(new Registry());
    return Registry.merge([this.registry, this.#node]).metrics();
  }

  /** The metrics of this process, in the form in which it posts them. */
  async snapshot(): Promise<object[]> {
    return this.registry.getMetricsAsJSON();
  }

  /** A gauge whose value is read when metrics are collected. */
  observe(
    name: string,
    help: string,
    read: () => Promise<number> | number,
    /** How the values of several processes are combined. */
    aggregator: 'sum' | 'max' = 'sum',
  ): void {
    new Gauge({
      name: `${PREFIX}${name}`,
      help,
      aggregator,
      registers: [this.registry],
      async collect() {
        this.set(await read());
      },
    });
  }

  /** Gauges by several labels, read when metrics are collected; the largest value of all processes counts. */
  observeSamples<const Label extends string>(
    name: string,
    help: string,
    labelNames: readonly Label[],
    read: () => Promise<readonly { labels: Record<Label, string>; value: number }[]>,
  ): void {
    new Gauge({
      name: `${PREFIX}${name}`,
      help,
      labelNames: [...labelNames],
      aggregator: 'max',
      registers: [this.registry],
      async collect() {
        const samples = await read();
        this.reset();
        for (const { labels, value } of samples) this.set(labels, value);
      },
    });
  }

  /** Gauges by one label, read when metrics are collected. A label without a value has no sample. */
  observeEach(
    name: string,
    help: string,
    label: string,
    read: () => Promise<ReadonlyMap<string, number>>,
    aggregator: 'sum' | 'max' = 'sum',
  ): void {
    new Gauge({
      name: `${PREFIX}${name}`,
      help,
      labelNames: [label],
      aggregator,
      registers: [this.registry],
      async collect() {
        const values = await read();
        this.reset();
        for (const [value, number] of values) this.set({ [label]: value }, number);
      },
    });
  }

  /** A counter by one label. Its values are kept elsewhere, where counting must be cheap. */
  observeCounts(name: string, help: string, label: string, read: () => Record<string, number>): void {
    new Counter({
      name: `${PREFIX}${name}`,
      help,
      labelNames: [label],
      registers: [this.registry],
      collect() {
        this.reset();
        for (const [value, count] of Object.entries(read())) this.inc({ [label]: value }, count);
      },
    });
  }

  #counter<const Label extends string>(name: string, help: string, labelNames: readonly Label[] = []): Counter<Label> {
    return new Counter({ name: PREFIX + name, help, labelNames: [...labelNames], registers: [this.registry] });
  }

  /**
   * A gauge that one of several processes sets again and again. A value that is older than `keptMs` counts as 0,
   * because another process has set a later one.
   */
  #latest(name: string, help: string, keptMs: number): { set(value: number): void } {
    let [latest, at] = [0, Number.NEGATIVE_INFINITY];
    this.observe(name, help, () => (performance.now() - at < keptMs ? latest : 0), 'max');
    return {
      set(value) {
        [latest, at] = [value, performance.now()];
      },
    };
  }

  #gauge(name: string, help: string): Gauge {
    return new Gauge({ name: PREFIX + name, help, registers: [this.registry] });
  }
}

/** Samples are rare, because each sample of the event loop's delay wakes the process. */
function collectNodeMetrics(register: Registry): Registry {
  collectDefaultMetrics({ register, prefix: PREFIX, eventLoopMonitoringPrecision: LAG_SAMPLE_EVERY_MS });
  return register;
}
