import type { Call, Event } from '../history.js';

/**
 * Whether an acknowledged promise may be lost; its `durability` says when (ARCHITECTURE.md).
 *
 * - `silently`: Redis lost its data, and each process that acknowledged the promise was killed before Postgres had it.
 * - `visibly`: an isolated primary acknowledged it, or a process could not save it in time because it was frozen or
 *   cut off when Redis lost its data, and no other process could. A row or a reject must say what became of it.
 */
export type Excuse = 'silently' | 'visibly' | null;

type Span = { from: number; to: number };
/** Without a fault for so long, everything acknowledged is in Postgres. */
const CALM_MS = 5_000;
/**
 * Faults during which everything acknowledged is saved as usual. A move saves it first. An API that ends leaves it in
 * Redis; if Redis loses its data as well, that is another fault.
 */
const LETS_SAVE = /^(?:move-.*|http-cut|process-clock|redis-script-flush|(?:kill|restart) api-\d)$/;
/**
 * Clocks of the recorded calls and of the events are the same, but a response may be read a moment after its process
 * died.
 */
const SLACK_MS = 500;
const END = Number.POSITIVE_INFINITY;

/** When faults were active, and which of them allow a loss. */
export class Losses {
  readonly faults: Span[];
  /** Those that can keep the service from saving what it acknowledged. */
  readonly #keeping: Span[];
  /** Each from the moment at which Postgres was set back until it had been repaired. */
  readonly repairs: Span[];
  readonly #lost: { at: number; mode: string }[];
  readonly #killed: { at: number; process: string }[];
  /**
   * Postgres was set back, and Redis lost its data before Postgres had been made whole: neither engine has what came
   * after the backup. Each from the begin of the backup.
   */
  readonly #bothLost: Span[];
  readonly #isolated: (Span & { processes: string[] })[];
  readonly #away: (Span & { node: string })[];

