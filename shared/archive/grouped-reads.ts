import DataLoader from 'dataloader';
import { EngineUnavailable } from '../errors/faults.js';

/**
 * Groups reads: questions that arrive together are read by one statement, and one statement runs at a time. Questions
 * that arrive meanwhile wait for the next one. So a crowd of users costs Postgres little more than reading their rows.
 */
export class GroupedReads<Question, Answer> {
  readonly #loader: DataLoader<Question, Answer>;
  readonly #groups: (() => void)[] = [];
  #reading = false;
  #waiting = 0;

  /** @param read returns the answers in the order of the questions */
  constructor(
    read: (questions: readonly Question[]) => Promise<Answer[]>,
    readonly limits: { group: number; waiting: number },
  ) {
    this.#loader = new DataLoader(
      async (questions) => {
        try {
          return await read(questions);
        } finally {
          this.#reading = false;
          this.#next();
        }
      },
      {
        cache: false,
        maxBatchSize: limits.group,
        batchScheduleFn: (dispatch) => {
          this.#groups.push(dispatch);
          this.#next();
        },
      },
    );
  }

  /** @throws EngineUnavailable when Postgres cannot be read, or too many questions wait already */
  async ask(question: Question): Promise<Answer> {
    if (this.#waiting >= this.limits.waiting) {
      throw new EngineUnavailable('postgres', `${this.#waiting} questions are waiting for it already`);
    }
    this.#waiting += 1;
    try {
      return await this.#loader.load(question);
    } finally {
      this.#waiting -= 1;
    }
  }

  #next(): void {
    if (this.#reading) return;
    const dispatch = this.#groups.shift();
    if (!dispatch) return;
    this.#reading = true;
    // Groups the reads that begin in this turn of the event loop.
    setImmediate(dispatch);
  }
}
