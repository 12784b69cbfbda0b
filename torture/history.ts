import { createReadStream, createWriteStream, type WriteStream } from 'node:fs';
import { createInterface } from 'node:readline';

export type CallKind =
  | 'token'
  | 'checkout'
  | 'status'
  | 'leave'
  | 'confirm'
  | 'release'
  | 'refund'
  /** A part of the units: the reservation keeps others. */
  | 'release_part'
  | 'refund_part'
  | 'validate'
  | 'redeem'
  | 'create'
  | 'codes'
  | 'stock'
  | 'action'
  | 'patch'
  | 'stats';

/** One attempt of a call, with its response. Times are milliseconds since the run began. */
export type Call = {
  type: 'call';
  n: number;
  kind: CallKind;
  at: number;
  end: number;
  api: string;
  /** The incarnation of the API process that the request was sent to, for example `api-1#2`. */
  process: string;
  product: string;
  user?: string;
  key?: string;
  keyIn?: 'header' | 'body';
  reservation?: string;
  /** Of operators' calls: the name of the action, or what the request changes. */
  detail?: string;
  body?: unknown;
  /** null = no complete response arrived; `error` says why. */
  status: number | null;
  error?: string;
  headers?: Record<string, string>;
  text?: string;
  /** Parts of a final check after the run. */
  final?: boolean;
};

/** A frame that a WebSocket client received. */
export type Frame = {
  type: 'frame';
  at: number;
  socket: string;
  process: string;
  product: string;
  user: string;
  text: string;
};

/** Something that the run did to the system, or saw of its processes. */
export type Event = { type: 'event'; at: number } & (
  | { what: 'fault'; fault: string; phase: 'begin' | 'end'; id: number; note?: string }
  /** A process ended; `how` is kill (SIGKILL), stop (SIGTERM) or exit (by itself). */
  | { what: 'down'; process: string; how: 'kill' | 'stop' | 'exit'; note?: string }
  /** The process accepts connections. */
  | { what: 'up'; process: string }
  | { what: 'freeze'; process: string; phase: 'begin' | 'end' }
  /** The packets of a process to an engine are lost: it cannot save what it acknowledged. */
  | { what: 'unreachable'; process: string; phase: 'begin' | 'end' }
  /** Connections of clients to an API process were cut. */
  | { what: 'cut'; api: string }
  /**
   * Redis lost entries: all of them, those after a snapshot, or those that a promoted replica lacks. `filling`:
   * Postgres was set back while Redis was out of service, so what Redis had not yet been filled with is lost.
   */
  | { what: 'redis-lost'; mode: 'empty' | 'snapshot' | 'promoted' | 'filling' }
  /** Processes stay connected to a primary that was replaced. */
  | { what: 'isolated'; phase: 'begin' | 'end'; processes: string[] }
  | { what: 'redis-clock'; movedMs: number }
  /** What Postgres had when a backup was begun: the status of each reservation, and `product user` of each place. */
  | { what: 'backup'; redemptions: Record<string, string>; places: string[] }
  | { what: 'postgres-restored' }
  /** One try of the repair that follows ended. */
  | { what: 'repair'; code: number | null; output: string }
  /** This program was not scheduled for so long; the others shared that fate. */
  | { what: 'lag'; ms: number }
  /** One try of an operator to move a campaign ended. `code`: null = it was killed, on purpose or after two minutes. */
  | { what: 'move'; product: string; shard: number; began: number; code: number | null; output: string }
  | { what: 'calm' }
  | { what: 'recovered'; api: string; afterMs: number | null }
);

export type HistoryRecord = Call | Frame | Event;
export type Recorded = { calls: readonly Call[]; frames: readonly Frame[]; events: readonly Event[] };
type Without<Type> = Type extends unknown ? Omit<Type, 'type' | 'at'> : never;

/** Everything that happened, in memory for the judge and as JSON lines on disk. */
export class History {
  readonly calls: Call[] = [];
  readonly frames: Frame[] = [];
  readonly events: Event[] = [];
  readonly #began = performance.now();
  readonly #file: WriteStream;
  #lastCall = 0;

  constructor(path: string) {
    this.#file = createWriteStream(path);
  }

  /** Milliseconds since the run began, to a tenth. */
  now(): number {
    return Math.round((performance.now() - this.#began) * 10) / 10;
  }

  nextCall(): number {
    this.#lastCall += 1;
    return this.#lastCall;
  }

  call(call: Call): void {
    this.calls.push(call);
    this.#write(call);
  }

  frame(frame: Omit<Frame, 'type' | 'at'>): void {
    const record: Frame = { type: 'frame', at: this.now(), ...frame };
    this.frames.push(record);
    this.#write(record);
  }

  event(event: Without<Event>): void {
    const record = { type: 'event', at: this.now(), ...event } as Event;
    this.events.push(record);
    this.#write(record);
  }

  close(): Promise<void> {
    return new Promise((resolve) => this.#file.end(() => resolve()));
  }

  #write(record: HistoryRecord): void {
    this.#file.write(`${JSON.stringify(record)}\n`);
  }
}

/** What an earlier run wrote, line by line. */
export async function readHistory(path: string): Promise<Recorded> {
  const [calls, frames, events]: [Call[], Frame[], Event[]] = [[], [], []];
  for await (const line of createInterface({ input: createReadStream(path) })) {
    const record = JSON.parse(line) as HistoryRecord;
    if (record.type === 'call') calls.push(record);
    else if (record.type === 'frame') frames.push(record);
    else events.push(record);
  }
  return { calls, frames, events };
}