  constructor(events: readonly Event[]) {
    this.faults = spansOf(events, (event) => event.what === 'fault' && [event.phase, String(event.id)]);
    this.#keeping = spansOf(
      events,
      (event) => event.what === 'fault' && !LETS_SAVE.test(event.fault) && [event.phase, String(event.id)],
    );
    this.repairs = repairsOf(events);
    this.#lost = events.flatMap((event) => (event.what === 'redis-lost' ? [{ at: event.at, mode: event.mode }] : []));
    this.#killed = events.flatMap((event) =>
      event.what === 'down' && event.how !== 'stop' ? [{ at: event.at, process: event.process }] : [],
    );
    this.#bothLost = bothLost(events);
    this.#isolated = isolationsOf(events);
    this.#away = absencesOf(events);
  }

  /**
   * The excuse of a promise that one of these attempts made. Every process that acknowledged it keeps it, so each of
   * them needs an excuse. A restock is kept only by the process that made it (decision 70), and a promise without a
   * response by an unknown one: then one excuse is enough.
   * @param durability of the response
   */
  excuseOf(attempts: readonly Call[], durability: string): Excuse {
    if (attempts.some(({ at }) => this.bothLost(at))) return 'silently';
    if (durability === 'committed') return null;
    const acknowledging = attempts.filter(isAcknowledging);
    if (acknowledging.length > 0) {
      const each = acknowledging.map((call) => this.#excuseOfOne(call, durability));
      if (each.includes(null)) return null;
      return each.includes('visibly') ? 'visibly' : 'silently';
    }
    const excuses = attempts.map((call) => this.#excuseOfOne(call, durability));
    return excuses.find((excuse) => excuse === 'silently') ?? excuses.find((excuse) => excuse === 'visibly') ?? null;
  }

  /** Whether neither engine may have what was promised at a time. What Postgres had before the backup, it has again. */
  bothLost(at: number): boolean {
    return this.#bothLost.some(({ from, to }) => at <= to && this.calmAfter(at) > from);
  }

  /** The excuse of a promise whose maker is not known, for example a promotion, seen at a time. */
  excuseOfUnknown(at: number): Excuse {
    if (this.bothLost(at)) return 'silently';
    const until = this.calmAfter(at);
    const within = (time: number) => time >= at - 2 * CALM_MS && time <= until;
    const lost = this.#lost.some((loss) => within(loss.at));
    if (lost && this.#killed.some((death) => within(death.at))) return 'silently';
    if (lost && this.#away.some(({ from, to }) => from <= until && to >= at - 2 * CALM_MS)) return 'visibly';
    return this.#isolated.some(({ from, to }) => from <= until && to >= at - 2 * CALM_MS) ? 'visibly' : null;
  }

  /** Whether a process was cut off from the present primary at some time between two times. */
  isolatedBetween(from: number, to: number): boolean {
    return this.#isolated.some((span) => span.from <= to && span.to + CALM_MS >= from);
  }

  /** The end of the first `CALM_MS` without a fault that begin at or after a time. */
  calmAfter(at: number): number {
    let calmFrom = at;
    for (const { from, to } of this.#keeping) {
      if (to < calmFrom) continue;
      if (from > calmFrom + CALM_MS) break;
      calmFrom = to;
    }
    return calmFrom + CALM_MS;
  }

  #excuseOfOne(call: Call, durability: string): Excuse {
    const until = this.calmAfter(call.end);
    const after = (time: number) => time >= call.at - SLACK_MS && time <= until;
    // A replica has what was replicated; only a loss of both servers takes it away.
    const counts = (mode: string) => durability !== 'replicated' || mode !== 'promoted';
    const lost = this.#lost.some(({ at, mode }) => after(at) && counts(mode));
    const killed = this.#killed.some(({ at, process }) => process === call.process && after(at));
    if (durability !== 'replicated') {
      const node = nodeOf(call.process);
      const isolated = this.#isolated.some(
        ({ from, to, processes }) => processes.includes(node) && call.end >= from && call.at <= to + SLACK_MS,
      );
      if (isolated) return killed ? 'silently' : 'visibly';
    }
    if (!lost) return null;
    if (killed) return 'silently';
    const node = nodeOf(call.process);
    return this.#away.some((span) => span.node === node && span.to >= call.at && span.from <= until) ? 'visibly' : null;
  }
}

/** Whether the response of a call acknowledges a promise that its process keeps, also as a repetition. */
function isAcknowledging({ kind, status, text }: Call): boolean {
  if (kind === 'stock' || kind === 'action' || status === null) return false;
  return (status >= 200 && status < 300) || String(text).includes('"code":"duplicate_request"');
}

/** Redis is filled again within so long, unless other faults keep it from that. */
const FILL_MS = 30_000;

function bothLost(events: readonly Event[]): Span[] {
  const emptied = events.flatMap((event) =>
    event.what === 'redis-lost' && event.mode !== 'promoted' ? [event.at] : [],
  );
  return restoresOf(events).flatMap(({ from, to }) =>
    emptied.filter((at) => at > from - FILL_MS && at < to).map((at) => ({ from, to: Math.max(to, at + FILL_MS) })),
  );
}

/** Each from the begin of the backup until Postgres was repaired. */
const restoresOf = (events: readonly Event[]): Span[] =>
  spansOf(
    events,
    (event) => event.what === 'fault' && event.fault === 'postgres-restore' && [event.phase, String(event.id)],
  );

function repairsOf(events: readonly Event[]): Span[] {
  return restoresOf(events).flatMap(({ from, to }) =>
    events.flatMap((event) =>
      event.what === 'postgres-restored' && event.at >= from && event.at <= to ? [{ from: event.at, to }] : [],
    ),
  );
}

const nodeOf = (process: string): string => process.split('#')[0] ?? '';

/** When a process was frozen, or could not reach an engine. */
function absencesOf(events: readonly Event[]): (Span & { node: string })[] {
  const away = (event: Event) => event.what === 'freeze' || event.what === 'unreachable';
  const nodes = new Set(events.flatMap((event) => (away(event) && 'process' in event ? [nodeOf(event.process)] : [])));
  return [...nodes].flatMap((node) =>
    (['freeze', 'unreachable'] as const).flatMap((what) =>
      spansOf(events, (event) => event.what === what && nodeOf(event.process) === node && [event.phase, node]).map(
        (span) => ({ ...span, node }),
      ),
    ),
  );
}

/** Spans between the begin and the end of things with a name, in order of their begin. */
export function spansOf(
  events: readonly Event[],
  read: (event: Event) => false | readonly ['begin' | 'end', string],
): Span[] {
  const open = new Map<string, Span>();
  const spans: Span[] = [];
  for (const event of events) {
    const found = read(event);
    if (!found) continue;
    const [phase, name] = found;
    if (phase === 'begin') {
      const span = { from: event.at, to: END };
      open.set(name, span);
      spans.push(span);
    } else {
      const span = open.get(name);
      if (span) span.to = event.at;
      open.delete(name);
    }
  }
  return spans;
}

function isolationsOf(events: readonly Event[]): (Span & { processes: string[] })[] {
  const found: (Span & { processes: string[] })[] = [];
  for (const event of events) {
    if (event.what !== 'isolated') continue;
    const last = found.at(-1);
    if (event.phase === 'begin') found.push({ from: event.at, to: END, processes: event.processes });
    else if (last) last.to = event.at;
  }
  return found;
}
